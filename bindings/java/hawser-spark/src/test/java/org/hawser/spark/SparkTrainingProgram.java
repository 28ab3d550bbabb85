package org.hawser.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.hawser.Config;
import org.hawser.Engine;
import org.hawser.HawserException;

/**
 * The program that tests/bindings/engines/java_spark_test.sh submits. It trains on two ranks and kills the
 * executor of one: the run continues, and ends bit-identical to a manual resume. It also tests errors that a
 * retry would repeat, and files of a frame's tokens. Its argument is an empty folder.
 */
public final class SparkTrainingProgram {
  private static final int STEPS = 60;
  private static final int LOST_AT = 23;
  private static final int EVERY = 10;

  private final Path folder;
  private final SparkSession session;

  private SparkTrainingProgram(Path folder, SparkSession session) {
    this.folder = folder;
    this.session = session;
  }

  public static void main(String[] words) throws IOException {
    try (SparkSession session = SparkSession.builder().getOrCreate()) {
      session.sparkContext().setLogLevel("OFF");
      SparkTrainingProgram program = new SparkTrainingProgram(Path.of(words[0]), session);
      Files.writeString(program.folder.resolve("text"), "the quick brown fox jumps over the lazy dog. ".repeat(100));
      program.aKilledRankEndsInTheBitsOfADirectResume();
      program.anErrorThatWouldComeAgainIsThrown();
      program.tokensOfAFrame();
    }
  }

  private static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
    System.out.println("holds: " + what);
  }

  private SparkTraining training() {
    return new SparkTraining(JavaSparkContext.fromSparkContext(session.sparkContext()));
  }

  private Config config(String checkpoints) {
    return Config.builder()
        .set("/seed", 7)
        .set("/cpu", Map.of("threads", 1))
        .set("/model", Map.of("layers", 2, "width", 64, "heads", 4, "context", 64))
        .set("/data", Map.of("path", folder.resolve("text").toString(), "format", "text", "vocabulary", "bytes"))
        .set("/batch", Map.of("micro_batch", 2, "global_batch", 8))
        .set("/optimizer", Map.of("learning_rate", 0.01))
        .set("/mesh", Map.of("dp_shard", 2))
        .set("/zero", Map.of("stage", 2))
        .set("/checkpoint",
            Map.of("path", folder.resolve(checkpoints).toString(), "every", EVERY, "keep_last", 1000))
        .set("/train", Map.of("steps", STEPS))
        .build();
  }

  /** Kills rank 1's executor in the first attempt. */
  private record KillOnce(String mark) implements SparkTraining.Setup {
    @Override
    public void prepare(Engine engine, int rank) {
      if (rank != 1 || Files.exists(Path.of(mark))) return;
      Thread killer = new Thread(() -> killAtStep(engine));
      killer.setDaemon(true);
      killer.start();
    }

    private void killAtStep(Engine engine) {
      try {
        while (engine.progress().step() < LOST_AT) Thread.sleep(1);
        Files.createFile(Path.of(mark));
        new ProcessBuilder("kill", "-9", Long.toString(ProcessHandle.current().pid())).start();
      } catch (IOException | InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  private void aKilledRankEndsInTheBitsOfADirectResume() throws IOException {
    long began = System.nanoTime();
    SparkTraining.Result result =
        training().setup(new KillOnce(folder.resolve("killed").toString())).train(config("checkpoints"), 2);
    System.out.printf("%s, %.1f s%n", result, (System.nanoTime() - began) / 1e9);
    check(result.step() == STEPS && result.ranks() == 2, "the run ends at its last step, on two ranks");
    check(result.losses().size() == 1, "one rank was lost");
    check(result.began() >= LOST_AT - EVERY, "it went on from the newest checkpoint");
    try (Config direct = config("direct").fitRanks(2); Engine engine = Engine.create(direct, 2)) {
      engine.load(folder.resolve("checkpoints/step-" + result.began()));
      engine.train();
      check(engine.progress().loss() == result.loss(), "the loss is that of a direct resume");
    }
    Map<String, byte[]> ours = tensors("checkpoints");
    Map<String, byte[]> direct = tensors("direct");
    check(!ours.isEmpty() && ours.keySet().equals(direct.keySet())
        && ours.keySet().stream().allMatch(name -> Arrays.equals(ours.get(name), direct.get(name))),
        "so are the bits of all tensors");
  }

  private Map<String, byte[]> tensors(String checkpoints) throws IOException {
    Map<String, byte[]> tensors = new TreeMap<>();
    try (Stream<Path> files = Files.list(folder.resolve(checkpoints).resolve("step-" + STEPS))) {
      for (Path file : files.filter(path -> path.toString().endsWith(".safetensors")).toList()) {
        tensors.put(file.getFileName().toString(), Files.readAllBytes(file));
      }
    }
    return tensors;
  }

  private void anErrorThatWouldComeAgainIsThrown() {
    try (Config config = config("none").with("/data/path", folder.resolve("not-there").toString())) {
      training().train(config, 2);
      check(false, "a run without its data fails");
    } catch (HawserException.NotFound e) {
      check(e.getMessage().contains("not-there"), "what would come again is thrown");
    }
    try {
      training().setup((engine, rank) -> { throw new IllegalStateException("of setup"); }).train(config("none"), 2);
      check(false, "a setup that throws ends the run");
    } catch (Exception e) {
      check(String.valueOf(e.getMessage()).contains("of setup"), "what a setup throws is told");
    }
  }

  private void tokensOfAFrame() throws IOException {
    List<int[]> rows = IntStream.range(0, 50).mapToObj(i -> IntStream.range(i, i + 20).toArray()).toList();
    Path path = folder.resolve("tokens.u32");
    long count = TokenFiles.write(
        session.createDataset(rows, Encoders.javaSerialization(int[].class)).map(
            (org.apache.spark.api.java.function.MapFunction<int[], String>) row ->
                String.join(" ", Arrays.stream(row).mapToObj(Integer::toString).toList()),
            Encoders.STRING()).selectExpr("cast(split(value, ' ') as array<int>) as tokens"),
        "tokens", path, OptionalInt.of(99));
    check(count == 50 * 21 && Files.size(path) == 4 * count, "a column is written with its separators");
    try (Config config = config("of-tokens").with("/model/vocab_size", 100).with("/data",
        Map.of("path", path.toString(), "format", "tokens", "token_type", "u32", "separator", 99))) {
      SparkTraining.Result result = training().train(config, 2);
      check(result.step() == STEPS && result.losses().isEmpty(), "and trained on");
    }
  }
}
