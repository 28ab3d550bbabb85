// Reports that need no engine: conversion, devices, the library itself.
#include <fmt/format.h>

#include <atomic>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/device/arena.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/train/ranks/choose_device.h"
#include "engine/train/trainer.h"
#include "kernels/include/levels.h"

namespace hawser::train {

using Json = OrderedJson;

void import_checkpoint(const std::string& hf_folder, const std::string& path,
                       const std::vector<std::string>& ignore_keys) {
  if (!checkpoint::hf::is_hf_folder(hf_folder))
    fail(Code::kNotFound,
         "{} is no Hugging Face folder: it needs config.json and model.safetensors or its index", hf_folder);
  const Json config = {{"init", {{"from", hf_folder}, {"ignore_keys", ignore_keys}}},
                       {"batch", {{"micro_batch", 1}, {"sequence", 1}}}};
  std::atomic<bool> cancel{false};
  Trainer::create(config::ConfigTree::from_json(config.dump()), true, &cancel)->save(path);
}

void export_checkpoint(const std::string& path, const std::string& hf_folder, const std::string& dtype) {
  const Json config = {{"init", {{"from", path}}}, {"batch", {{"micro_batch", 1}, {"sequence", 1}}}};
  if (!checkpoint::is_checkpoint(path))
    fail(Code::kNotFound, "{} is no checkpoint: it has no manifest.json", path);
  std::atomic<bool> cancel{false};
  Trainer::create(config::ConfigTree::from_json(config.dump()), true, &cancel)->export_hf(hf_folder, dtype);
}

std::string device_list_json() {
  const Json cpu = {{"name", kernels::cpu_name()},
                    {"kind", "cpu"},
                    {"threads", device::default_threads()},
                    {"available_bytes", device::available_memory()},
                    {"level", kernels::cpu_level_name(kernels::best_cpu_level())}};
  return with_plugin_devices(Json::array({cpu}).dump());
}

std::string library_info_json() {
  Json json = {
      {"name", "hawser"}, {"version", HAWSER_VERSION}, {"compiler", __VERSION__}, {"modules", {"cpu"}}};
  json["cpu_level"] = kernels::cpu_level_name(kernels::best_cpu_level());
  return json.dump();
}

}  // namespace hawser::train
