// Loading, the weights an engine starts with, and what of it a checkpoint holds.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/data/fingerprint.h"
#include "engine/nn/initial_values.h"
#include "engine/train/ranks/together.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

const char* const kMomentPrefix[] = {"optimizer.m.", "optimizer.v."};

/// Names of model fields in which two model sections differ, whichever of them has the field; dropout does
/// not make another model.
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
  for (const auto& [key, value] : b.items())
    if (!a.contains(key) && !value.is_null())
      text += fmt::format("\n  /model/{}: not known here, {} in the checkpoint", key, value.dump());
  return text;
}

void check_model(const std::string& path, const std::string& ours, const std::string& theirs) {
  const std::string difference = model_difference(ours, theirs);
  if (!difference.empty())
    fail(Code::kCheckpointIncompatible, "checkpoint {} belongs to another model:{}", path, difference);
}

/// Elements [begin, end) of a tensor, widened where it is stored as bf16.
void read_as_f32(const checkpoint::Reader& reader, const std::string& name, int64_t begin, int64_t end,
                 float* values) {
  const DType stored = reader.tensors().at(name).dtype;
  const int64_t bytes = (end - begin) * dtype_bytes(stored);
  if (stored == DType::kF32) return reader.read_range(name, begin, end, values, bytes);
  std::vector<char> narrow(static_cast<size_t>(bytes));
  reader.read_range(name, begin, end, narrow.data(), bytes);
  checkpoint::hf::widen(stored, narrow.data(), end - begin, values);
}

/// To go on where a run stopped, what was kept must be kept alike; weights alone are taken from either type.
void check_tensor(const checkpoint::Reader& reader, const std::string& path, const std::string& name,
                  const nn::Parameter& p, std::optional<DType> kept) {
  const auto found = reader.tensors().find(name);
  if (found == reader.tensors().end())
    fail(Code::kCheckpointIncompatible, "checkpoint {} has no tensor \"{}\" (is its optimizer another one?)",
         path, name);
  const DType stored = found->second.dtype;
  if ((stored != DType::kF32 && stored != DType::kBf16) || found->second.shape != p.shape)
    fail(Code::kCheckpointIncompatible,
         "checkpoint {}: tensor \"{}\" is not f32 or bf16 of the model's shape", path, name);
  if (kept && stored != *kept)
    fail(
        Code::kCheckpointIncompatible,
        "checkpoint {} has \"{}\" as {}, this engine keeps its state as {} (/precision bf16_pure keeps bf16, "
        "the others f32): to go on exactly, load it with the precision that it was trained with; to train on "
        "with another, start a new run from its weights (/init/from), which {}",
        path, name, dtype_name(stored), dtype_name(*kept),
        stored == DType::kF32 ? "rounds them to the nearest bf16" : "widens them, exactly");
}

/// What this engine does not keep would be lost at its next save: moments of another optimizer, weights of
/// another model.
void check_nothing_more(const checkpoint::Reader& reader, const std::string& path,
                        const nn::ParameterTable& table, int64_t moments) {
  for (const auto& [name, entry] : reader.tensors()) {
    for (size_t i = static_cast<size_t>(moments); i < std::size(kMomentPrefix); ++i)
      if (name.starts_with(kMomentPrefix[i]))
        fail(Code::kCheckpointIncompatible,
             "checkpoint {} has \"{}\", which this engine's optimizer does not keep; give the optimizer that "
             "it was trained with (/optimizer), or start a new run from its weights (/init/from)",
             path, name);
    if (!name.starts_with("optimizer.") && table.find(name) == nullptr)
      fail(Code::kCheckpointIncompatible,
           "checkpoint {} has the tensor \"{}\", which this engine's model does not have; it was written by "
           "another version, and would be lost at the next save",
           path, name);
  }
}

/// The family it was imported as, else the one that can express the model; "" if none can.
std::string hf_family(const nn::ModelConfig& model, const checkpoint::hf::ExtraFiles& extra) {
  const auto config = extra.find("config.json");
  if (config == extra.end()) return checkpoint::hf::family_of(model);
  return Json::parse(config->second).value("model_type", std::string());
}

}  // namespace

namespace {

/// Calls fn(parameter, its first element here, one past its last, place of the first in the group's state) if
/// `rank` has any master weights of it.
template <typename Fn>
void part_of(const Rank& rank, const nn::Parameter& p, Fn fn) {
  const GroupState& s = rank.executor().state(p.group);
  const int64_t begin = std::max(p.offset, s.range.begin), end = std::min(p.offset + p.size, s.range.end);
  if (begin < end) fn(p, begin - p.offset, end - p.offset, begin - s.range.begin, s);
}

template <typename Fn>
void each_part(const Rank& rank, const nn::ParameterTable& table, Fn fn) {
  for (const nn::Parameter& p : table.all()) part_of(rank, p, fn);
}

StateArray moment_of(const GroupState& s, int i) { return i == 0 ? s.moment1 : s.moment2; }

}  // namespace

void TrainerImpl::initialize_weights() {
  const std::string& from = config_.init.from;
  const nn::ParameterTable& table = model_.table();
  if (from.empty()) {
    on_ranks([&](Rank& rank, int32_t) {
      each_part(rank, table,
                [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                  produce_values(rank.link(), s.weights.from(at), end - begin,
                                 [&](float* values, int64_t first, int64_t n) {
                                   nn::fill_initial(values, p, begin + first, begin + first + n,
                                                    config_.init.std, config_.seed, rank.stream());
                                 });
                });
      rank.publish_weights();
    });
  } else if (checkpoint::is_checkpoint(from)) {
    const auto reader = checkpoint::Reader::open(from);
    check_model(from, a_.model_json, reader->description().model_json);
    for (const nn::Parameter& p : table.all()) check_tensor(*reader, from, p.name, p, {});
    verify_together(*reader);
    load_tensors(*reader, false);
    half_loaded_ = false;
    extra_files_ = reader->description().extra_files;
  } else {
    import_hf(from);
  }
  const std::string family = hf_family(config_.model, extra_files_);
  if (!family.empty()) bindings_ = checkpoint::hf::bindings(family, config_.model, table);
}

/// Each rank reads its own elements. Should the disk fail now, the engine is half_loaded_ until a load comes
/// to its end.
void TrainerImpl::load_tensors(const checkpoint::Reader& reader, bool moments) {
  half_loaded_ = false;
  on_ranks([&](Rank& rank, int32_t) {
    half_loaded_ = true;
    each_part(rank, model_.table(),
              [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                const auto read = [&](const std::string& name, StateArray to) {
                  produce_values(rank.link(), to.from(at), end - begin,
                                 [&](float* values, int64_t first, int64_t n) {
                                   read_as_f32(reader, name, begin + first, begin + first + n, values);
                                 });
                };
                read(p.name, s.weights);
                for (int i = 0; moments && i < 2; ++i)
                  if (moment_of(s, i)) read(kMomentPrefix[i] + p.name, moment_of(s, i));
              });
    rank.publish_weights();
  });
}

/// One rank alone takes the folder's tensors straight into its masters; several share a copy of one at a
/// time.
void TrainerImpl::import_hf(const std::string& folder) {
  const nn::ParameterTable& table = model_.table();
  const bool whole = first().link().in_place() && state_type(config_) == DType::kF32 &&
                     !first().layout().state_sharded() && ranks_.size() == 1;
  std::map<std::string, std::vector<float>> copy;
  const auto place = [&](const std::string& name) {
    const nn::Parameter& p = table.at(name);
    if (whole) return first().executor().state(p.group).weights.from(p.offset).in_place(first().link());
    std::vector<float>& tensor = copy[name];
    tensor.resize(static_cast<size_t>(p.size));
    return tensor.data();
  };
  const auto hand_out = [&] {
    if (copy.empty()) return;
    on_ranks([&](Rank& rank, int32_t) {
      const auto take = [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at,
                            const GroupState& s) {
        write_values(rank.link(), s.weights.from(at), copy.at(p.name).data() + begin, end - begin);
      };
      for (const auto& [name, unused] : copy) part_of(rank, table.at(name), take);
    });
    copy.clear();
  };
  extra_files_ = checkpoint::hf::import_weights(folder, config_.model, table, place, hand_out);
  on_ranks([](Rank& rank, int32_t) { rank.publish_weights(); });
}

/// What `rank` writes: of what it holds, the part that falls to it among all who hold the same.
std::vector<checkpoint::PieceView> TrainerImpl::pieces_of(const Rank& rank) const {
  std::vector<checkpoint::PieceView> pieces;
  each_part(rank, model_.table(),
            [&](const nn::Parameter& p, int64_t begin, int64_t, int64_t at, const GroupState& s) {
              const auto index = static_cast<size_t>(&p - model_.table().all().data());
              const mesh::FlatRange run = rank.layout().to_write(index);
              if (run.begin == run.end) return;
              at += run.begin - begin;
              const auto piece = [&](const std::string& name, StateArray array) {
                pieces.push_back({name, array.type, p.shape, run.begin, run.end, array.from(at).data});
              };
              piece(p.name, s.weights);
              for (int i = 0; i < 2; ++i)
                if (p.trainable && moment_of(s, i)) piece(kMomentPrefix[i] + p.name, moment_of(s, i));
            });
  return pieces;
}

/// What the data are, with what their files hold: each rank digests a share. Read once. Collective.
const std::string& TrainerImpl::data_fingerprint() {
  if (!data_fingerprint_.empty()) return data_fingerprint_;
  if (!dataset_) return data_fingerprint_ = "{}";
  std::vector<std::string> shares;
  on_ranks([&](Rank& rank, int32_t i) {
    std::vector<std::string> all = Together(rank.groups().dp.get()).from_all([&] {
      return dataset_->digest_share(rank.number(), world_);
    });
    if (i == 0) shares = std::move(all);
  });
  return data_fingerprint_ = dataset_->fingerprint(shares);
}

/// Data that were cut short meanwhile are no reason not to save what was trained on them.
std::string TrainerImpl::data_as_saved() {
  try {
    return data_fingerprint();
  } catch (const Error& error) {
    if (broken_) throw;
  }
  return dataset_->fingerprint();
}

checkpoint::Description TrainerImpl::description() {
  state_.losses = guard_.losses();
  state_.norms = guard_.norms();
  checkpoint::Description d;
  d.step = state_.step;
  d.state_json = to_json(state_);
  d.config_json = a_.tree.to_json();
  d.vocabulary_json = a_.vocabulary.to_json();
  d.data_json = data_as_saved();
  d.model_json = a_.model_json;
  d.extra_files = extra_files_;
  return d;
}

/// A checkpoint of this engine's model, vocabulary, data and optimizer, or throws. Digests of tensors are not
/// looked at.
std::shared_ptr<const checkpoint::Reader> TrainerImpl::open_checkpoint(const std::string& path,
                                                                       bool allow_other_data) const {
  std::shared_ptr<const checkpoint::Reader> reader = checkpoint::Reader::open(path);
  const checkpoint::Description& d = reader->description();
  check_model(path, a_.model_json, d.model_json);
  if (!(data::Vocabulary::from_json(d.vocabulary_json) == a_.vocabulary))
    fail(Code::kCheckpointIncompatible, "checkpoint {} has another vocabulary than this engine", path);
  if (!allow_other_data && dataset_ && d.data_json != "{}") {
    const std::string difference = data::data_difference(d.data_json, data_fingerprint_);
    if (!difference.empty())
      fail(Code::kCheckpointIncompatible,
           "checkpoint {} was trained on other data:{}\nGive the same data, or allow other data "
           "(HWS_LOAD_OTHER_DATA; hawser train --other-data)",
           path, difference);
  }
  const int64_t moments = optim::moment_count(config_.optimizer);
  const DType kept = state_type(config_);
  for (const nn::Parameter& p : model_.table().all()) {
    check_tensor(*reader, path, p.name, p, kept);
    for (int64_t i = 0; i < moments && p.trainable; ++i)
      check_tensor(*reader, path, kMomentPrefix[i] + p.name, p, kept);
  }
  check_nothing_more(*reader, path, model_.table(), moments);
  run_state_from_json(d.state_json);
  return reader;
}

/// Every digest is right, or all throw alike. Each file is read by one rank of the world.
void TrainerImpl::verify_together(const checkpoint::Reader& reader) const {
  if (world_ == 1) return reader.verify();
  on_ranks([&](Rank& rank, int32_t) {
    Together(rank.groups().dp.get()).from_all([&] {
      reader.verify(rank.number(), world_);
      return std::string();
    });
  });
}

/// The same on every process, and whole; where one cannot open it, or finds another under that path, all
/// throw alike.
std::shared_ptr<const checkpoint::Reader> TrainerImpl::open_the_same(const std::string& path,
                                                                     bool allow_other_data) {
  if (!allow_other_data) data_fingerprint();
  std::shared_ptr<const checkpoint::Reader> reader;
  const std::vector<std::string> states = from_all_processes([&] {
    reader = open_checkpoint(path, allow_other_data);
    return reader->description().state_json;
  });
  const auto other = std::find_if(states.begin(), states.end(),
                                  [&](const std::string& state) { return state != states.front(); });
  if (other == states.end()) return verify_together(*reader), reader;
  fail(Code::kCheckpointIncompatible,
       "rank 0 and rank {} were given different checkpoints, of step {} and step {}; give all ranks one that "
       "all can see",
       other - states.begin(), run_state_from_json(states.front()).step, run_state_from_json(*other).step);
}

void TrainerImpl::load(const std::string& path, bool allow_other_data) {
  require_training("hws_checkpoint_load");
  require_pending(false);
  saver_.wait();  // it may be this very checkpoint
  take_over(*open_the_same(path, allow_other_data));
}

/// Nothing can be wrong with the checkpoint any more: now the engine changes.
void TrainerImpl::take_over(const checkpoint::Reader& reader) {
  const checkpoint::Description& d = reader.description();
  const RunState loaded = run_state_from_json(d.state_json);
  load_tensors(reader, true);
  state_ = loaded;
  guard_.restore(loaded.losses, loaded.norms);
  extra_files_ = d.extra_files;
  pushed_.drop();
  half_loaded_ = false;
}

}  // namespace hawser::train
