// A folder of checkpoints: which is the newest that is whole, which go, and what a killed save left behind.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/folder_names.h"
#include "engine/checkpoint/manifest.h"

namespace hawser::checkpoint {
namespace {

struct Step {
  int64_t number;
  std::string path;
};

/// The step-N directories, newest first.
std::vector<Step> list_steps(const Folder& folder) {
  std::vector<Step> steps;
  for (const Folder::Entry& entry : folder.list()) {
    const std::optional<int64_t> number = step_of_name(entry.name);
    if (number && entry.is_folder) steps.push_back({*number, folder.path_of(entry.name)});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.number > b.number; });
  return steps;
}

/// True if the checkpoint opens and verifies; otherwise why not.
bool is_valid(const std::string& path, std::string* problem) {
  try {
    Reader::open(path)->verify();
    return true;
  } catch (const Error& error) {
    *problem = error.message();
    return false;
  }
}

/// Left over: a temporary name that no living save holds locked.
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
    } catch (const Error&) {  // gone meanwhile, or not ours to open
    }
  }
}

/// First out of sight under a temporary name, so that no half-removed checkpoint is ever taken for one.
void remove_checkpoint(const Folder& folder, const Step& step) {
  const std::string temporary = folder.path_of(temporary_name(split_path(step.path).name));
  rename_new(step.path, temporary);
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
    if (error.code() != Code::kNotFound) throw;  // it may be one that cannot be read
    return false;
  }
}

std::string newest_valid(const std::string& folder, std::vector<std::string>* skipped) {
  if (!path_exists(folder)) return "";
  for (const Step& step : list_steps(Folder::open(folder))) {
    std::string problem;
    if (is_valid(step.path, &problem)) return step.path;
    if (skipped != nullptr) skipped->push_back(step.path + ": " + problem);
  }
  return "";
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
  std::vector<Step> steps = list_steps(parent);
  if (keep_last <= 0 || static_cast<int64_t>(steps.size()) <= keep_last) return;
  // Something will go: one that is kept must have been read back whole, if need be an older one.
  std::string problem;
  const auto valid = std::find_if(steps.begin(), steps.end(),
                                  [&](const Step& step) { return is_valid(step.path, &problem); });
  for (auto step = steps.begin() + keep_last; step != steps.end(); ++step)
    if (step != valid) remove_checkpoint(parent, *step);
}

}  // namespace hawser::checkpoint
