// Opening a checkpoint: manifest, then the header of every file against it, then carried files. Tensors are
// read with pread (a file cut short meanwhile is an error, not a fault) and checked against their digests.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint {
namespace {

constexpr int64_t kChunk = int64_t{4} << 20;

[[noreturn]] void corrupt_tensor(const std::string& path, const std::string& name,
                                 const StoredTensor& tensor) {
  throw Error(
      Code::kCheckpointCorrupt,
      fmt::format("{}: tensor {} (bytes {} to {}) is damaged: its digest is not that of the manifest; use an "
                  "older checkpoint",
                  path, in_quotes(name), tensor.offset, tensor.offset + tensor.bytes),
      fmt::format(R"({{"begin": {}, "end": {}}})", tensor.offset, tensor.offset + tensor.bytes));
}

class ReaderImpl : public Reader {
 public:
  explicit ReaderImpl(const std::string& path) : folder_(Folder::open(path)) {
    if (!folder_.has_file(kManifestName))
      fail(Code::kNotFound, "{} is no checkpoint: it has no {}", path, kManifestName);
    manifest_ =
        parse_manifest(folder_.read_file(kManifestName, kMaxManifestBytes), folder_.path_of(kManifestName));
    for (const auto& [name, file] : manifest_.files) open_file(name, file);
    for (const auto& [name, tensor] : manifest_.tensors) check_tensor(name, tensor);
    for (const auto& [name, file] : files_)
      if (file.tensors().size() != tensors_in_[name])
        fail(Code::kCheckpointCorrupt, "{} has {} tensors, but the manifest has {} in it", file.path(),
             file.tensors().size(), tensors_in_[name]);
  }

  const Description& description() const override { return manifest_.description; }
  const std::map<std::string, Entry>& tensors() const override { return entries_; }

  void read(const std::string& name, void* dst, int64_t bytes) const override {
    const auto found = manifest_.tensors.find(name);
    if (found == manifest_.tensors.end())
      fail(Code::kNotFound, "the checkpoint {} has no tensor {}", folder_.path(), in_quotes(name));
    const StoredTensor& tensor = found->second;
    if (bytes != tensor.bytes)
      fail(Code::kCheckpointIncompatible, "{}: tensor {} is {} {} ({} bytes), but {} bytes are expected",
           folder_.path(), in_quotes(name), dtype_name(tensor.dtype), shape_text(tensor.shape), tensor.bytes,
           bytes);
    const SafetensorsFile& file = files_.at(tensor.file);
    file.file().read_at(tensor.offset, dst, bytes);
    if (Digest::of(dst, bytes) != tensor.digest) corrupt_tensor(file.path(), name, tensor);
  }

  void verify() const override {
    for (const auto& [name, file] : files_) verify_file(file, manifest_.files.at(name));
  }

 private:
  void open_file(const std::string& name, const StoredFile& stored) {
    const std::string extra = std::string(kExtraFolder) + "/";
    if (name.compare(0, extra.size(), extra) == 0) {
      read_extra(name.substr(extra.size()), stored);
      return;
    }
    SafetensorsFile file = open_listed(name);
    check_size(file.path(), file.file().size(), stored);
    files_.emplace(name, std::move(file));
  }

  SafetensorsFile open_listed(const std::string& name) const {
    if (!folder_.has_file(name) && !path_exists(folder_.path_of(name)))
      fail(Code::kCheckpointCorrupt, "{} is missing, though the manifest lists it", folder_.path_of(name));
    return SafetensorsFile::open(folder_, name);
  }

  static void check_size(const std::string& path, int64_t bytes, const StoredFile& stored) {
    if (bytes != stored.bytes)
      fail(Code::kCheckpointCorrupt, "{} has {} bytes, but the manifest says {}", path, bytes, stored.bytes);
  }

  void read_extra(const std::string& name, const StoredFile& stored) {
    const std::string path = folder_.path_of(kExtraFolder) + "/" + name;
    if (!path_exists(path))
      fail(Code::kCheckpointCorrupt, "{} is missing, though the manifest lists it", path);
    const Folder extra = folder_.open_folder(kExtraFolder);
    const File file = extra.open_file(name);
    check_size(path, file.size(), stored);
    extra_bytes_ += stored.bytes;
    if (extra_bytes_ > kMaxExtraBytes)
      fail(Code::kCheckpointCorrupt, "the carried files in {} have more than {} bytes together", extra.path(),
           kMaxExtraBytes);
    std::string text(static_cast<size_t>(stored.bytes), '\0');
    file.read_at(0, text.data(), stored.bytes);
    if (Digest::of(text.data(), stored.bytes) != stored.digest)
      fail(Code::kCheckpointCorrupt, "{} is damaged: its digest is not that of the manifest", path);
    manifest_.description.extra_files[name] = std::move(text);
  }

  void check_tensor(const std::string& name, const StoredTensor& tensor) {
    const auto file = files_.find(tensor.file);
    const TensorInfo* info = file == files_.end() ? nullptr : file->second.find(name);
    if (info == nullptr)
      fail(Code::kCheckpointCorrupt, "{} has no tensor {}, though the manifest says so",
           folder_.path_of(tensor.file), in_quotes(name));
    if (info->dtype != dtype_name(tensor.dtype) || info->shape != tensor.shape ||
        info->begin != tensor.offset || info->bytes() != tensor.bytes)
      fail(Code::kCheckpointCorrupt,
           "{}: tensor {} is {} {} at byte {}, but the manifest says {} {} at byte {}",
           folder_.path_of(tensor.file), in_quotes(name), info->dtype, shape_text(info->shape), info->begin,
           dtype_name(tensor.dtype), shape_text(tensor.shape), tensor.offset);
    entries_[name] = {tensor.dtype, tensor.shape};
    ++tensors_in_[tensor.file];
  }

  /// One pass: the digest of the file, and of each tensor in it.
  void verify_file(const SafetensorsFile& file, const StoredFile& stored) const {
    std::vector<char> buffer(static_cast<size_t>(std::min(kChunk, std::max<int64_t>(stored.bytes, 1))));
    Digest whole;
    const auto pass = [&](int64_t begin, int64_t end, Digest* part) {
      for (int64_t at = begin; at < end; at += kChunk) {
        const int64_t n = std::min(kChunk, end - at);
        file.file().read_at(at, buffer.data(), n);
        whole.add(buffer.data(), n);
        if (part != nullptr) part->add(buffer.data(), n);
      }
    };
    pass(0, file.data_begin(), nullptr);
    for (const TensorInfo& info : file.tensors()) {
      const StoredTensor& tensor = manifest_.tensors.at(info.name);
      Digest digest;
      pass(info.begin, info.end, &digest);
      if (digest.text() != tensor.digest) corrupt_tensor(file.path(), info.name, tensor);
    }
    if (file.file().size() != stored.bytes || whole.text() != stored.digest)
      throw Error(
          Code::kCheckpointCorrupt,
          fmt::format(
              "{}: the header (bytes 0 to {}) is damaged: the file's digest is not that of the manifest",
              file.path(), file.data_begin()),
          fmt::format(R"({{"begin": 0, "end": {}}})", file.data_begin()));
  }

  Folder folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, size_t> tensors_in_;
  std::map<std::string, Entry> entries_;
  int64_t extra_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Reader> Reader::open(const std::string& path) { return std::make_unique<ReaderImpl>(path); }

}  // namespace hawser::checkpoint
