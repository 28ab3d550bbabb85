package org.hawser;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** Tests that the VM can end during a run: when main returns, by System.exit, and in a listener. */
class ExitTest {
  @Test
  void twentyExits() throws Exception {
    String[] ways = {"return", "exit", "listener", "source"};
    for (int i = 0; i < 20; ++i) {
      Vm.Result result = Vm.withClasses("org.hawser.ExitTest$Program", ways[i % ways.length]).run();
      assertEquals(new Vm.Result(0, ""), result, ways[i % ways.length]);
    }
  }

  /** Starts endless training on daemon threads, one of them on two ranks, and ends the VM. */
  public static final class Program {
    private Program() {}

    /** arguments: the way in which the VM ends. */
    public static void main(String[] arguments) throws Exception {
      String way = arguments[0];
      Engine one = Tiny.engine();
      Engine two;
      try (Config config = Tiny.config();
          Config ranks = config.fitRanks(2)) {
        two = Engine.create(ranks, 2);
      }
      for (Engine engine : new Engine[] {one, two}) {
        engine.source(batch -> {
          if (way.equals("source") && batch.step() == 20) System.exit(0);
          return Tiny.source(Long.MAX_VALUE).fill(batch);
        });
        Thread thread = new Thread(() -> engine.train(1_000_000_000, record -> {
          if (way.equals("listener") && record.step().step() == 20) System.exit(0);
          return true;
        }));
        thread.setDaemon(true);
        thread.start();
      }
      while (one.progress().step() < 30 && (way.equals("return") || way.equals("exit"))) Thread.sleep(1);
      if (way.equals("exit")) System.exit(0);
      if (way.equals("return")) return;
      Thread.sleep(30_000);
    }
  }
}
