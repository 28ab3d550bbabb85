// Export: writes a Hugging Face folder with the names, dtypes, files and order of the import if there was
// one, else with Transformers' own. The folder appears complete or not at all.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/constant_tensors.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/import_record.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"
#include "engine/checkpoint/json_text.h"
#include "engine/checkpoint/temporary_folder.h"
#include "engine/config/model_fields.h"

namespace hawser::checkpoint::hf {
namespace {

using Kind = RecordedTensor::Kind;

constexpr int64_t kShardBytes = 5'000'000'000;  // Transformers splits files at this size

std::optional<DType> parse_dtype(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "f32") return DType::kF32;
  if (text == "bf16") return DType::kBf16;
  if (text == "f16") return DType::kF16;
  fail(Code::kInvalidArgument, "dtype {} is not one of f32, bf16, f16{}", in_quotes(text),
       text == "q8_0" ? "; it is for GGUF files, whose names end in .gguf" : "");
}

const char* torch_name(DType dtype) {
  return dtype == DType::kF32 ? "float32" : dtype == DType::kBf16 ? "bfloat16" : "float16";
}

class Exporter {
 public:
  Exporter(const nn::ModelConfig& model, const nn::ParameterTable& table, const ParameterSource& source,
           const ExtraFiles& extra, const std::string& dtype, const std::function<void()>& written)
      : model_(model), source_(source), written_(written), extra_(extra), override_(parse_dtype(dtype)) {
    choose_family();
    const auto recorded = extra.find(kRecordName);
    ImportRecord record;
    if (recorded != extra.end()) record = parse_record(recorded->second);
    std::vector<std::string> names;
    for (const RecordedFile& file : record.files)
      for (const RecordedTensor& tensor : file.tensors) names.push_back(tensor.name);
    for (Binding& binding : bindings(family_, model, table, Absent::kZeros, expert_style(names))) {
      order_.push_back(binding.hf_name);
      bindings_[binding.hf_name] = std::move(binding);
    }
    for (const TensorCopy& copy : tensor_copies(model, order_.front())) copies_[copy.name] = copy.of;
    if (!use_record(std::move(record))) plan_files();
  }

  void write(const std::string& path) {
    TemporaryFolder temporary(path);
    for (const RecordedFile& file : layout_.files)
      for (const RecordedTensor& tensor : file.tensors)
        if (tensor.kind == Kind::kWeight) left_.expect(binding_of(tensor));
    const Folder& folder = temporary.folder();
    std::map<std::string, std::string> weight_map;
    int64_t total = 0;
    for (const RecordedFile& file : layout_.files) {
      for (const RecordedTensor& tensor : file.tensors) weight_map[tensor.name] = file.name;
      total += write_weights(folder, file);
    }
    if (layout_.sharded)
      write_text(folder, kIndexName, index_text(weight_map, layout_.index_metadata, total));
    write_text(folder, "config.json", config_text());
    for (const auto& [name, text] : extra_)
      if (name != "config.json" && name != kRecordName) write_text(folder, name, text);
    temporary.publish();
  }

 private:
  void choose_family() {
    if (const std::optional<HfConfig> read = imported_config(extra_, model_)) {
      family_ = read->family;
      original_ = extra_.at("config.json");
      unchanged_ = config::model_differences(read->model, model_).empty();
      return;
    }
    family_ = family_of(model_);
    if (family_.empty())
      fail(Code::kFailedPrecondition, "no Hugging Face family that Hawser knows can express this model ({})",
           obstacles(model_));
  }

  /// Returns Transformers' name for a stored name.
  std::string hf_name(const std::string& stored) const {
    const bool full = layout_.prefixed || bindings_.count(stored) != 0 || copies_.count(stored) != 0;
    return full ? stored : std::string(tensor_prefix(family_)) + stored;
  }

  /// Adopts files, order and dtypes of the import. Returns false if the model no longer has the same set of
  /// tensors.
  bool use_record(ImportRecord record) {
    if (record.files.empty()) return false;
    layout_ = std::move(record);
    std::set<std::string> names;
    bool fits = true;
    for (const RecordedFile& file : layout_.files)
      for (const RecordedTensor& tensor : file.tensors) {
        if (tensor.kind == Kind::kCopy) fits = fits && copies_.count(hf_name(tensor.name)) != 0;
        if (tensor.kind != Kind::kWeight) continue;
        const std::string name = hf_name(tensor.name);
        names.insert(name);
        const std::optional<DType> dtype = dtype_from_name(tensor.dtype);
        if (!dtype || !is_weight_dtype(*dtype))
          fail(Code::kCheckpointCorrupt, "{}: tensor {} has the dtype {}", kRecordName,
               in_quotes(tensor.name), in_quotes(tensor.dtype));
        stored_dtypes_[name] = *dtype;
      }
    for (const std::string& name : order_) fits = fits && names.count(name) != 0;
    return fits && names.size() == order_.size();
  }

  DType dtype_of(const std::string& name) const {
    if (override_) return *override_;
    const auto stored = stored_dtypes_.find(name == "score.weight" && stored_dtypes_.count(name) == 0
                                                ? order_.front()  // a new head gets the embedding's dtype
                                                : name);
    return stored == stored_dtypes_.end() ? DType::kF32 : stored->second;
  }

  /// Plans the files as Transformers would write them. Layers that predict further tokens have their copies,
  /// as in published folders.
  void plan_files() {
    layout_ = {};
    int64_t filled = 0;
    const auto add = [&](const std::string& name, Kind kind, const std::string& source) {
      int64_t bytes = dtype_bytes(dtype_of(source));
      for (const int64_t dim : bindings_.at(source).hf_shape) bytes *= dim;
      if (layout_.files.empty() || (filled > 0 && bytes > kShardBytes - filled)) {
        layout_.files.push_back({"", {{"format", "pt"}}, {}});
        filled = 0;
      }
      layout_.files.back().tensors.push_back({name, dtype_name(dtype_of(source)), kind, {}, ""});
      filled += bytes;
    };
    for (const std::string& name : order_) add(name, Kind::kWeight, name);
    for (const auto& [name, source] : copies_)
      if (name != "lm_head.weight") add(name, Kind::kCopy, source);
    const size_t count = layout_.files.size();
    layout_.sharded = count > 1;
    for (size_t i = 0; i < count; ++i) {
      RecordedFile& file = layout_.files[i];
      file.name = count == 1 ? kSingleName : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
      std::sort(file.tensors.begin(), file.tensors.end(),
                [](const RecordedTensor& a, const RecordedTensor& b) { return a.name < b.name; });
    }
  }

  const Binding& embedding() const { return bindings_.at(order_.front()); }

  const Binding& binding_of(const RecordedTensor& tensor) const {
    const std::string name = hf_name(tensor.name);
    return bindings_.at(tensor.kind == Kind::kCopy ? copies_.at(name) : name);
  }

  int64_t write_weights(const Folder& folder, const RecordedFile& file) {
    std::vector<TensorInfo> infos;
    for (const RecordedTensor& tensor : file.tensors) {
      if (tensor.kind == Kind::kWeight || tensor.kind == Kind::kCopy) {
        const Binding& binding = binding_of(tensor);
        infos.push_back({tensor.name, dtype_name(dtype_of(binding.hf_name)), binding.hf_shape, 0, 0});
      } else {
        infos.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
      }
    }
    SafetensorsWriter writer(folder, file.name, std::move(infos), file.metadata);
    const int64_t header_bytes = writer.bytes();
    for (const RecordedTensor& tensor : file.tensors) write_tensor(&writer, tensor);
    writer.finish();
    return writer.bytes() - header_bytes;
  }

  void write_tensor(SafetensorsWriter* writer, const RecordedTensor& tensor) {
    switch (tensor.kind) {
      case Kind::kWeight:
      case Kind::kCopy: {
        const Binding& binding = binding_of(tensor);
        write_binding(writer, dtype_of(binding.hf_name), binding, source_);
        if (tensor.kind == Kind::kCopy ? left_.none() : left_.none_after(binding)) written_();
        return;
      }
      case Kind::kCausalMask: {
        std::string row;
        const int64_t n = tensor.shape.size() == 4 ? tensor.shape[3] : 0;
        for (int64_t i = 0; i < n; ++i) {
          causal_mask_row(tensor.dtype, n, i, &row);
          writer->append(row.data(), static_cast<int64_t>(row.size()));
        }
        return;
      }
      case Kind::kBytes:
        writer->append(tensor.bytes.data(), static_cast<int64_t>(tensor.bytes.size()));
        return;
    }
  }

  static void write_text(const Folder& folder, const std::string& name, const std::string& text) {
    File file = folder.create_file(name);
    file.write(text.data(), static_cast<int64_t>(text.size()));
    file.sync();
    file.close();
  }

  std::string config_text() const {
    const DType main = dtype_of(embedding().hf_name);
    if (!unchanged_) {
      const std::string made = make_config(family_, model_, torch_name(main), original_);
      return model_.has_score() ? with_padding_token(made, extra_) : made;
    }
    bool changed = false;
    for (const auto& [name, dtype] : stored_dtypes_) changed = changed || dtype_of(name) != dtype;
    return changed || (stored_dtypes_.empty() && override_) ? with_dtype(original_, torch_name(main))
                                                            : original_;
  }

  const nn::ModelConfig& model_;
  const ParameterSource& source_;
  const std::function<void()>& written_;
  const ExtraFiles& extra_;
  const std::optional<DType> override_;
  std::string family_, original_;
  bool unchanged_ = false;
  std::vector<std::string> order_;  // names in Transformers' order
  std::map<std::string, Binding> bindings_;
  std::map<std::string, std::string> copies_;  // and what they are copies of
  std::map<std::string, DType> stored_dtypes_;
  ImportRecord layout_;
  PartsLeft left_;
};

}  // namespace

void export_folder(const std::string& folder, const nn::ModelConfig& model, const nn::ParameterTable& table,
                   const ParameterSource& source, const ExtraFiles& extra, const std::string& dtype_override,
                   const std::function<void()>& written) {
  Exporter(model, table, source, extra, dtype_override, written).write(folder);
}

}  // namespace hawser::checkpoint::hf
