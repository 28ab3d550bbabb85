package service;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.hawser.Config;
import org.hawser.Engine;
import org.hawser.HawserException;
import org.hawser.Json;
import org.hawser.TrainRecord;

/** Runs jobs one after the other. A job that an earlier process began resumes from its newest checkpoint. */
final class Worker extends Thread {
  private static final int KEPT_CHECKPOINTS = 2;

  private final BlockingQueue<Job> queue = new LinkedBlockingQueue<>();
  private volatile boolean stopping;

  Worker() {
    super("worker");
    setDaemon(true);
  }

  void add(Job job) {
    queue.add(job);
  }

  /** Ends the running job after its step and saves it, then returns. */
  void end() throws InterruptedException {
    stopping = true;
    join();
  }

  @Override
  public void run() {
    while (!stopping) {
      try {
        Job job = queue.poll(50, TimeUnit.MILLISECONDS);
        if (job != null && job.begin()) work(job);
      } catch (InterruptedException e) {
        return;
      } catch (IOException e) { // this process still has the state, though the disk does not
        System.err.println("cannot write the state of a job: " + e);
      }
    }
  }

  private void work(Job job) throws IOException {
    try (Config config = Config.parse(Json.write(job.config));
        Engine engine = Engine.create(config)) {
      train(job, engine);
      if (job.isCancelled()) {
        job.end(Job.State.CANCELLED, null);
      } else if (!stopping || engine.progress().step() >= job.totalSteps) {
        Folders.delete(job.folder.resolve("model"));
        engine.export(job.folder.resolve("model"), null);
        job.end(Job.State.DONE, null);
      }
    } catch (Exception e) {
      job.end(Job.State.FAILED, Refusal.error(e));
    }
  }

  private void train(Job job, Engine engine) throws IOException {
    Path checkpoints = Files.createDirectories(job.folder.resolve("checkpoints"));
    resume(engine, checkpoints);
    keepRows(job.metrics(), engine.progress().step());
    try (OutputStream rows = Files.newOutputStream(job.metrics(), StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
      job.trainsIn(engine);
      if (engine.progress().step() < job.totalSteps) {
        engine.train(job.totalSteps, record -> {
          boolean goesOn = !stopping && !job.isCancelled();
          write(rows, record);
          job.took(record.step().step(), record.loss());
          if (record.step().step() % job.checkpointEvery == 0 || stopping) save(engine, checkpoints, record.step().step());
          return goesOn;
        });
      }
    } finally {
      job.trainsIn(null);
    }
  }

  private static void resume(Engine engine, Path checkpoints) {
    try {
      engine.loadLatest(checkpoints, false);
    } catch (HawserException.NotFound none) {
      // The job has no checkpoint, so it starts from the beginning.
    }
  }

  /** Removes the rows after a step, because they will be written again. */
  private static void keepRows(Path metrics, long steps) throws IOException {
    if (!Files.exists(metrics)) return;
    List<String> rows = Files.readAllLines(metrics);
    List<String> kept = rows.subList(0, (int) Math.min(rows.size(), steps));
    Folders.replace(metrics, kept.isEmpty() ? "" : String.join("\n", kept) + "\n");
  }

  private static void write(OutputStream rows, TrainRecord record) {
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("step", record.step().step());
    row.put("loss", Double.isFinite(record.loss()) ? (Double) record.loss() : null);
    row.put("learning_rate", record.step().learningRate());
    row.put("tokens_per_second", record.tokensPerSecond());
    try {
      rows.write((Json.write(row) + "\n").getBytes());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void save(Engine engine, Path checkpoints, long step) {
    engine.save(checkpoints.resolve("step-" + step));
    try {
      List<Path> all = Folders.list(checkpoints).stream().sorted((a, b) -> Long.compare(stepOf(a), stepOf(b))).toList();
      for (Path old : all.subList(0, Math.max(0, all.size() - KEPT_CHECKPOINTS))) Folders.delete(old);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns 20 for "step-20". Other names sort last, so those folders are kept. */
  private static long stepOf(Path checkpoint) {
    String name = checkpoint.getFileName().toString();
    return name.matches("step-[0-9]{1,18}") ? Long.parseLong(name.substring(5)) : Long.MAX_VALUE;
  }
}
