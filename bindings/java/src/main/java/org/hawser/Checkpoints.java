package org.hawser;

import java.nio.file.Path;
import java.util.List;

/** Inspects, verifies and converts checkpoints and Hugging Face folders without an engine. */
public final class Checkpoints {
  private Checkpoints() {}

  /** Returns model, step, tensors and files of a checkpoint, as JSON. */
  public static String inspect(Path checkpoint) {
    return Text.of(Native.hws_checkpoint_inspect(checkpoint.toString()));
  }

  /**
   * Checks every digest.
   *
   * @throws HawserException.CheckpointCorrupt names file, tensor and byte range
   */
  public static void verify(Path checkpoint) {
    Native.hws_checkpoint_verify(checkpoint.toString());
  }

  /**
   * Returns the newest valid checkpoint below a folder (step-*, best).
   *
   * @throws HawserException.NotFound if there is none
   * @throws HawserException.CheckpointCorrupt if every checkpoint is damaged
   */
  public static Path latest(Path folder) {
    return Path.of(Text.of(Native.hws_checkpoint_latest(folder.toString())));
  }

  /** Makes a checkpoint of step 0 from a Hugging Face folder. */
  public static void fromHuggingFace(Path huggingFace, Path checkpoint, String... ignoredKeys) {
    String keys = ignoredKeys.length == 0 ? null : Json.write(List.of(ignoredKeys));
    Native.hws_checkpoint_import(huggingFace.toString(), checkpoint.toString(), keys);
  }

  /**
   * Makes a checkpoint with the weighted mean of the weights of several checkpoints of one model, computed in
   * f64 and rounded once to f32. The new checkpoint has no optimizer state.
   *
   * @param weights the share of each checkpoint, relative to the others; null for equal shares
   * @throws HawserException.CheckpointIncompatible if the checkpoints are of different models
   */
  public static void average(List<Path> checkpoints, List<Double> weights, Path target) {
    List<String> paths = checkpoints.stream().map(Path::toString).toList();
    Native.hws_checkpoint_average(
        Json.write(paths), weights == null ? null : Json.write(weights), target.toString());
  }

  /**
   * Makes a Hugging Face folder from a checkpoint. dtype: "f32", "bf16" or "f16"; null for the dtype of the
   * import (f32 for a model that was not imported). If the target's name ends in ".gguf", makes a file for
   * llama.cpp instead; its dtype may also be "q8_0".
   */
  public static void toHuggingFace(Path checkpoint, Path target, String dtype) {
    Native.hws_checkpoint_export(checkpoint.toString(), target.toString(), dtype);
  }

  /** Makes a PEFT folder from the adapter in a checkpoint, or a file for llama.cpp if the target ends in ".gguf". */
  public static void adapterToPeft(Path checkpoint, Path target) {
    Native.hws_checkpoint_export_adapter(checkpoint.toString(), target.toString());
  }
}
