package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/**
 * Tests that objects that are made and closed many times leave nothing behind: no memory outside Java's heap,
 * no threads and no handles. Each test runs in a VM of its own that allocates its whole heap at the start, so
 * that the process grows only with the library. That VM collects often, because direct buffers and views stay
 * until they are collected.
 */
class LifetimeTest {
  private static Vm.Result run(String what, int count) throws Exception {
    return Vm.withClasses("-Xms48m", "-Xmx48m", "-XX:+AlwaysPreTouch", "-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1",
        "-XX:MaxDirectMemorySize=1m", "org.hawser.LifetimeTest$Program", what, Integer.toString(count)).run();
  }

  private static void grows(String what, int count, int limitKilobytes) throws Exception {
    Vm.Result result = run(what, count);
    assertEquals(0, result.code(), result.output());
    long grown = Long.parseLong(result.output().strip().replaceAll("(?s).*grown ", ""));
    System.out.println(what + " " + count + ": grown " + grown + " kB");
    assertTrue(grown < limitKilobytes, what + ", " + count + " times: grown by " + grown + " kB");
  }

  /** HAWSER_ENGINES=5000 tests the number of engines that the project promises. */
  @Test
  void engines() throws Exception {
    String count = System.getenv("HAWSER_ENGINES");
    grows("engines", count == null ? 200 : Integer.parseInt(count), 1024);
  }

  @Test
  void failingCalls() throws Exception {
    grows("failing calls", 2000, 10 * 1024);
  }

  @Test
  void droppedObjects() throws Exception {
    Vm.Result result = run("dropped", 20);
    assertEquals(0, result.code(), result.output());
    assertTrue(result.output().contains("the engine was never closed"), result.output());
    assertTrue(result.output().contains("all ended"), result.output());
  }

  /** The program that runs in the other VM. */
  public static final class Program {
    private Program() {}

    /** arguments: the kind of object, and the number of repetitions. */
    public static void main(String[] arguments) throws Exception {
      int count = Integer.parseInt(arguments[1]);
      switch (arguments[0]) {
        case "engines" -> measure(count, Program::engine);
        case "failing calls" -> {
          String large = "x".repeat(100_000);
          measure(count, i -> fail(large));
        }
        default -> drop(count);
      }
    }

    private interface Action {
      void run(int i) throws Exception;
    }

    private static void measure(int count, Action action) throws Exception {
      for (int i = 0; i < Math.max(100, count / 5); ++i) action.run(i);
      long before = kilobytes();
      for (int i = 0; i < count; ++i) action.run(i);
      System.out.println("grown " + (kilobytes() - before));
    }

    /** Makes and closes every kind of object, with new inputs. */
    private static void engine(int i) {
      try (Config config = Config.parse(Tiny.JSON.replace("\"seed\": 7", "\"seed\": " + i));
          Engine engine = Engine.create(config)) {
        engine.push(Tiny.batch(i));
        engine.trainStep();
        engine.source(Tiny.source(3));
        engine.onMetrics(json -> json.length());
        engine.train(3, record -> true);
        engine.generate(Generation.of(i % 61).tokens(2));
        engine.forward(Tiny.batch(i), Buffers.floats(64 * 61));
        engine.tensors().view(Tensor.WEIGHT, "embedding.tokens.weight");
        engine.info();
      }
    }

    private static void fail(String large) throws IOException {
      for (int kind = 0; kind < 4; ++kind) {
        try {
          switch (kind) {
            case 0 -> Config.parse("{\"" + large + "\": 1}");
            case 1 -> Config.parse("[" + large);
            case 2 -> Config.preset(large);
            default -> Checkpoints.verify(Path.of("/" + large));
          }
          throw new AssertionError("call " + kind + " has not failed");
        } catch (HawserException expected) {
          if (expected.getMessage().isEmpty()) throw new AssertionError("no message", expected);
        }
      }
    }

    private static void drop(int count) throws Exception {
      int threads = threads();
      try (Config config = Tiny.config().with("/cpu/threads", 2)) {
        for (int i = 0; i < count; ++i) Engine.create(config).tensors().view(Tensor.WEIGHT, "embedding.tokens.weight");
      }
      if (threads() < threads + count) throw new AssertionError("an engine has threads");
      for (int i = 0; i < 100 && threads() > threads + 4; ++i) {
        System.gc();
        Thread.sleep(20);
      }
      if (threads() <= threads + 4) System.out.println("all ended");
    }

    private static int threads() throws IOException {
      return Integer.parseInt(status("Threads"));
    }

    private static long kilobytes() throws Exception {
      for (int i = 0; i < 5; ++i) {
        System.gc(); // frees direct buffers and views
        Thread.sleep(50);
      }
      return Long.parseLong(status("VmRSS"));
    }

    private static String status(String field) throws IOException {
      for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
        if (line.startsWith(field + ":")) return line.replaceAll("[^0-9]", "");
      }
      throw new AssertionError("no " + field);
    }
  }
}
