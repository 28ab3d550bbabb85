// Saving, loading, exporting, and the weights an engine starts with.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/nn/initial_values.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

using Json = nlohmann::json;  // sorted keys: sections are compared whatever order they were written in

const char* const kMomentPrefix[] = {"optimizer.m.", "optimizer.v."};

/// Names of model fields in which two model sections differ; dropout does not make another model.
std::string model_difference(const std::string& ours, const std::string& theirs) {
  Json a = Json::parse(ours), b = Json::parse(theirs);
  a.erase("dropout");
  b.erase("dropout");
  std::string text;
  for (const auto& [key, value] : a.items()) {
    const Json other = b.contains(key) ? b[key] : Json();
    if (value != other)
      text += fmt::format("\n  /model/{}: {} here, {} in the checkpoint", key, value.dump(), other.dump());
  }
  return text;
}

void check_model(const std::string& path, const std::string& ours, const std::string& theirs) {
  const std::string difference = model_difference(ours, theirs);
  if (!difference.empty())
    fail(Code::kCheckpointIncompatible, "checkpoint {} belongs to another model:{}", path, difference);
}

void check_tensor(const checkpoint::Reader& reader, const std::string& path, const std::string& name,
                  const nn::Parameter& p) {
  const auto found = reader.tensors().find(name);
  if (found == reader.tensors().end())
    fail(Code::kCheckpointIncompatible, "checkpoint {} has no tensor \"{}\" (is its optimizer another one?)",
         path, name);
  if (found->second.dtype != DType::kF32 || found->second.shape != p.shape)
    fail(Code::kCheckpointIncompatible, "checkpoint {}: tensor \"{}\" is not f32 of the model's shape", path,
         name);
}

/// The family it was imported as, else the one that can express the model; "" if none can.
std::string hf_family(const nn::ModelConfig& model, const checkpoint::hf::ExtraFiles& extra) {
  const auto config = extra.find("config.json");
  if (config == extra.end()) return checkpoint::hf::family_of(model);
  return Json::parse(config->second).value("model_type", std::string());
}

}  // namespace

void TrainerImpl::initialize_weights() {
  const StateBuffers& s = executor_->state();
  const std::string& from = config_.init.from;
  const nn::ParameterTable& table = model_.table();
  if (from.empty()) {
    for (const nn::Parameter& p : table.all())
      nn::fill_initial(s.master + p.offset, p, config_.init.std, config_.seed, pool_.stream());
  } else if (checkpoint::is_checkpoint(from)) {
    const auto reader = checkpoint::Reader::open(from);
    check_model(from, a_.model_json, reader->description().model_json);
    for (const nn::Parameter& p : table.all()) check_tensor(*reader, from, p.name, p);
    for (const nn::Parameter& p : table.all()) reader->read(p.name, s.master + p.offset, p.size * 4);
    extra_files_ = reader->description().extra_files;
  } else {
    extra_files_ = checkpoint::hf::import_weights(from, config_.model, table, [&](const std::string& name) {
      return s.master + table.at(name).offset;
    });
  }
  refresh_copy();
  const std::string family = hf_family(config_.model, extra_files_);
  if (!family.empty()) bindings_ = checkpoint::hf::bindings(family, config_.model, table);
}

void TrainerImpl::save(const std::string& path) {
  require_pending(false);
  std::vector<checkpoint::TensorView> tensors;
  const auto add = [&](const std::string& prefix, const float* base) {
    if (base == nullptr) return;
    for (const nn::Parameter& p : model_.table().all())
      tensors.push_back({prefix + p.name, DType::kF32, p.shape, base + p.offset});
  };
  add("", executor_->state().master);
  add(kMomentPrefix[0], executor_->state().moment1);
  add(kMomentPrefix[1], executor_->state().moment2);
  state_.losses = guard_.losses();
  state_.norms = guard_.norms();
  checkpoint::Description d;
  d.step = state_.step;
  d.state_json = to_json(state_);
  d.config_json = a_.tree.to_json();
  d.vocabulary_json = a_.vocabulary.to_json();
  d.data_json = data_fingerprint();
  d.model_json = a_.model_json;
  d.extra_files = extra_files_;
  checkpoint::save(path, tensors, d);
}

void TrainerImpl::load(const std::string& path, bool allow_other_data) {
  require_training("hws_checkpoint_load");
  require_pending(false);
  const auto reader = checkpoint::Reader::open(path);
  const checkpoint::Description& d = reader->description();
  check_model(path, a_.model_json, d.model_json);
  if (!(data::Vocabulary::from_json(d.vocabulary_json) == a_.vocabulary))
    fail(Code::kCheckpointIncompatible, "checkpoint {} has another vocabulary than this engine", path);
  if (!allow_other_data && dataset_ && d.data_json != "{}" &&
      Json::parse(d.data_json) != Json::parse(data_fingerprint()))
    fail(
        Code::kCheckpointIncompatible,
        "checkpoint {} was trained on other data: {} there, {} here; give the same data, or allow other data "
        "(HWS_LOAD_OTHER_DATA)",
        path, d.data_json, data_fingerprint());
  const StateBuffers& s = executor_->state();
  float* const moments[] = {s.moment1, s.moment2};
  for (const nn::Parameter& p : model_.table().all()) {
    check_tensor(*reader, path, p.name, p);
    for (int i = 0; i < 2; ++i)
      if (moments[i]) check_tensor(*reader, path, kMomentPrefix[i] + p.name, p);
  }
  const RunState loaded = run_state_from_json(d.state_json);
  reader->verify();
  // Nothing can be wrong any more: now the engine changes.
  for (const nn::Parameter& p : model_.table().all()) {
    reader->read(p.name, s.master + p.offset, p.size * 4);
    for (int i = 0; i < 2; ++i)
      if (moments[i]) reader->read(kMomentPrefix[i] + p.name, moments[i] + p.offset, p.size * 4);
  }
  refresh_copy();
  state_ = loaded;
  guard_.restore(loaded.losses, loaded.norms);
  extra_files_ = d.extra_files;
  pushed_.drop();
}

void TrainerImpl::export_hf(const std::string& folder, const std::string& dtype) const {
  const float* const master = executor_->state().master;
  const nn::ParameterTable& table = model_.table();
  checkpoint::hf::export_folder(
      folder, config_.model, table, [&](const std::string& name) { return master + table.at(name).offset; },
      extra_files_, dtype);
}

}  // namespace hawser::train
