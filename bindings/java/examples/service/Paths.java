package service;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/** Checks the files and folders that a config names. If an allowed folder is given, they must be below it. */
final class Paths {
  private static final List<String> FIELDS =
      List.of(
          "data/path",
          "init/from",
          "init/base",
          "adapter/from",
          "objective/reference",
          "teacher/from",
          "checkpoint/path",
          "offload/folder",
          "cuda/algorithm_cache",
          "telemetry/tensorboard");
  private static final List<String> SOURCES = List.of("data/sources", "data/validation_sources");

  private Paths() {}

  /** Refuses a config that reads or writes anything outside of a folder. Links are followed. */
  static void check(Map<?, ?> config, Path allowed) {
    for (String field : FIELDS) check("/" + field, at(config, field), allowed);
    for (String field : SOURCES) {
      if (!(at(config, field) instanceof List<?> sources)) continue;
      for (Object source : sources) check("/" + field + "/path", at(source, "path"), allowed);
    }
  }

  private static void check(String field, Object value, Path allowed) {
    if (!(value instanceof String text)) return; // Hawser reports the error
    try {
      if (real(Path.of(text).toAbsolutePath()).startsWith(allowed)) return;
    } catch (IOException | InvalidPathException e) {
      // A path that cannot be resolved may be outside of the folder, so it is refused.
    }
    throw new Refusal(400, "NOT_ALLOWED", field + ": " + text + " is not below " + allowed + ", the folder of --root");
  }

  private static Object at(Object tree, String field) {
    for (String key : field.split("/")) tree = tree instanceof Map<?, ?> map ? map.get(key) : null;
    return tree;
  }

  /** Returns the path with links resolved in the part that exists. */
  private static Path real(Path path) throws IOException {
    for (Path known = path; known != null; known = known.getParent()) {
      if (!Files.exists(known)) continue;
      Path rest = known.relativize(path);
      for (Path part : rest) if (part.toString().equals("..")) throw new IOException(path + " leads back");
      return known.toRealPath().resolve(rest);
    }
    return path;
  }
}
