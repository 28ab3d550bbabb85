#include "engine/save/saves.h"

#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/file_io.h"
#include "engine/ranks/collective_phases.h"
#include "engine/state/durable_state.h"

namespace hawser::train {
namespace {

constexpr int64_t kShardBytes = int64_t{4} << 30;

/// The first member creates and publishes the checkpoint. All members write their shards in parallel and
/// return their indexes. After each phase any failure is reported to all members, so all fail together and
/// nothing is left behind.
void write_together(comm::ProcessGroup* group, const std::string& path, const checkpoint::Description& d,
                    const checkpoint::SaveProgress* progress,
                    const std::function<std::string(const std::string& folder)>& write_shard) {
  CollectivePhases together(group);
  std::optional<checkpoint::ShardedSave> save;
  const std::string folder = together.from_first([&] { return save.emplace(path).folder(); });
  const std::vector<std::string> indexes = together.from_all([&] { return write_shard(folder); });
  if (progress) {
    together.from_all([&] {  // this member may have been cancelled while it waited
      progress->check();
      return std::string();
    });
  }
  together.from_first([&] {
    save->finish(indexes, d, progress);
    return std::string();
  });
}

/// The snapshots of all ranks of this process. They end with this object at the latest.
class Snapshots {
 public:
  explicit Snapshots(const Ranks& ranks) : ranks_(ranks) {}
  ~Snapshots() { end(); }
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;
  void end() const {
    for (int32_t i = 0; i < ranks_.here(); ++i) ranks_.at(i).outside().end_snapshot();
  }

 private:
  const Ranks& ranks_;
};

}  // namespace

Saves::Saves(const Ranks& ranks, const Progress& progress, DataFingerprint* fingerprint)
    : ranks_(ranks), progress_(progress), fingerprint_(*fingerprint), saver_(ranks.config().checkpoint) {
  if (ranks.config().checkpoint.async) require_lane("/checkpoint/async");
}

void Saves::save(const std::string& path) {
  progress_.require_between_steps();
  await_or_refuse();
  write_now(path);
}

std::shared_ptr<SaveOperation> Saves::save_async(const std::string& path) {
  progress_.require_between_steps();
  require_lane("hws_checkpoint_save_async");
  await_or_refuse();
  agree_on([&] {
    if (checkpoint::path_exists(path))
      fail(Code::kAlreadyExists, "{} exists already; choose another name or remove it", path);
  });
  return write_async({path}, [path](const auto& write, const auto&, const auto&) { write(path); });
}

/// If one process fails, all throw, so that no process waits for it.
void Saves::agree_on(const std::function<void()>& attempt) const {
  if (ranks_.all_local()) return attempt();
  ranks_.from_all_processes([&] {
    attempt();
    return std::string();
  });
}

void Saves::await_or_refuse() {
  agree_on([this] {
    saver_.await_or_refuse();
    saver_.rethrow_unreported_error();
  });
}

void Saves::rethrow_unreported_error() {
  agree_on([this] { saver_.rethrow_unreported_error(); });
}

void Saves::write_now(const std::string& path) {
  const checkpoint::Description d = description();
  checkpoint::check_description(d);
  ranks_.on_each([&](Rank& rank, int32_t) {
    write_together(rank.groups().dp.get(), path, d, nullptr, [&](const std::string& folder) {
      std::vector<checkpoint::PieceView> pieces = pieces_of(rank, ranks_.table(), false);
      SaveCopy copy;  // files are written from host memory
      if (!rank.link().in_place()) {
        copy.lay_out(std::move(pieces), false);
        copy.copy(rank.link(), rank.stream());
        pieces = copy.pieces();
      }
      return checkpoint::write_shard(folder, rank.number(), static_cast<int>(ranks_.world()), pieces,
                                     kShardBytes);
    });
  });
}

checkpoint::Description Saves::description() {
  if (ranks_.config().model.adapter.nf4 && !base_is_elsewhere(ranks_.config()))
    fail(
        Code::kFailedPrecondition,
        "checkpoints leave out the adapter's base in nf4 (/adapter/base), and no folder has it (/init/from), "
        "so it would be lost. Save the model without the adapter first, and start from that folder");
  RunState state = progress_.state;
  state.losses = progress_.guard.losses();
  state.norms = progress_.guard.norms();
  state.loss_scale = progress_.loss_scale.saved();
  state.fp8_history = progress_.fp8_history.saved();
  const Assembly& a = ranks_.assembly();
  checkpoint::Description d;
  d.step = state.step;
  d.state_json = to_json(state);
  d.config_json = a.tree.to_json();
  d.vocabulary_json = a.vocabulary.to_json();
  d.data_json = fingerprint_.as_saved();
  d.model_json = a.stored_model_json();
  d.extra_files = progress_.extra_files;
  d.base_json = progress_.base_json;
  return d;
}

void Saves::lay_out_copies() {
  copies_.resize(static_cast<size_t>(ranks_.here()));
  for (int32_t i = 0; i < ranks_.here(); ++i) {
    const Rank& rank = ranks_.at(i);
    copies_[static_cast<size_t>(i)].lay_out(pieces_of(rank, ranks_.table(), true), rank.link().in_place());
  }
}

void Saves::take_copies() {
  if (!ranks_.config().checkpoint.reserves_async() || ranks_.inference()) return;
  lay_out_copies();
  ranks_.on_each([&](Rank& rank, int32_t i) { copies_[static_cast<size_t>(i)].touch(rank.stream()); });
}

std::shared_ptr<SaveOperation> Saves::write_async(std::vector<std::string> paths, Job job) {
  await_or_refuse();  // no thread reads the staged copy after this
  auto d = std::make_shared<const checkpoint::Description>(description());
  checkpoint::check_description(*d);
  agree_on([this] { lay_out_copies(); });
  int64_t bytes = 0;
  for (const SaveCopy& copy : copies_) bytes += copy.bytes();
  ranks_.on_each([&](Rank& rank, int32_t i) {
    copies_[static_cast<size_t>(i)].copy(rank.link(), rank.stream());
    rank.outside().begin_snapshot();
  });
  const auto snapshots = std::make_shared<const Snapshots>(ranks_);
  bytes *= static_cast<int64_t>(paths.size());
  auto operation = std::make_shared<SaveOperation>(std::move(paths), bytes);
  start(operation, [this, d, snapshots, to = operation.get(), job = std::move(job)] {
    const auto on_first = [this](const std::function<bool()>& fn) {
      if (ranks_.all_local()) return fn();
      return CollectivePhases(ranks_.first().saves()).from_first([&] {
        return std::string(fn() ? "1" : "0");
      }) == "1";
    };
    job([&](const std::string& path) { write_staged(path, *d, to->progress()); },
        [&](size_t i) { to->begin(i); }, on_first);
    snapshots->end();
  });
  return operation;
}

/// A saver that fails alone aborts the comm, because the other processes would wait for it forever. If its
/// thread cannot be created, this process reports that in the first exchange of the save.
void Saves::start(const std::shared_ptr<SaveOperation>& operation, std::function<void()> write) {
  if (ranks_.all_local()) return saver_.start(operation, std::move(write));
  const Rank& rank = ranks_.first();
  try {
    saver_.start(operation, [write = std::move(write), &rank] {
      try {
        write();
      } catch (const AgreedError&) {
        throw;
      } catch (...) {
        throw announce_failure(rank.comm(), Error::caught());
      }
    });
  } catch (...) {
    const Error error = Error::caught();
    CollectivePhases(rank.saves()).from_all([&]() -> std::string { throw error; });
  }
}

/// Runs on the saver's thread. Reads only the staged copies and immutable state.
void Saves::write_staged(const std::string& path, const checkpoint::Description& d,
                         checkpoint::SaveProgress* progress) const {
  const int world = static_cast<int>(ranks_.world());
  const auto write_shard = [&](const std::string& folder, size_t i) {
    return checkpoint::write_shard(folder, ranks_.at(static_cast<int32_t>(i)).number(), world,
                                   copies_[i].pieces(), kShardBytes, progress);
  };
  if (!ranks_.all_local())
    return write_together(ranks_.first().saves(), path, d, progress,
                          [&](const std::string& folder) { return write_shard(folder, 0); });
  checkpoint::ShardedSave save(path);
  std::vector<std::string> indexes(static_cast<size_t>(world));
  for (size_t i = 0; i < copies_.size(); ++i)
    indexes[static_cast<size_t>(ranks_.at(static_cast<int32_t>(i)).number())] = write_shard(save.folder(), i);
  save.finish(indexes, d, progress);
}

/// Asynchronous writers of different processes finish at different times, so they communicate in a lane of
/// their own. A host program's transport has one thread and one order of calls, so it cannot offer such a
/// lane.
void Saves::require_lane(const char* what) const {
  if (ranks_.all_local() || ranks_.first().saves() != nullptr) return;
  fail(Code::kUnimplemented,
       "{}: asynchronous saves need a separate lane between the processes, which the host program's "
       "transport does not have (here {} of {} ranks); use hws_checkpoint_save and leave /checkpoint/async "
       "out, or let the engine connect its ranks",
       what, ranks_.here(), ranks_.world());
}

}  // namespace hawser::train
