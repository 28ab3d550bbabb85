package org.hawser;

import java.nio.IntBuffer;
import java.nio.file.Path;

/** A tiny model that trains quickly, and batches for it. */
final class Tiny {
  static final int ROWS = 4;
  static final int COLUMNS = 16;
  static final int VOCABULARY = 61;
  static final String JSON = """
      {"seed": 7, "cpu": {"threads": 1}, "batch": {"micro_batch": 4}, "train": {"steps": 8},
       "model": {"vocab_size": 61, "context": 16, "layers": 2, "width": 32, "heads": 4}}""";

  private Tiny() {}

  static Config config() {
    return Config.parse(JSON);
  }

  static Engine engine() {
    try (Config config = config()) {
      return Engine.create(config);
    }
  }

  /** Returns a source that fills every batch the same way and ends after `steps` steps. */
  static DataSource source(long steps) {
    return batch -> {
      fill(batch.tokens(), batch.targets(), batch.samples());
      return batch.step() <= steps;
    };
  }

  static void fill(IntBuffer tokens, IntBuffer targets, long seed) {
    for (int i = 0; i < tokens.capacity(); ++i) {
      tokens.put(i, (int) ((seed + 7 * i) % VOCABULARY));
      targets.put(i, (int) ((seed + 7 * i + 7) % VOCABULARY));
    }
  }

  static Batch batch(long seed) {
    IntBuffer tokens = Buffers.ints(ROWS * COLUMNS);
    IntBuffer targets = Buffers.ints(ROWS * COLUMNS);
    fill(tokens, targets, seed);
    return new Batch(ROWS, COLUMNS, tokens, targets);
  }

  static Path build() {
    return Path.of(System.getProperty("hawser.build"));
  }

  static Path root() {
    return Path.of(System.getProperty("hawser.root"));
  }
}
