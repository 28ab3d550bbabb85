import java.util.Random;
import org.hawser.Config;
import org.hawser.DataSource;
import org.hawser.Engine;

/**
 * Trains on data that the program generates, here sums such as 3 4 7, and shows a progress bar:
 * {@code java Source.java [STEPS]}.
 */
public class Source {
  private static final String CONFIG = """
      {"model": {"vocab_size": 10, "context": 12, "layers": 2, "width": 32, "heads": 4},
       "batch": {"micro_batch": 16}, "optimizer": {"learning_rate": 0.01}}""";

  public static void main(String[] arguments) {
    long steps = arguments.length > 0 ? Long.parseLong(arguments[0]) : 300;
    try (var config = Config.builder().json(CONFIG).set("/train/steps", steps).build();
        var engine = Engine.create(config)) {
      engine.source(sums());
      engine.train(record -> {
        bar(record.step().step(), record.totalSteps(), record.loss());
        return true;
      });
      System.out.println();
    }
  }

  /**
   * Returns a source of rows that repeat a, b, (a + b) mod 10. The position seeds the numbers, so that a
   * resumed run trains on the same rows.
   */
  private static DataSource sums() {
    return batch -> {
      for (int row = 0; row < batch.rows(); ++row) {
        Random random = new Random(batch.samples() + row);
        int[] tokens = new int[batch.columns() + 1];
        for (int i = 0; i < tokens.length; ++i) {
          tokens[i] = i % 3 == 2 ? (tokens[i - 2] + tokens[i - 1]) % 10 : random.nextInt(10);
        }
        for (int i = 0; i < batch.columns(); ++i) {
          batch.tokens().put(tokens[i]);
          batch.targets().put(i % 3 == 1 ? tokens[i + 1] : -100); // only the sums are predictable
        }
      }
      return true;
    };
  }

  private static void bar(long step, long steps, double loss) {
    int filled = (int) (40 * step / steps);
    System.out.printf("\r[%s%s] %d/%d  loss %.4f", "#".repeat(filled), "-".repeat(40 - filled), step, steps, loss);
  }
}
