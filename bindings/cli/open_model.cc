// Finds a model on disk and makes a config that runs it.
#include "bindings/cli/open_model.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/file_failure.h"
#include "bindings/cli/hub_cache.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"

namespace fs = std::filesystem;

namespace hawser::cli {
using nlohmann::ordered_json;

namespace {

/// Returns every field of the config that the model's folder gives.
ordered_json resolved_model(const ModelPath& model) {
  return resolved_tree(make<Config>(hws_config_from_model, model.path.c_str()).get());
}

bool holds_steps(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  bool found = false;
  for (; !error && !found && entry != fs::directory_iterator(); entry.increment(error))
    found = entry->path().filename().string().starts_with("step-");
  if (error) fail_file("cannot list " + folder, error.value());
  return found;
}

}  // namespace

ModelPath find_model(const std::string& name) {
  const std::string path = existing_model(name);
  if (!is_folder(path)) {
    refuse(path +
           " is a file; give a run folder (hawser train --out), a checkpoint directory or a Hugging Face "
           "folder");
  }
  check_download(path);
  if (exists(path + "/manifest.json")) return {ModelKind::kCheckpoint, path};
  if (const std::string checkpoints = path + "/checkpoints"; is_folder(checkpoints))
    return {ModelKind::kCheckpoint, text_of(hws_checkpoint_latest, checkpoints.c_str())};
  const bool weights = exists(path + "/model.safetensors") || exists(path + "/model.safetensors.index.json");
  if (exists(path + "/config.json") && weights) return {ModelKind::kHuggingFace, path};
  if (holds_steps(path)) return {ModelKind::kCheckpoint, text_of(hws_checkpoint_latest, path.c_str())};
  if (exists(path + "/pytorch_model.bin") || exists(path + "/pytorch_model.bin.index.json"))
    throw Failure(HWS_NOT_FOUND, path +
                                     " has its weights in pytorch_model.bin, which is not read; save them as "
                                     "safetensors (in Transformers: from_pretrained(FOLDER), then "
                                     "save_pretrained(NEW_FOLDER))");
  throw Failure(HWS_NOT_FOUND,
                path +
                    " holds no model: there is no manifest.json (a checkpoint), no checkpoints/ (a run "
                    "folder), and no config.json with model.safetensors (a Hugging Face folder)");
}

Config model_config(const ModelPath& model, int64_t sequence, int64_t threads) {
  const Config imported = make<Config>(hws_config_from_model, model.path.c_str());
  auto tree = parse_json(text_of(hws_config_serialize, imported.get(), HWS_FORMAT_JSON));
  const auto context = resolved_tree(imported.get()).at("model").at("context").get<int64_t>();
  const int64_t row = std::min(sequence, context);
  tree["batch"] = {{"micro_batch", 1}, {"grad_accum_steps", 1}, {"sequence", row}};
  if (threads > 0) tree["cpu"]["threads"] = threads;
  const std::string text = tree.dump();
  return make<Config>(hws_config_parse, static_cast<const void*>(text.data()), text.size(), HWS_FORMAT_JSON);
}

int64_t model_context(const ModelPath& model) {
  return resolved_model(model).at("model").at("context").get<int64_t>();
}

int64_t trained_sequence(const ModelPath& model) {
  if (model.kind == ModelKind::kHuggingFace) return 0;
  return resolved_model(model).at("batch").at("sequence").get<int64_t>();
}

bool reads_text(const hws_engine* engine) {
  hws_buffer* raw = nullptr;
  const int32_t status = hws_text_encode(engine, "", 0, &raw);
  const Buffer buffer(raw);
  return status != HWS_FAILED_PRECONDITION;
}

}  // namespace hawser::cli
