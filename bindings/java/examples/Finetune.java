import java.nio.file.Files;
import java.nio.file.Path;
import org.hawser.Config;
import org.hawser.Engine;

/**
 * Continues training the model of a Hugging Face folder on tokens, and exports it as a Hugging Face folder:
 * {@code java Finetune.java MODEL DATA OUT [STEPS]}. DATA is a file of little-endian 16-bit tokens, made with
 * the model's tokenizer.
 */
public class Finetune {
  public static void main(String[] arguments) {
    Path model = Path.of(arguments[0]);
    Path data = Path.of(arguments[1]);
    Path out = Path.of(arguments[2]);
    long steps = arguments.length > 3 ? Long.parseLong(arguments[3]) : 100;

    if (Files.exists(out)) {
      System.err.println(out + " exists; give a new folder");
      System.exit(2);
    }
    try (var config = Config.builder()
            .fromModel(model)
            .set("/data/format", "tokens")
            .set("/data/token_type", "u16")
            .set("/data/path", data.toString())
            .set("/batch/micro_batch", 4)
            .set("/optimizer/learning_rate", 0.0001)
            .set("/train/steps", steps)
            .build()) {
      for (var problem : config.validate()) {
        System.err.println(problem.pointer() + ": " + problem.message() + "; " + problem.fix());
      }
      try (var engine = Engine.create(config)) {
        engine.train(record -> {
          System.out.printf("step %d of %d  loss %.4f%n", record.step().step(), record.totalSteps(), record.loss());
          return true;
        });
        engine.export(out, null); // null keeps the dtype of the original
      }
    }
    System.out.println("exported to " + out);
  }
}
