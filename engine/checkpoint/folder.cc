// Checkpoint folder: finds the newest valid checkpoint, and removes old ones and the remains of killed saves.
// Only checkpoints that were read and found damaged are skipped. One that cannot be read may be valid, so it
// ends the search.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/folder_names.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/reader.h"

namespace hawser::checkpoint {
namespace {

/// Sorts newest first; `best` comes after a step-N of the same step.
void sort_by_age(std::vector<Candidate>* found) {
  std::stable_sort(found->begin(), found->end(),
                   [](const Candidate& a, const Candidate& b) { return a.step > b.step; });
}

/// Returns the step-N directories, newest first.
std::vector<Candidate> list_steps(const Folder& folder) {
  std::vector<Candidate> steps;
  for (const Folder::Entry& entry : folder.list()) {
    const std::optional<int64_t> step = step_of_name(entry.name);
    if (step && entry.is_folder) steps.push_back({*step, entry.name});
  }
  sort_by_age(&steps);
  return steps;
}

/// Runs `read`. Returns "", or a description of the damage. Rethrows errors that prevented reading.
template <typename Read>
std::string damage_in(Read read) {
  try {
    read();
    return "";
  } catch (const Error& error) {
    if (!is_damage(error)) throw;
    return error.message();
  }
}

std::string damage_of(const std::string& path) {
  return damage_in([&] { Reader::open(path)->verify(); });
}

/// Removes temporary directories that no live save has locked.
void sweep_open(const Folder& folder) {
  for (const Folder::Entry& entry : folder.list()) {
    if (!is_temporary_name(entry.name)) continue;
    if (!entry.is_folder) {
      if (entry.name.compare(0, std::string(kLatestName).size(), kLatestName) == 0)
        remove_tree(folder.path_of(entry.name));
      continue;
    }
    try {
      if (folder.open_folder(entry.name).lock()) remove_tree(folder.path_of(entry.name));
    } catch (const Error&) {  // removed meanwhile, or no permission
    }
  }
}

/// Removes a checkpoint. Renames it to a temporary name first, so that a half-removed checkpoint is never
/// mistaken for a complete one.
void remove_checkpoint(const Folder& folder, const std::string& name) {
  const std::string temporary = folder.path_of(temporary_name(name));
  rename_new(folder.path_of(name), temporary);
  folder.sync();
  remove_tree(temporary);
}

}  // namespace

std::optional<int64_t> step_of_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.empty() || name.size() > 18 || name.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  int64_t value = 0;
  for (const char digit : name) value = value * 10 + (digit - '0');
  return value;
}

std::string temporary_name(const std::string& name) { return name + "." + unique_suffix() + ".tmp"; }

bool is_temporary_name(std::string_view name) {
  constexpr size_t kTail = 1 + 16 + 4;  // ".<hex>.tmp"
  if (name.size() <= kTail || name.substr(name.size() - 4) != ".tmp") return false;
  const std::string_view tail = name.substr(name.size() - kTail, kTail - 4);
  return tail[0] == '.' && tail.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

bool is_checkpoint(const std::string& path) {
  try {
    return Folder::open(path).has_file(kManifestName);
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;  // `path` may be a checkpoint that cannot be read
    return false;
  }
}

bool is_damage(const Error& error) { return error.code() == Code::kCheckpointCorrupt; }

std::vector<Candidate> candidates(const std::string& folder, std::vector<Damaged>* damaged) {
  if (!path_exists(folder)) return {};
  const Folder open = Folder::open(folder);
  std::vector<Candidate> found;
  for (Candidate& step : list_steps(open)) {
    if (is_checkpoint(open.path_of(step.name)))
      found.push_back(std::move(step));
    else
      damaged->push_back({step.name, fmt::format("has no {}", kManifestName)});
  }
  const std::string best = open.path_of(kBestName);
  if (!is_checkpoint(best)) return found;
  int64_t step = 0;
  const std::string problem = damage_in([&] { step = Reader::open(best)->description().step; });
  if (problem.empty())
    found.push_back({step, kBestName});
  else
    damaged->push_back({kBestName, problem});
  sort_by_age(&found);
  return found;
}

std::string newest_valid(const std::string& folder, std::vector<Damaged>* damaged) {
  std::vector<Damaged> unasked;
  if (damaged == nullptr) damaged = &unasked;
  for (const Candidate& candidate : candidates(folder, damaged)) {
    const std::string path = folder + "/" + candidate.name, problem = damage_of(path);
    if (problem.empty()) return path;
    damaged->push_back({candidate.name, problem});
  }
  return "";
}

void fail_no_valid_checkpoint(const std::string& folder, const std::vector<Damaged>& damaged) {
  if (damaged.empty())
    fail(Code::kNotFound, "there is no checkpoint (step-*, {}) below {}", kBestName, folder);
  std::string list;
  for (const Damaged& one : damaged) list += "\n  " + one.name + ": " + one.problem;
  fail(Code::kCheckpointCorrupt, "there is no intact checkpoint below {}; move the damaged ones away:{}",
       folder, list);
}

void sweep(const std::string& folder) {
  if (path_exists(folder)) sweep_open(Folder::open(folder));
}

void put_in_place(const std::string& next, const std::string& path) {
  const Folder parent = Folder::open(split_path(path).parent);
  if (!path_exists(path)) {
    rename_new(next, path);
    parent.sync();
    return;
  }
  if (!exchange_names(next, path)) {
    const std::string old = parent.path_of(temporary_name(split_path(path).name));
    rename_new(path, old);
    rename_new(next, path);
    parent.sync();
    remove_tree(old);
    return;
  }
  parent.sync();
  remove_tree(next);
}

void retain(const std::string& folder, int64_t keep_last) {
  if (!path_exists(folder)) return;
  const Folder parent = Folder::open(folder);
  sweep_open(parent);
  const std::vector<Candidate> steps = list_steps(parent);
  if (keep_last <= 0 || static_cast<int64_t>(steps.size()) <= keep_last) return;
  // Before anything is removed, a checkpoint that stays must verify; if necessary an older one stays too.
  const auto valid = std::find_if(steps.begin(), steps.end(), [&](const Candidate& step) {
    const std::string path = parent.path_of(step.name);
    return is_checkpoint(path) && damage_of(path).empty();
  });
  if (valid == steps.end()) return;
  for (auto step = steps.begin() + keep_last; step != steps.end(); ++step)
    if (step != valid) remove_checkpoint(parent, step->name);
}

}  // namespace hawser::checkpoint
