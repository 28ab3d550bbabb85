// Writing a checkpoint. Everything goes into a temporary directory beside the target, each digest is taken
// from memory before the bytes are written, files and directories are flushed, the manifest comes last, and
// one rename makes the checkpoint visible: before it there is none, after it there is a whole one.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/folder_names.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/checkpoint/temporary_folder.h"

namespace hawser::checkpoint {
namespace {

int64_t bytes_of(const TensorView& tensor) {
  int64_t bytes = dtype_bytes(tensor.dtype);
  for (const int64_t dim : tensor.shape)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
      fail(Code::kInvalidArgument, "tensor {} has the shape {}, which cannot be stored",
           in_quotes(tensor.name), shape_text(tensor.shape));
  return bytes;
}

/// Consecutive tensors together, at most shard_bytes in each group unless one tensor alone has more.
std::vector<std::vector<const TensorView*>> make_shards(const std::vector<TensorView>& tensors,
                                                        int64_t shard_bytes) {
  std::vector<std::vector<const TensorView*>> shards;
  int64_t filled = 0;
  for (const TensorView& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor);
    if (shards.empty() || (!shards.back().empty() && bytes > shard_bytes - filled)) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(&tensor);
    filled += bytes;
  }
  return shards;
}

void write_shard(const Folder& folder, const std::string& name, const std::vector<const TensorView*>& tensors,
                 Manifest* manifest) {
  std::vector<TensorInfo> infos;
  for (const TensorView* tensor : tensors)
    infos.push_back({tensor->name, dtype_name(tensor->dtype), tensor->shape, 0, 0});
  SafetensorsWriter writer(folder, name, std::move(infos), {{"format", "hawser"}});
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = *tensors[i];
    const TensorInfo& info = writer.tensors()[i];
    StoredTensor stored{tensor.dtype, tensor.shape, name,
                        info.begin,   info.bytes(), Digest::of(tensor.data, info.bytes())};
    if (!manifest->tensors.emplace(tensor.name, std::move(stored)).second)
      fail(Code::kInvalidArgument, "two tensors have the name {}", in_quotes(tensor.name));
    writer.append(tensor.data, info.bytes());
  }
  writer.finish();
  manifest->files[name] = {writer.bytes(), writer.digest()};
}

void write_file(const Folder& folder, const std::string& name, const std::string& text) {
  File file = folder.create_file(name);
  file.write(text.data(), static_cast<int64_t>(text.size()));
  file.sync();
  file.close();
}

void write_extra(const Folder& folder, const std::map<std::string, std::string>& files, Manifest* manifest) {
  if (files.empty()) return;
  int64_t total = 0;
  const Folder extra = folder.create_folder(kExtraFolder);
  for (const auto& [name, text] : files) {
    if (!is_plain_name(name))
      fail(Code::kInvalidArgument, "a carried file has the name {}, not a plain one", in_quotes(name));
    total += static_cast<int64_t>(text.size());
    if (total > kMaxExtraBytes)
      fail(Code::kInvalidArgument, "the carried files have more than {} bytes together", kMaxExtraBytes);
    manifest->files[std::string(kExtraFolder) + "/" + name] = {
        static_cast<int64_t>(text.size()), Digest::of(text.data(), static_cast<int64_t>(text.size()))};
    write_file(extra, name, text);
  }
  extra.sync();
}

/// The hint for people and scripts; loading does not rely on it, so that a failure here fails nothing.
void write_latest(const SplitPath& path) noexcept {
  try {
    const Folder parent = Folder::open(path.parent);
    const std::string temporary = temporary_name(kLatestName);
    try {
      write_file(parent, temporary, path.name + "\n");
      rename_over(parent.path_of(temporary), parent.path_of(kLatestName));
      parent.sync();
    } catch (const Error&) {
      remove_tree(parent.path_of(temporary));
    }
  } catch (...) {
  }
}

}  // namespace

void save(const std::string& path, const std::vector<TensorView>& tensors, const Description& description,
          int64_t shard_bytes) {
  const SplitPath split = split_path(path);
  if (description.step < 0) fail(Code::kInvalidArgument, "step {} is negative", description.step);
  const auto shards = make_shards(tensors, std::max<int64_t>(shard_bytes, 1));
  Manifest manifest;
  manifest.description = description;
  manifest_text(manifest);  // a description that cannot be stored is found before anything is written
  TemporaryFolder temporary(path);
  const Folder& folder = temporary.folder();
  for (size_t i = 0; i < shards.size(); ++i)
    write_shard(folder, fmt::format("tensors-{:05}-of-{:05}.safetensors", i + 1, shards.size()), shards[i],
                &manifest);
  write_extra(folder, description.extra_files, &manifest);
  folder.sync();
  write_file(folder, kManifestName, manifest_text(manifest));
  temporary.publish();
  if (step_of_name(split.name)) write_latest(split);
}

}  // namespace hawser::checkpoint
