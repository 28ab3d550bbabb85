#include "engine/checkpoint/gguf/export_file.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/gguf/architecture.h"
#include "engine/checkpoint/gguf/tensors.h"
#include "engine/checkpoint/gguf/vocabulary.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/import_record.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/temporary_folder.h"

namespace hawser::checkpoint::gguf {
namespace {

constexpr const char* kFile = "model.gguf";  // within the temporary folder

/// Returns the family of the imported config.json, if it can still express the model, else any that can.
std::string choose_family(const nn::ModelConfig& model, const hf::ExtraFiles& files) {
  if (const auto imported = hf::imported_config(files, model)) return imported->family;
  const std::string family = hf::family_of(model);
  if (family.empty())
    fail(Code::kFailedPrecondition,
         "no model family that llama.cpp and Hawser know can express this model ({})", hf::obstacles(model));
  return family;
}

/// Returns the type in which the imported folder stores most of its tensors.
Type imported_type(const hf::ExtraFiles& files) {
  const auto recorded = files.find(hf::kRecordName);
  if (recorded == files.end()) return Type::kF32;
  std::map<std::string, int64_t> count;
  for (const hf::RecordedFile& file : hf::parse_record(recorded->second).files)
    for (const hf::RecordedTensor& tensor : file.tensors) ++count[tensor.dtype];
  if (count["BF16"] > count["F32"] && count["BF16"] >= count["F16"]) return Type::kBf16;
  return count["F16"] > count["F32"] ? Type::kF16 : Type::kF32;
}

Type choose_type(const std::string& dtype, const hf::ExtraFiles& files) {
  if (dtype.empty()) return imported_type(files);
  const std::optional<Type> type = type_from_name(dtype);
  if (!type)
    fail(Code::kInvalidArgument, "dtype {} is not one of f32, f16, bf16, q8_0 (GGUF)", in_quotes(dtype));
  return *type;
}

/// Returns llama.cpp's number for a file whose matrices have the type.
uint32_t file_type(Type type) {
  switch (type) {
    case Type::kF32:
      return 0;
    case Type::kF16:
      return 1;
    case Type::kQ8_0:
      return 7;
    case Type::kBf16:
      break;
  }
  return 32;
}

std::vector<TensorInfo> infos_of(const std::vector<Tensor>& tensors, Type type) {
  std::vector<TensorInfo> infos;
  for (const Tensor& tensor : tensors) {
    const Type stored = tensor.exact ? Type::kF32 : type;
    if (stored == Type::kQ8_0 && tensor.shape.back() % kQ8Numbers != 0)
      fail(Code::kInvalidArgument,
           "q8_0 needs rows of a multiple of {} numbers, but {} has rows of {}; export with dtype f16",
           kQ8Numbers, tensor.name, tensor.shape.back());
    infos.push_back({tensor.name, tensor.shape, stored});
  }
  return infos;
}

}  // namespace

bool is_gguf_path(std::string_view path) { return path.ends_with(".gguf"); }

void export_file(const std::string& path, const nn::ModelConfig& model, const nn::ParameterTable& table,
                 const hf::ParameterSource& source, const hf::ExtraFiles& files, const std::string& dtype,
                 const std::function<void()>& written) {
  const Type type = choose_type(dtype, files);
  const std::string family = choose_family(model, files);
  check_model(family, model);
  Metadata metadata;
  metadata.add("general.architecture", architecture_of(family).name);
  metadata.add("general.type", "model");
  metadata.add("general.file_type", file_type(type));
  metadata.add("general.quantization_version", uint32_t{2});
  add_model(family, model, &metadata);
  add_vocabulary(files, model.vocab_size, &metadata);
  const std::vector<Tensor> tensors = tensors_of(family, model, table);
  TemporaryFolder temporary(path);
  Writer writer(temporary.folder(), kFile, metadata, infos_of(tensors, type));
  hf::PartsLeft left;
  for (const Tensor& tensor : tensors)
    for (const std::string& parameter : tensor.parameters) left.expect(parameter);
  for (const Tensor& tensor : tensors) {
    write_tensor(&writer, tensor, table, source);
    for (const std::string& parameter : tensor.parameters) left.use(parameter);
    if (left.none()) written();
  }
  writer.finish();
  temporary.publish_file(kFile);
}

}  // namespace hawser::checkpoint::gguf
