// PEFT folder: reads and writes the weights of a PEFT folder. Everything is checked before the first weight
// is written to a sink.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/import_record.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/checkpoint/hf/peft_settings.h"
#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/temporary_folder.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr int64_t kMaxAdapterConfigBytes = int64_t{1} << 20;

std::map<std::string, Binding> by_name(std::string_view family, const nn::ModelConfig& model,
                                       const nn::ParameterTable& table) {
  std::map<std::string, Binding> named;
  for (Binding& binding : adapter_bindings(bindings(family, model, table), table)) {
    std::string name = binding.hf_name;
    named.emplace(std::move(name), std::move(binding));
  }
  return named;
}

/// Throws one error that lists all tensors that do not fit.
void check_tensors(const SafetensorsFile& file, const std::map<std::string, Binding>& wanted) {
  std::vector<std::string> wrong;
  for (const auto& [name, binding] : wanted) {
    const TensorInfo* const info = file.find(name);
    if (info == nullptr) {
      wrong.push_back(fmt::format("{} is missing", name));
      continue;
    }
    const std::optional<DType> dtype = dtype_from_name(info->dtype);
    if (info->shape != binding.hf_shape)
      wrong.push_back(fmt::format("{} has shape {} instead of {}", name, shape_text(info->shape),
                                  shape_text(binding.hf_shape)));
    if (!dtype || !is_weight_dtype(*dtype))
      wrong.push_back(fmt::format("{} has type {} instead of F32, BF16 or F16", name, info->dtype));
  }
  for (const TensorInfo& info : file.tensors())
    if (wanted.count(info.name) == 0)
      wrong.push_back(fmt::format("the adapter of this model has no tensor {}", in_quotes(info.name)));
  constexpr size_t kMost = 20;
  const size_t count = wrong.size();
  if (count > kMost) wrong.resize(kMost), wrong.push_back(fmt::format("and {} more", count - kMost));
  if (count > 0)
    fail(Code::kCheckpointIncompatible, "{} does not fit the model and its {} (/adapter):\n  {}", file.path(),
         kAdapterConfigName, fmt::join(wrong, "\n  "));
}

void write_text(const Folder& folder, const char* name, const std::string& text) {
  File file = folder.create_file(name);
  file.write(text.data(), static_cast<int64_t>(text.size()));
  file.sync();
  file.close();
}

/// Returns the tensors in the order and the types of the import; without an import sorted by name, in f32.
RecordedFile layout_of(const std::map<std::string, Binding>& tensors, const ExtraFiles& extra) {
  if (const auto recorded = extra.find(kAdapterRecordName); recorded != extra.end()) {
    const ImportRecord record = parse_record(recorded->second);
    bool fits = record.files.size() == 1 && record.files[0].tensors.size() == tensors.size();
    for (const RecordedFile& file : record.files)
      for (const RecordedTensor& tensor : file.tensors) {
        const std::optional<DType> dtype = dtype_from_name(tensor.dtype);
        fits = fits && tensors.count(tensor.name) > 0 && dtype && is_weight_dtype(*dtype);
      }
    if (fits) return record.files[0];
  }
  RecordedFile file{kAdapterWeightsName, {{"format", "pt"}}, {}};
  for (const auto& [name, binding] : tensors)
    file.tensors.push_back({name, dtype_name(DType::kF32), RecordedTensor::Kind::kWeight, {}, ""});
  return file;
}

/// Returns the imported text if it still describes the adapter, else a new text.
std::string config_text(std::string_view family, const nn::ModelConfig& model, const ExtraFiles& extra,
                        const std::string& base) {
  const PeftModules modules = PeftModules::of(family, model);
  const PeftSettings settings = peft_settings_of(model, modules);
  if (const auto text = extra.find(kAdapterConfigName); text != extra.end()) {
    try {
      if (read_peft_settings(text->second, modules).means_same(settings)) return text->second;
    } catch (const Error&) {  // the text describes another model, so a new one is written
    }
  }
  return peft_config_text(settings, modules, family, base);
}

/// A PEFT folder has no config.json, so Transformers takes a reward model's padding token from the base
/// model.
void check_padding_of_base(const nn::ModelConfig& model, const ExtraFiles& extra, const std::string& base) {
  if (!model.has_score() || base.empty() || !padding_ends_texts(read_config_text(base), extra)) return;
  fail(Code::kFailedPrecondition,
       "pad_token_id in config.json of {} is also a token that ends texts, so Transformers would read the "
       "score one token too early, where this adapter was not trained to give it; set pad_token_id to null "
       "in that file, or export the merged model",
       base);
}

}  // namespace

std::string read_adapter_config(const std::string& path) {
  const Folder folder = Folder::open(path);
  if (!folder.has_file(kAdapterConfigName, kLinks) || !folder.has_file(kAdapterWeightsName, kLinks))
    fail(Code::kNotFound, "{} is not a PEFT folder: it needs {} and {}", path, kAdapterConfigName,
         kAdapterWeightsName);
  return folder.read_file(kAdapterConfigName, kMaxAdapterConfigBytes, kLinks);
}

ExtraFiles import_adapter(const std::string& path, std::string_view family, const nn::ModelConfig& model,
                          const nn::ParameterTable& table, const ParameterSink& sink,
                          const std::function<void()>& taken) {
  ExtraFiles extra = {{kAdapterConfigName, read_adapter_config(path)}};
  const SafetensorsFile file = SafetensorsFile::open(Folder::open(path), kAdapterWeightsName, kLinks);
  const std::map<std::string, Binding> wanted = by_name(family, model, table);
  check_tensors(file, wanted);
  ImportRecord record;
  record.files.push_back({kAdapterWeightsName, file.metadata(), {}});
  for (const TensorInfo& info : file.tensors()) {
    record.files[0].tensors.push_back({info.name, info.dtype, RecordedTensor::Kind::kWeight, {}, ""});
    read_binding(file, info, wanted.at(info.name), sink, nullptr);
    taken();
  }
  extra[kAdapterRecordName] = record_text(record);
  return extra;
}

void export_adapter(const std::string& path, std::string_view family, const nn::ModelConfig& model,
                    const nn::ParameterTable& table, const ParameterSource& source, const ExtraFiles& extra,
                    const std::string& base, const std::function<void()>& written) {
  check_padding_of_base(model, extra, base);
  const std::string config = config_text(family, model, extra, base);
  const std::map<std::string, Binding> tensors = by_name(family, model, table);
  const RecordedFile file = layout_of(tensors, extra);
  TemporaryFolder temporary(path);
  std::vector<TensorInfo> infos;
  for (const RecordedTensor& tensor : file.tensors)
    infos.push_back({tensor.name, tensor.dtype, tensors.at(tensor.name).hf_shape, 0, 0});
  SafetensorsWriter writer(temporary.folder(), kAdapterWeightsName, std::move(infos), file.metadata);
  for (const RecordedTensor& tensor : file.tensors) {
    write_binding(&writer, *dtype_from_name(tensor.dtype), tensors.at(tensor.name), source);
    written();
  }
  writer.finish();
  write_text(temporary.folder(), kAdapterConfigName, config);
  temporary.publish();
}

}  // namespace hawser::checkpoint::hf
