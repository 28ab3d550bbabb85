// Finding a model on disk and making a config that runs it.
#include "bindings/cli/open_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace fs = std::filesystem;

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

void set(hws_config* config, const char* pointer, const ordered_json& value) {
  check(hws_config_set(config, pointer, value.dump().c_str()));
}

/// Takes over how the model was trained, as far as it matters for running it.
void take_training_shape(hws_config* config, const std::string& checkpoint) {
  const auto description = ordered_json::parse(text_of(hws_checkpoint_inspect, checkpoint.c_str()));
  if (!description.contains("config") || !description["config"].is_object()) return;
  const ordered_json& trained = description["config"];
  const ordered_json::json_pointer precision("/precision"), sequence("/batch/sequence");
  if (trained.contains(precision)) set(config, "/precision", trained[precision]);
  if (trained.contains(sequence)) set(config, "/batch/sequence", trained[sequence]);
}

}  // namespace

ModelPath find_model(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw Failure(HWS_NOT_FOUND, path + ": no such file or directory");
  if (!fs::is_directory(path, ignored)) {
    refuse(path +
           " is a file; give a run folder (hawser train --out), a checkpoint directory or a Hugging Face "
           "folder");
  }
  const fs::path folder(path);
  if (fs::exists(folder / "manifest.json", ignored)) return {ModelKind::kCheckpoint, path};
  if (fs::is_directory(folder / "checkpoints", ignored)) {
    return {ModelKind::kCheckpoint, text_of(hws_checkpoint_latest, (folder / "checkpoints").c_str())};
  }
  const bool weights = fs::exists(folder / "model.safetensors", ignored) ||
                       fs::exists(folder / "model.safetensors.index.json", ignored);
  if (fs::exists(folder / "config.json", ignored) && weights) return {ModelKind::kHuggingFace, path};
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with("step-")) {
      return {ModelKind::kCheckpoint, text_of(hws_checkpoint_latest, path.c_str())};
    }
  }
  throw Failure(HWS_NOT_FOUND,
                path +
                    " holds no model: neither manifest.json (a checkpoint), nor checkpoints/ (a run "
                    "folder), nor config.json with model.safetensors (a Hugging Face folder)");
}

Config model_config(const ModelPath& model, int64_t threads) {
  Config config = make<Config>(hws_config_from_model, model.path.c_str());
  if (model.kind == ModelKind::kCheckpoint) take_training_shape(config.get(), model.path);
  set(config.get(), "/batch/micro_batch", 1);
  if (threads > 0) set(config.get(), "/cpu/threads", threads);
  return config;
}

bool has_text_vocabulary(const hws_engine* engine) {
  hws_buffer* raw = nullptr;
  const int32_t status = hws_text_encode(engine, "", 0, &raw);
  const Buffer buffer(raw);
  return status == HWS_OK;
}

}  // namespace hawser::cli
