#include "engine/save/run_saves.h"

#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/file_io.h"

namespace hawser::train {

void RunSaves::hold_folder() {
  const std::string& path = config_.path;
  if (path.empty() || ranks_.first().number() != 0) return;
  if (folder_ && !folder_->was_removed()) return;
  try {
    checkpoint::make_folders(path);
    folder_ = std::make_shared<const checkpoint::Folder>(checkpoint::Folder::open(path));
  } catch (const Error&) {
  }
}

/// Returns a function that returns the current path of the run's folder. Any thread may call that function.
std::function<std::string()> RunSaves::place() {
  hold_folder();
  return [folder = folder_, path = config_.path] { return folder ? folder->current_path() : path; };
}

void RunSaves::keep(const References& references, const TeacherOutput& teacher,
                    const data::Dataset* dataset) {
  if (config_.path.empty() || (references.identity.empty() && teacher.identity.empty())) return;
  const std::function<std::string()> where = place();
  ranks_.on_first_process([&] {
    if (!references.identity.empty()) keep_references(references, dataset->references(), where());
    if (!teacher.identity.empty()) keep_teacher(teacher, dataset->teacher(), where());
    return true;
  });
}

bool RunSaves::save(const DueCheckpoints& due) {
  config::CheckpointConfig c = config_;
  if (c.path.empty() || !due.any()) return false;
  std::vector<std::string> paths = due.paths(c);
  size_t at = 0;  // index into paths
  try {
    const std::function<std::string()> where = place();
    c.path = where();
    paths = due.paths(c);
    if (c.async) {
      saves_.write_async(paths, [c, due, where](const auto& write, const auto& begin, const auto& on_first) {
        write_due(c, due, where, write, on_first, begin);
      });
    } else {
      saves_.await_or_refuse();  // waits for a save that the host program started
      write_due_now(due, where, &at);
    }
  } catch (const Error& error) {
    if (c.on_error == config::SaveFailure::kStop || ranks_.broken()) throw;
    saves_.saver().count_failure(paths[at], error);
    return false;
  }
  return due.step_checkpoint;
}

void RunSaves::end(bool saved) {
  const config::CheckpointConfig& c = config_;
  if (c.path.empty()) return;
  saves_.saver().wait();
  saves_.rethrow_unreported_error();
  write_last_step(saved);
}

void RunSaves::end_failed(bool saved) {
  const config::CheckpointConfig& c = config_;
  if (c.path.empty() || ranks_.broken() || ranks_.is_changing() || progress_.pending ||
      progress_.average_in_use)
    return;
  try {
    saves_.saver().wait();
    write_last_step(saved);
  } catch (const Error& error) {  // the run's own error takes precedence
    saves_.saver().count_failure(step_path(c, progress_.state.step), error);
  } catch (const std::exception&) {
  }
}

void RunSaves::write_last_step(bool saved) {
  if (config_.async && saved && saves_.saver().last()) saved = !saves_.saver().last()->error();
  if (saved) return;
  size_t at = 0;
  write_due_now({progress_.state.step, true, false}, place(), &at);
}

/// `at` receives the index in due.paths of the one being written.
void RunSaves::write_due_now(const DueCheckpoints& due, const std::function<std::string()>& where,
                             size_t* at) {
  write_due(
      config_, due, where, [this](const std::string& path) { saves_.write_now(path); },
      [this](const std::function<bool()>& fn) { return ranks_.on_first_process(fn); },
      [at](size_t i) { *at = i; });
}

}  // namespace hawser::train
