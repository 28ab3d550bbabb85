import org.hawser.Config;
import org.hawser.Engine;

/**
 * Trains on four ranks in one process, each with a quarter of the optimizer's state: {@code java Ranks.java
 * [STEPS]}.
 */
public class Ranks {
  private static final String CONFIG = """
      {"model": {"vocab_size": 64, "context": 16, "layers": 2, "width": 32, "heads": 4},
       "mesh": {"dp_shard": 4}, "zero": {"stage": 2}, "batch": {"micro_batch": 2}, "cpu": {"threads": 4}}""";

  public static void main(String[] arguments) {
    long steps = arguments.length > 0 ? Long.parseLong(arguments[0]) : 20;
    try (var config = Config.parse(CONFIG);
        var engine = Engine.create(config, 4)) {
      engine.source(batch -> {
        for (int i = 0; i < batch.rows() * batch.columns(); ++i) {
          batch.tokens().put(i, i % 64);
          batch.targets().put(i, (i + 1) % 64);
        }
        return true;
      });
      for (var step : engine.steps(steps)) System.out.printf("step %d  loss %.4f%n", step.step(), step.loss());
      System.out.println(engine.metrics());
    }
  }
}
