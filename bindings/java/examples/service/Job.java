package service;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.hawser.Config;
import org.hawser.Engine;
import org.hawser.HawserException;
import org.hawser.Json;
import org.hawser.Progress;

/**
 * One job: its request, its progress and its folder. Its lock guards the state; each change notifies waiting
 * threads.
 */
final class Job {
  enum State {
    QUEUED,
    RUNNING,
    DONE,
    FAILED,
    CANCELLED;

    boolean ended() {
      return ordinal() >= DONE.ordinal();
    }

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  private static final long MOST_STEPS = 1_000_000_000_000L; // the maximum of /checkpoint/every

  final String name;
  final Map<?, ?> config;
  final long checkpointEvery;
  final long order;
  final long totalSteps;
  final Path folder;

  private State state = State.QUEUED;
  private long step;
  private Double loss;
  private Map<?, ?> error;
  private Engine engine;
  private boolean begun;
  private boolean cancelled;

  private Job(Path root, Map<?, ?> fields, long order, long totalSteps) {
    this.name = (String) fields.get("name");
    this.config = (Map<?, ?>) fields.get("config");
    this.checkpointEvery = (Long) fields.get("checkpoint_every");
    this.order = order;
    this.totalSteps = totalSteps;
    this.folder = root.resolve(name);
  }

  /** Checks a client's job. Its config may name only files below {@code allowed}; null allows every path. */
  static Job parse(Path root, String body, long order, Path allowed) {
    if (!(parsed(body) instanceof Map<?, ?> given)) throw Refusal.badRequest("the body is not a JSON object");
    for (Object key : given.keySet()) {
      if (!Set.of("name", "config", "checkpoint_every").contains(key)) throw Refusal.badRequest("unknown key " + key);
    }
    Map<Object, Object> fields = new LinkedHashMap<>(given);
    fields.putIfAbsent("checkpoint_every", 10L);
    if (!(fields.get("name") instanceof String name && name.matches("[a-z0-9-]{1,64}"))) {
      throw Refusal.badRequest("name must be 1 to 64 of a-z, 0-9 and -");
    }
    if (!(fields.get("config") instanceof Map)) throw Refusal.badRequest("config must be a JSON object");
    if (!(fields.get("checkpoint_every") instanceof Long every && every > 0 && every <= MOST_STEPS)) {
      throw Refusal.badRequest("checkpoint_every must be a whole number from 1 to " + MOST_STEPS);
    }
    if (allowed != null) Paths.check((Map<?, ?>) fields.get("config"), allowed);
    return new Job(root, fields, order, checkedSteps(Json.write(fields.get("config")), every));
  }

  private static Object parsed(String body) {
    try {
      return Json.parse(body);
    } catch (IllegalArgumentException e) {
      throw Refusal.badRequest(e.getMessage());
    }
  }

  /** Returns the number of steps of a config, and refuses an invalid config. */
  private static long checkedSteps(String json, long checkpointEvery) {
    try (Config given = Config.parse(json);
        Config config = given.with("/checkpoint/every", checkpointEvery)) {
      var problems = config.validate();
      if (!problems.isEmpty()) {
        var first = problems.get(0);
        throw new Refusal(400, "HWS_CONFIG_INVALID", first.pointer() + ": " + first.message() + "; " + first.fix());
      }
      Map<?, ?> resolved = (Map<?, ?>) Json.parse(config.toResolvedJson());
      return (Long) ((Map<?, ?>) resolved.get("train")).get("steps");
    } catch (HawserException e) {
      throw new Refusal(400, Refusal.error(e));
    }
  }

  /** Reads a job of an earlier process. */
  static Job read(Path folder) throws IOException {
    Map<?, ?> fields = (Map<?, ?>) Json.parse(Files.readString(folder.resolve("job.json")));
    Job job = new Job(folder.getParent(), fields, (Long) fields.get("order"), (Long) fields.get("total_steps"));
    job.state = State.valueOf(((String) fields.get("state")).toUpperCase(Locale.ROOT));
    job.step = (Long) fields.get("step");
    job.loss = (Double) fields.get("loss");
    job.error = (Map<?, ?>) fields.get("error");
    return job;
  }

  /** Writes the job's file. */
  synchronized void write() throws IOException {
    Map<String, Object> fields = new LinkedHashMap<>(view());
    fields.put("order", order);
    fields.put("checkpoint_every", checkpointEvery);
    fields.put("config", config);
    Folders.replace(folder.resolve("job.json"), Json.write(fields));
  }

  /** Returns the fields that a client sees. */
  synchronized Map<String, Object> view() {
    long now = step;
    Double lossNow = loss;
    if (engine != null) {
      Progress progress = engine.progress();
      now = progress.step();
      lossNow = Double.isFinite(progress.loss()) ? (Double) progress.loss() : lossNow;
    }
    Map<String, Object> view = new LinkedHashMap<>();
    view.put("name", name);
    view.put("state", state.toString());
    view.put("step", now);
    view.put("total_steps", totalSteps);
    view.put("loss", lossNow);
    view.put("error", error);
    return view;
  }

  synchronized State state() {
    return state;
  }

  /** Takes the job from the queue; false if it was cancelled meanwhile. */
  synchronized boolean begin() throws IOException {
    if (state.ended()) return false;
    state = State.RUNNING;
    write();
    return true;
  }

  /** Sets the engine that trains the job now, or null. */
  synchronized void trainsIn(Engine engine) {
    this.engine = engine;
    begun = true;
  }

  /**
   * True if the existing metrics rows will not be removed: this process has begun the job, or will never
   * train it.
   */
  synchronized boolean keepsRows() {
    return begun || state.ended();
  }

  synchronized void took(long step, double loss) {
    this.step = step;
    this.loss = Double.isFinite(loss) ? (Double) loss : null;
    notifyAll();
  }

  synchronized void end(State state, Map<?, ?> error) throws IOException {
    this.state = state;
    this.error = error;
    notifyAll();
    write();
  }

  /** Requests the end of the job; a queued job ends at once. Returns its state. */
  synchronized State cancel() throws IOException {
    if (state.ended()) throw new Refusal(409, "CONFLICT", "the job has ended: " + state);
    cancelled = true;
    if (state == State.QUEUED) end(State.CANCELLED, null);
    return state;
  }

  synchronized boolean isCancelled() {
    return cancelled;
  }

  /** Waits for a change, at most 100 ms. */
  synchronized void await() throws InterruptedException {
    if (!state.ended()) wait(100);
  }

  Path metrics() {
    return folder.resolve("metrics.jsonl");
  }
}
