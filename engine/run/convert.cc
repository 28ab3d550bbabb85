#include "engine/run/convert.h"

#include <atomic>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/run/trainer.h"

namespace hawser::train {

void import_checkpoint(const std::string& hf_folder, const std::string& path,
                       const std::vector<std::string>& ignore_keys) {
  if (!checkpoint::hf::is_hf_folder(hf_folder))
    fail(Code::kNotFound,
         "{} is not a Hugging Face folder: it needs config.json and model.safetensors or its index",
         hf_folder);
  const OrderedJson config = {{"init", {{"from", hf_folder}, {"ignore_keys", ignore_keys}}},
                              {"batch", {{"micro_batch", 1}, {"sequence", 1}}}};
  std::atomic<bool> cancel{false};
  Trainer::create(config::ConfigTree::from_json(config.dump()), true, &cancel)->saves().save(path);
}

namespace {

std::unique_ptr<Trainer> open_model(const std::string& path, std::atomic<bool>* cancel) {
  const OrderedJson config = {{"init", {{"from", path}}}, {"batch", {{"micro_batch", 1}, {"sequence", 1}}}};
  if (!checkpoint::is_checkpoint(path) && !checkpoint::hf::is_hf_folder(path))
    fail(Code::kNotFound,
         "{} is neither a checkpoint (manifest.json) nor a Hugging Face folder (config.json)", path);
  return Trainer::create(config::ConfigTree::from_json(config.dump()), true, cancel);
}

}  // namespace

void export_checkpoint(const std::string& path, const std::string& to, const std::string& dtype) {
  std::atomic<bool> cancel{false};
  open_model(path, &cancel)->exports().model_to(to, dtype);
}

void export_checkpoint_adapter(const std::string& path, const std::string& to) {
  std::atomic<bool> cancel{false};
  open_model(path, &cancel)->exports().adapter_to(to);
}

}  // namespace hawser::train
