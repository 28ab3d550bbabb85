// ShardedSave: opens and finishes a save. The manifest is written after everything it names is on disk, and
// one rename makes the checkpoint visible, so it is complete as soon as it exists.
#include "engine/checkpoint/sharded_save.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/folder_names.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/shard_index.h"

namespace hawser::checkpoint {
namespace {

void write_file(const Folder& folder, const std::string& name, const std::string& text) {
  File file = folder.create_file(name);
  file.write(text.data(), static_cast<int64_t>(text.size()));
  file.sync();
  file.close();
}

void write_extra(const Folder& folder, const std::map<std::string, std::string>& files, Manifest* manifest) {
  if (files.empty()) return;
  const Folder extra = folder.create_folder(kExtraFolder);
  for (const auto& [name, text] : files) {
    manifest->files[std::string(kExtraFolder) + "/" + name] = {
        static_cast<int64_t>(text.size()), Digest::of(text.data(), static_cast<int64_t>(text.size()))};
    write_file(extra, name, text);
  }
  extra.sync();
}

/// Writes a hint for people and scripts. Loading does not rely on it, so a failure here is ignored.
void write_latest(const SplitPath& path) noexcept {
  try {
    const Folder parent = Folder::open(path.parent);
    const std::string name = temporary_name(kLatestName), temporary = parent.path_of(name);
    try {
      write_file(parent, name, path.name + "\n");
      rename_over(temporary, parent.path_of(kLatestName));
      parent.sync();
    } catch (...) {
      remove_tree(temporary);
    }
  } catch (...) {
  }
}

/// Throws if a file is missing: ranks with different file systems would each write successfully into a folder
/// of their own.
void require_files(const Folder& folder, int rank, const StoredFiles& files) {
  for (const auto& [name, file] : files) {
    if (!folder.has_file(name))
      fail(Code::kIo,
           "{}, written by rank {}, is not visible to the rank that finishes the save; all ranks of a save "
           "must share one file system",
           folder.path_of(name), rank);
    const int64_t bytes = folder.open_file(name).size();
    if (bytes != file.bytes)
      fail(Code::kIo, "{} has {} bytes, but rank {} wrote {}", folder.path_of(name), bytes, rank, file.bytes);
  }
}

Manifest gather(const Folder& folder, const std::vector<std::string>& indexes) {
  if (indexes.empty() || indexes.size() > INT32_MAX)
    fail(Code::kInvalidArgument, "a save cannot be finished with {} indexes; one per rank is needed",
         indexes.size());
  Manifest manifest;
  const int world = static_cast<int>(indexes.size());
  for (int rank = 0; rank < world; ++rank) {
    ShardIndex index = parse_index(indexes[static_cast<size_t>(rank)], rank, world);
    require_files(folder, rank, index.files);
    merge_index(std::move(index), &manifest.files, &manifest.tensors);
  }
  for (auto& [name, tensor] : manifest.tensors)
    require_covered(name, &tensor, "the save", Code::kInvalidArgument);
  return manifest;
}

}  // namespace

void check_description(const Description& description) {
  if (description.step < 0) fail(Code::kInvalidArgument, "step {} is negative", description.step);
  int64_t total = 0;
  for (const auto& [name, text] : description.extra_files) {
    if (!is_plain_name(name))
      fail(Code::kInvalidArgument, "a carried file has the name {}, not a plain one", in_quotes(name));
    total += static_cast<int64_t>(text.size());
    if (total > kMaxExtraBytes)
      fail(Code::kInvalidArgument, "the carried files have more than {} bytes together", kMaxExtraBytes);
  }
  manifest_text({description, {}, {}, ""});  // throws if a section is not a JSON object
}

ShardedSave::ShardedSave(const std::string& path) : path_(path), temporary_(path) {}

void SaveProgress::check() const {
  if (cancelled_.load(std::memory_order_relaxed)) fail(Code::kCancelled, "the save was cancelled");
}

void ShardedSave::finish(const std::vector<std::string>& indexes, const Description& description,
                         const SaveProgress* progress) {
  HWS_CHECK(!finished_);
  check_description(description);
  const Folder& folder = temporary_.folder();
  Manifest manifest = gather(folder, indexes);
  manifest.description = description;
  write_extra(folder, description.extra_files, &manifest);
  folder.sync();
  write_file(folder, kManifestName, manifest_text(manifest));
  if (progress != nullptr) progress->check();
  const SplitPath split = split_path(path_);  // done first, because nothing may fail after publishing
  temporary_.publish();
  finished_ = true;
  if (step_of_name(split.name)) write_latest(split);
}

}  // namespace hawser::checkpoint
