import java.nio.file.Files;
import java.nio.file.Path;
import org.hawser.Config;
import org.hawser.Engine;
import org.hawser.Generation;

/**
 * Trains a small model from scratch on the bytes of a text file, then generates text:
 * {@code java Train.java FILE [STEPS]}.
 */
public class Train {
  public static void main(String[] arguments) throws Exception {
    Path text = Path.of(arguments[0]);
    long steps = arguments.length > 1 ? Long.parseLong(arguments[1]) : 200;
    System.out.printf("%s: %,d bytes%n", text, Files.size(text));

    try (var config = Config.builder()
            .set("/model/vocab_size", 256)
            .set("/model/context", 64)
            .set("/model/layers", 2)
            .set("/model/width", 64)
            .set("/model/heads", 4)
            .set("/batch/micro_batch", 8)
            .set("/optimizer/learning_rate", 0.003)
            .set("/data/format", "text")
            .set("/data/vocabulary", "bytes")
            .set("/data/path", text.toString())
            .set("/train/steps", steps)
            .build();
        var engine = Engine.create(config)) {
      engine.train(record -> {
        if (record.step().step() % 10 == 0) {
          System.out.printf("step %d  loss %.3f  %,.0f tokens/s%n", record.step().step(), record.loss(),
              record.tokensPerSecond());
        }
        return true;
      });
      int[] prompt = engine.encode("The ");
      System.out.println("The " + engine.decode(engine.generate(Generation.of(prompt).tokens(60).temperature(0.8).topK(20))));
    }
  }
}
