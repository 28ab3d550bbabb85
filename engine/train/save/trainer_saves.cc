// Saving: at once, or beside training from a copy of the state; and what a run saves by itself.
#include <fmt/format.h>

#include <optional>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/train/ranks/together.h"
#include "engine/train/save/run_checkpoints.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

constexpr int64_t kShardBytes = int64_t{4} << 30;

}  // namespace

void TrainerImpl::save(const std::string& path) {
  require_pending(false);
  saver_.raise_unheard();
  saver_.make_way();
  write_now(path);
}

std::shared_ptr<SaveOperation> TrainerImpl::save_async(const std::string& path) {
  require_pending(false);
  require_one_process("hws_checkpoint_save_async");
  saver_.raise_unheard();
  saver_.make_way();
  if (checkpoint::path_exists(path))
    fail(Code::kAlreadyExists, "{} exists already; choose another name or remove it", path);
  return save_beside({path}, [path](const Write& write, const auto&) { write(path); });
}

/// The rank with number 0 opens the folder and finishes; all write at the same time. Whoever fails says so
/// before anything else is done, so that all fail and nothing is left.
void TrainerImpl::write_now(const std::string& path) {
  const checkpoint::Description d = description();
  checkpoint::check_description(d);
  on_ranks([&](Rank& rank, int32_t) {
    Together together(rank.groups().dp.get());
    std::optional<checkpoint::ShardedSave> save;
    std::string folder = together.from_first([&] { return save.emplace(path).folder(); });
    const std::vector<std::string> indexes = together.from_all([&] {
      std::vector<checkpoint::PieceView> pieces = pieces_of(rank);
      Staging copy;  // files are written from the host's memory
      if (!rank.link().in_place()) {
        copy.lay_out(std::move(pieces), false);
        copy.copy(rank.link(), rank.stream());
        pieces = copy.pieces();
      }
      return checkpoint::write_shard(folder, rank.number(), static_cast<int>(world_), pieces, kShardBytes);
    });
    together.from_first([&] {
      save->finish(indexes, d);
      return std::string();
    });
  });
}

void TrainerImpl::lay_out_staging() {
  staging_.resize(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i)
    staging_[i].lay_out(pieces_of(*ranks_[i]), ranks_[i]->link().in_place());
}

/// For a run that will save beside training: its first save is to wait no longer than the others.
void TrainerImpl::take_staging() {
  const config::CheckpointConfig& c = config_.checkpoint;
  if (!c.async || c.path.empty() || inference_) return;
  lay_out_staging();
  on_ranks([&](Rank& rank, int32_t i) { staging_[static_cast<size_t>(i)].touch(rank.stream()); });
}

/// Copies the state, and has `job` write it to all of `paths` on the saver's thread.
std::shared_ptr<SaveOperation> TrainerImpl::save_beside(std::vector<std::string> paths, SaveJob job) {
  saver_.make_way();  // from here on nobody reads the staged copy
  auto d = std::make_shared<const checkpoint::Description>(description());
  checkpoint::check_description(*d);
  lay_out_staging();
  int64_t bytes = 0;
  for (const Staging& staging : staging_) bytes += staging.bytes();
  on_ranks([&](Rank& rank, int32_t i) { staging_[static_cast<size_t>(i)].copy(rank.link(), rank.stream()); });
  bytes *= static_cast<int64_t>(paths.size());
  auto operation = std::make_shared<SaveOperation>(std::move(paths), bytes);
  saver_.start(operation, [this, d, to = operation.get(), job = std::move(job)] {
    job([&](const std::string& path) { write_staged(path, *d, to->progress()); },
        [&](size_t i) { to->begin(i); });
  });
  return operation;
}

/// On the saver's thread: reads nothing but the staged copies and what never changes.
void TrainerImpl::write_staged(const std::string& path, const checkpoint::Description& d,
                               checkpoint::SaveProgress* progress) const {
  const int world = static_cast<int>(world_);
  std::vector<std::string> indexes(static_cast<size_t>(world));
  checkpoint::ShardedSave save(path);
  for (size_t i = 0; i < staging_.size(); ++i) {
    const int32_t number = ranks_[i]->number();
    indexes[static_cast<size_t>(number)] =
        checkpoint::write_shard(save.folder(), number, world, staging_[i].pieces(), kShardBytes, progress);
  }
  save.finish(indexes, d, progress);
}

/// Ranks talk in one order that all of them share (process_group.h), and so does whoever finishes a save with
/// what the others have written. Writers beside training end at another moment in each process: they need a
/// way to each other of their own, which comms do not have.
void TrainerImpl::require_one_process(const char* what) const {
  if (world_ != team_.size())
    fail(Code::kUnimplemented,
         "{}: asynchronous saves are not there yet for ranks in several processes (here {} of {}); use "
         "hws_checkpoint_save, and leave /checkpoint/async out",
         what, team_.size(), world_);
}

/// The folder of a run may be moved while it runs. So it is opened when the run begins, and every save asks
/// where it is by then: checkpoints land in the run's folder, not in a new one of its old name. What cannot
/// be opened now, the first save will tell.
void TrainerImpl::hold_run_folder() {
  const std::string& path = config_.checkpoint.path;
  if (path.empty() || first().number() != 0) return;
  if (run_folder_ && !run_folder_->was_removed()) return;
  try {
    checkpoint::make_folders(path);
    run_folder_ = std::make_shared<const checkpoint::Folder>(checkpoint::Folder::open(path));
  } catch (const Error&) {
  }
}

/// Says where the run's folder is, on any thread.
std::function<std::string()> TrainerImpl::run_place() {
  hold_run_folder();
  return [folder = run_folder_, path = config_.checkpoint.path] {
    return folder ? folder->current_path() : path;
  };
}

/// What is due of the run's own checkpoints. True: step-N is there or on its way. Under on_error go_on a
/// failure is counted, unless ranks lost each other, which no step would survive.
bool TrainerImpl::save_into_run(const DueCheckpoints& due) {
  config::CheckpointConfig c = config_.checkpoint;
  if (c.path.empty() || !due.any()) return false;
  std::vector<std::string> paths = due.paths(c);
  size_t at = 0;  // of paths
  try {
    const std::function<std::string()> where = run_place();
    c.path = where();
    paths = due.paths(c);
    if (c.async) {
      const auto once = [](const std::function<bool()>& fn) { return fn(); };
      save_beside(paths, [c, due, where, once](const Write& write, const auto& begin) {
        write_due(c, due, where, write, once, begin);
      });
    } else {
      saver_.make_way();  // for one that the host began
      write_due_now(due, where, &at);
    }
  } catch (const Error& error) {
    if (c.on_error == config::SaveFailure::kStop || broken_) throw;
    saver_.count_failure(paths[at], error);
    return false;
  }
  return due.step_checkpoint;
}

/// A run ends with its last step on disk, or with the error why it is not. `saved`: that was begun.
void TrainerImpl::end_run(bool saved) {
  const config::CheckpointConfig& c = config_.checkpoint;
  if (c.path.empty()) return;
  saver_.wait();
  saver_.raise_unheard();
  write_last_step(saved);
}

/// A run that ends by an error keeps the last step that it took: steps are transactions, so what failed
/// changed nothing. There is nothing to keep where ranks lost each other, or a step broke off in its second
/// half.
void TrainerImpl::end_failed_run(bool saved) {
  const config::CheckpointConfig& c = config_.checkpoint;
  if (c.path.empty() || broken_ || pending_) return;
  try {
    saver_.wait();
    write_last_step(saved);
  } catch (const Error& error) {  // the run's own error is the one to be told
    saver_.count_failure(step_path(c, state_.step), error);
  } catch (const std::exception&) {
  }
}

void TrainerImpl::write_last_step(bool saved) {
  if (config_.checkpoint.async && saved && saver_.last()) saved = !saver_.last()->error();
  if (saved) return;
  size_t at = 0;
  write_due_now({state_.step, true, false}, run_place(), &at);
}

/// `at`: which of due.paths it is writing.
void TrainerImpl::write_due_now(const DueCheckpoints& due, const std::function<std::string()>& where,
                                size_t* at) {
  write_due(
      config_.checkpoint, due, where, [this](const std::string& path) { write_now(path); },
      [this](const std::function<bool()>& fn) { return on_first_process(fn); }, [at](size_t i) { *at = i; });
}

}  // namespace hawser::train
