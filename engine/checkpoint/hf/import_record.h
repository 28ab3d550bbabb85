// ImportRecord: the contents of hawser_import.json. It records how the weights of an imported Hugging Face
// folder were stored (files, order, dtypes, prefix, constant tensors), so that an export reproduces them, and
// is stored with the extra files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hawser::checkpoint::hf {

inline constexpr const char* kRecordName = "hawser_import.json";

struct RecordedTensor {
  /// The kind of values in the tensor.
  enum class Kind {
    kWeight,
    kCopy,        ///< copy of another tensor (TensorCopy)
    kCausalMask,  ///< [1, 1, n, n], 1 up to the diagonal
    kBytes,       ///< a small constant, in `bytes`
  };
  std::string name;  ///< name in the file
  std::string dtype;
  Kind kind = Kind::kWeight;
  std::vector<int64_t> shape;  ///< only for kCausalMask and kBytes
  std::string bytes;           ///< only for kBytes
};

struct RecordedFile {
  std::string name;
  std::map<std::string, std::string> metadata;
  std::vector<RecordedTensor> tensors;  ///< in the file's order
};

struct ImportRecord {
  bool prefixed = true;        ///< names have the base model's prefix ("transformer.", "model.")
  bool sharded = false;        ///< there is an index
  std::string index_metadata;  ///< JSON, or ""
  std::vector<RecordedFile> files;
};

std::string record_text(const ImportRecord& record);
ImportRecord parse_record(const std::string& text);  ///< throws kCheckpointCorrupt

}  // namespace hawser::checkpoint::hf
