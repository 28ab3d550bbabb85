#include "engine/save/loads.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/assembly/base_weights.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/state/checkpoint_match.h"
#include "engine/state/durable_state.h"

namespace hawser::train {
namespace {

OrderedJson damaged_json(const std::vector<checkpoint::Damaged>& damaged) {
  OrderedJson json = OrderedJson::array();
  for (const checkpoint::Damaged& d : damaged) json.push_back({{"name", d.name}, {"problem", d.problem}});
  return json;
}

/// The checkpoints to try in the folder, as text for the other processes.
std::string list(const std::string& folder, int64_t last_step) {
  std::vector<checkpoint::Damaged> damaged;
  OrderedJson names = OrderedJson::array();
  for (const checkpoint::Candidate& c : checkpoint::candidates(folder, &damaged))
    if (c.step <= last_step) names.push_back(c.name);
  return OrderedJson{{"names", std::move(names)}, {"damaged", damaged_json(damaged)}}.dump();
}

}  // namespace

/// Opens a checkpoint that matches this engine's model, vocabulary, data and optimizer, or throws. Does not
/// verify digests of tensors.
std::shared_ptr<const checkpoint::Reader> Loads::open_checkpoint(const std::string& path,
                                                                 const std::string& data) const {
  std::shared_ptr<const checkpoint::Reader> reader = checkpoint::Reader::open(path);
  require_same_model(*reader, path, ranks_.assembly());
  require_same_vocabulary(*reader, path, ranks_.assembly());
  if (data != "{}") require_same_data(*reader, path, data);
  require_same_tokenizer(*reader, path, ranks_.assembly());
  require_state(*reader, path, ranks_);
  if (reader->description().base_json != "{}") require_same_base(*reader, path, progress_.base_json);
  run_state_from_json(reader->description().state_json);
  return reader;
}

/// Opens the same valid checkpoint on every process. If one process cannot, or finds a different one at that
/// path, all throw.
std::shared_ptr<const checkpoint::Reader> Loads::open_the_same(const std::string& path,
                                                               bool allow_other_data) {
  const std::string data = allow_other_data ? "{}" : fingerprint_.with_contents();
  std::shared_ptr<const checkpoint::Reader> reader;
  const std::vector<std::string> states = ranks_.from_all_processes([&] {
    reader = open_checkpoint(path, data);
    return reader->description().state_json;
  });
  const auto other = std::find_if(states.begin(), states.end(),
                                  [&](const std::string& state) { return state != states.front(); });
  if (other == states.end()) return verify_together(ranks_, *reader), reader;
  fail(Code::kCheckpointIncompatible,
       "rank 0 and rank {} were given different checkpoints, of step {} and step {}; give all ranks the same "
       "one",
       other - states.begin(), run_state_from_json(states.front()).step, run_state_from_json(*other).step);
}

void Loads::load(const std::string& path, bool allow_other_data) {
  const Monitor::InPhase in_phase(&monitor_, Phase::kLoad);
  ranks_.require_training("hws_checkpoint_load");
  progress_.require_between_steps();
  saver_.wait();  // it may be writing this very checkpoint
  take_over(*open_the_same(path, allow_other_data));
}

/// All checks of the checkpoint have passed; now the engine changes.
void Loads::take_over(const checkpoint::Reader& reader) {
  const checkpoint::Description& d = reader.description();
  const RunState loaded = run_state_from_json(d.state_json);
  checkpoint::hf::ExtraFiles files = d.extra_files;
  load_tensors(ranks_, reader, Take::kState);
  progress_.state = loaded;
  progress_.guard.restore(loaded.losses, loaded.norms);
  progress_.loss_scale.resume(loaded.loss_scale);
  progress_.fp8_history.resume(loaded.fp8_history);
  progress_.extra_files.swap(files);
  progress_.pushed.drop();
  monitor_.moved_to(progress_.state);
}

std::string Loads::load_latest(const std::string& folder, bool allow_other_data) {
  const Monitor::InPhase in_phase(&monitor_, Phase::kLoad);
  ranks_.require_training("hws_checkpoint_load_latest");
  progress_.require_between_steps();
  const Newest newest = open_newest(folder, INT64_MAX, allow_other_data);
  if (!newest.reader) checkpoint::fail_no_valid_checkpoint(folder, newest.damaged);
  take_over(*newest.reader);
  return OrderedJson{
      {"name", newest.name}, {"step", progress_.state.step}, {"damaged", damaged_json(newest.damaged)}}
      .dump();
}

std::shared_ptr<const checkpoint::Reader> Loads::newest(const std::string& folder, int64_t last_step) {
  const Monitor::InPhase in_phase(&monitor_, Phase::kLoad);
  return open_newest(folder, last_step, false).reader;
}

Loads::Newest Loads::open_newest(const std::string& folder, int64_t last_step, bool allow_other_data) {
  saver_.wait();  // it may be writing the newest one
  const auto seen = [&] { return ranks_.first().number() == 0 ? list(folder, last_step) : std::string(); };
  const OrderedJson listing = parse_json<OrderedJson>(ranks_.from_all_processes(seen).front());
  Newest found;
  for (const OrderedJson& d : listing.at("damaged"))
    found.damaged.push_back({d.at("name").get<std::string>(), d.at("problem").get<std::string>()});
  for (const OrderedJson& entry : listing.at("names")) {
    found.name = entry.get<std::string>();
    try {
      found.reader = open_the_same(folder + "/" + found.name, allow_other_data);
      return found;
    } catch (const Error& error) {
      if (ranks_.broken() || !checkpoint::is_damage(error)) throw;
      found.damaged.push_back({found.name, error.message()});
    }
  }
  return found;
}

}  // namespace hawser::train
