// Resolves CHECKPOINT on the command line: a run folder, a checkpoint directory or a Hugging Face folder.
#pragma once

#include <string>

#include "bindings/cli/client.h"

namespace hawser::cli {

enum class ModelKind { kCheckpoint, kHuggingFace };

/// The place and kind of a model on disk.
struct ModelPath {
  ModelKind kind = ModelKind::kCheckpoint;
  std::string path;  ///< the checkpoint or Hugging Face folder itself
};

/// Finds the model at the path `name`, or of that name in the Hub's cache. For a run folder (or its
/// checkpoints/) it is the newest valid checkpoint. Throws Failure (HWS_NOT_FOUND, HWS_INVALID_ARGUMENT)
/// that lists what was looked for.
ModelPath find_model(const std::string& name);

/// Returns a config that runs the model on rows of one micro-batch: the model's own section and precision,
/// weights through init.from, no data. Rows have `sequence` tokens, or the model's context if that is
/// shorter.
Config model_config(const ModelPath& model, int64_t sequence, int64_t threads);

/// Returns the model's context length in tokens.
int64_t model_context(const ModelPath& model);

/// Returns the tokens per row that the checkpoint was trained with; 0 if unknown (Hugging Face folders).
int64_t trained_sequence(const ModelPath& model);

/// True if the engine's model reads text, because it has a tokenizer or a byte or character vocabulary. Also
/// true if reading text fails for another reason, such as a missing module, which the next call reports.
bool reads_text(const hws_engine* engine);

}  // namespace hawser::cli
