#include "engine/train/save/saves.h"

#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/file_io.h"
#include "engine/train/ranks/together.h"
#include "engine/train/save/durable_state.h"

namespace hawser::train {
namespace {

constexpr int64_t kShardBytes = int64_t{4} << 30;

}  // namespace

Saves::Saves(const Ranks& ranks, const Progress& progress, DataFingerprint* fingerprint)
    : ranks_(ranks), progress_(progress), fingerprint_(*fingerprint), saver_(ranks.config().checkpoint) {
  if (ranks.config().checkpoint.async) require_one_process("/checkpoint/async");
}

void Saves::save(const std::string& path) {
  progress_.require_no_pending();
  saver_.raise_unheard();
  saver_.make_way();
  write_now(path);
}

std::shared_ptr<SaveOperation> Saves::save_async(const std::string& path) {
  progress_.require_no_pending();
  require_one_process("hws_checkpoint_save_async");
  saver_.raise_unheard();
  saver_.make_way();
  if (checkpoint::path_exists(path))
    fail(Code::kAlreadyExists, "{} exists already; choose another name or remove it", path);
  return write_beside({path}, [path](const auto& write, const auto&) { write(path); });
}

void Saves::write_now(const std::string& path) {
  const checkpoint::Description d = description();
  checkpoint::check_description(d);
  ranks_.on_each([&](Rank& rank, int32_t) {
    Together together(rank.groups().dp.get());
    std::optional<checkpoint::ShardedSave> save;
    std::string folder = together.from_first([&] { return save.emplace(path).folder(); });
    const std::vector<std::string> indexes = together.from_all([&] {
      std::vector<checkpoint::PieceView> pieces = pieces_of(rank, ranks_.table());
      Staging copy;  // files are written from the host's memory
      if (!rank.link().in_place()) {
        copy.lay_out(std::move(pieces), false);
        copy.copy(rank.link(), rank.stream());
        pieces = copy.pieces();
      }
      return checkpoint::write_shard(folder, rank.number(), static_cast<int>(ranks_.world()), pieces,
                                     kShardBytes);
    });
    together.from_first([&] {
      save->finish(indexes, d);
      return std::string();
    });
  });
}

checkpoint::Description Saves::description() {
  RunState state = progress_.state;
  state.losses = progress_.guard.losses();
  state.norms = progress_.guard.norms();
  const Assembly& a = ranks_.assembly();
  checkpoint::Description d;
  d.step = state.step;
  d.state_json = to_json(state);
  d.config_json = a.tree.to_json();
  d.vocabulary_json = a.vocabulary.to_json();
  d.data_json = fingerprint_.as_saved();
  d.model_json = a.model_json;
  d.extra_files = progress_.extra_files;
  return d;
}

void Saves::lay_out_staging() {
  staging_.resize(static_cast<size_t>(ranks_.here()));
  for (int32_t i = 0; i < ranks_.here(); ++i) {
    const Rank& rank = ranks_.at(i);
    staging_[static_cast<size_t>(i)].lay_out(pieces_of(rank, ranks_.table()), rank.link().in_place());
  }
}

void Saves::take_staging() {
  const config::CheckpointConfig& c = ranks_.config().checkpoint;
  if (!c.async || c.path.empty() || ranks_.inference()) return;
  lay_out_staging();
  ranks_.on_each([&](Rank& rank, int32_t i) { staging_[static_cast<size_t>(i)].touch(rank.stream()); });
}

std::shared_ptr<SaveOperation> Saves::write_beside(std::vector<std::string> paths, Job job) {
  saver_.make_way();  // from here on nobody reads the staged copy
  auto d = std::make_shared<const checkpoint::Description>(description());
  checkpoint::check_description(*d);
  lay_out_staging();
  int64_t bytes = 0;
  for (const Staging& staging : staging_) bytes += staging.bytes();
  ranks_.on_each(
      [&](Rank& rank, int32_t i) { staging_[static_cast<size_t>(i)].copy(rank.link(), rank.stream()); });
  bytes *= static_cast<int64_t>(paths.size());
  auto operation = std::make_shared<SaveOperation>(std::move(paths), bytes);
  saver_.start(operation, [this, d, to = operation.get(), job = std::move(job)] {
    job([&](const std::string& path) { write_staged(path, *d, to->progress()); },
        [&](size_t i) { to->begin(i); });
  });
  return operation;
}

/// On the saver's thread: reads nothing but the staged copies and what never changes.
void Saves::write_staged(const std::string& path, const checkpoint::Description& d,
                         checkpoint::SaveProgress* progress) const {
  const int world = static_cast<int>(ranks_.world());
  std::vector<std::string> indexes(static_cast<size_t>(world));
  checkpoint::ShardedSave save(path);
  for (size_t i = 0; i < staging_.size(); ++i) {
    const int32_t number = ranks_.at(static_cast<int32_t>(i)).number();
    indexes[static_cast<size_t>(number)] =
        checkpoint::write_shard(save.folder(), number, world, staging_[i].pieces(), kShardBytes, progress);
  }
  save.finish(indexes, d, progress);
}

/// Ranks talk in one order that all of them share (process_group.h), and so does whoever finishes a save with
/// what the others have written. Writers beside training end at another moment in each process: they need a
/// way to each other of their own, which comms do not have.
void Saves::require_one_process(const char* what) const {
  if (!ranks_.all_here())
    fail(Code::kUnimplemented,
         "{}: asynchronous saves are not there yet for ranks in several processes (here {} of {}); use "
         "hws_checkpoint_save, and leave /checkpoint/async out",
         what, ranks_.here(), ranks_.world());
}

}  // namespace hawser::train
