// Import: checks everything first (names, shapes, dtypes, constant buffers) and reports all problems
// together. Only then is the first weight written to a sink.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/constant_tensors.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/import_record.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/hf/quantised.h"
#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
constexpr int64_t kMaxCarriedBytes = int64_t{128} << 20;  // limit of one file
constexpr int64_t kMaxCarriedTotal = int64_t{512} << 20;

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// True for tokenizer and generation files, which an export writes unchanged.
bool is_carried(const std::string& name) {
  static const std::set<std::string> kNames = {
      "config.json", "generation_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "merges.txt"};
  return kNames.count(name) != 0 || (starts_with(name, "tokenizer") && ends_with(name, ".json")) ||
         starts_with(name, "chat_template") || ends_with(name, ".model");
}

ExtraFiles read_carried(const Folder& folder) {
  ExtraFiles files;
  int64_t total = 0;
  for (const Folder::Entry& entry : folder.list()) {
    if (entry.is_folder || !is_carried(entry.name)) continue;
    const File file = folder.open_file(entry.name, kLinks);
    const int64_t bytes = file.size();
    total += bytes;
    if (bytes > kMaxCarriedBytes || total > kMaxCarriedTotal)
      fail(Code::kOutOfRange,
           "{} has {} bytes; files that are copied with the model may have at most {}, and {} together. Move "
           "it away",
           file.path(), bytes, kMaxCarriedBytes, kMaxCarriedTotal);
    std::string text(static_cast<size_t>(bytes), '\0');
    file.read_at(0, text.data(), bytes);
    files[entry.name] = std::move(text);
  }
  return files;
}

/// Everything in the weights that does not fit the model, by kind.
struct Mismatch {
  std::vector<std::string> missing, unknown, shapes, dtypes;

  bool any() const { return !missing.empty() || !unknown.empty() || !shapes.empty() || !dtypes.empty(); }

  [[noreturn]] void report(const std::string& folder) const {
    constexpr size_t kMost = 20;  // names per kind in the message; the details list all
    std::string message = fmt::format("the weights in {} do not fit the model of config.json", folder);
    const auto add = [&](const char* title, const std::vector<std::string>& names) {
      if (names.empty()) return;
      const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost));
      message += fmt::format("\n  {} ({}): {}{}", title, names.size(), fmt::join(names.begin(), end, ", "),
                             names.size() > kMost ? ", ..." : "");
    };
    add("missing", missing);
    add("unknown", unknown);
    add("of another shape", shapes);
    add("of a dtype other than F32, BF16 or F16", dtypes);
    throw Error(Code::kCheckpointIncompatible, message,
                Json{{"folder", folder},
                     {"missing", missing},
                     {"unknown", unknown},
                     {"shapes", shapes},
                     {"dtypes", dtypes}}
                    .dump(-1, ' ', false, Json::error_handler_t::replace));
  }
};

class Importer {
 public:
  Importer(const std::string& path, const nn::ModelConfig& model, const nn::ParameterTable& table)
      : folder_(Folder::open(path)), model_(model), table_(table) {
    const HfConfig config = read_config(read_config_text(path), {}, Strictness::kLenient);
    family_ = config.family;
    further_layers_ = model.ahead > 0 ? 0 : config.further_layers;
    starts_score_ = model.has_score() && !config.model.has_score();
    files_ = open_weight_files(folder_);
    std::vector<std::string> names;
    for (const auto& [name, place] : files_.tensors) names.push_back(name);
    prefix_ = tensor_prefix(family_);
    record_.prefixed = std::any_of(files_.tensors.begin(), files_.tensors.end(),
                                   [&](const auto& tensor) { return starts_with(tensor.first, prefix_); });
    bind(expert_style(names));
  }

  ExtraFiles run(const ParameterSink& sink, const std::function<void()>& taken,
                 std::map<std::string, std::string>* digests, const Nf4Sink& nf4) {
    ExtraFiles extra = read_carried(folder_);
    check_bindings();
    check_others();
    if (mismatch_.any()) mismatch_.report(folder_.path());
    make_record();
    extra[kRecordName] = record_text(record_);
    if (!quantised_.empty()) extra["config.json"] = without_quantisation(extra.at("config.json"));
    PartsLeft left;
    for (const Binding& binding : bindings_) left.expect(binding);
    for (const Binding& binding : bindings_) {
      const std::string name = stored_name(binding.hf_name);
      Digest digest, *const as_stored = digests != nullptr ? &digest : nullptr;
      if (const auto quantised = quantised_.find(name); quantised != quantised_.end()) {
        const QuantisedTensor& tensor = *quantised->second;
        if (!tensor.read(binding, sink, keeps_nf4(binding) ? &nf4 : nullptr, as_stored))
          quantise(binding, tensor.type(), sink, nf4);
      } else {
        const WeightFiles::TensorLocation& place = files_.tensors.at(name);
        read_binding(files_.file_of(place), *place.info, binding, sink, as_stored);
        quantise(binding, *dtype_from_name(place.info->dtype), sink, nf4);
      }
      if (digests != nullptr) (*digests)[binding.hf_name] = digest.text();
      if (left.none_after(binding)) taken();
    }
    return extra;
  }

 private:
  /// Lists the bindings of the model. A tensor of GPT-OSS's experts in MXFP4 gets the packed style.
  void bind(ExpertStyle style) {
    bindings_ = bindings(family_, model_, table_, Absent::kLeftOut, style);
    if (is_gpt_oss(family_)) {
      style.packed = true;
      const std::vector<Binding> packed = bindings(family_, model_, table_, Absent::kLeftOut, style);
      for (size_t i = 0; i < packed.size(); ++i)
        if (is_mxfp4(files_, stored_name(packed[i].hf_name))) bindings_[i] = packed[i];
    }
    if (starts_score_) std::erase_if(bindings_, [](const Binding& b) { return b.hf_name == "score.weight"; });
  }

  bool reads_nf4(const BindingPart& part) const { return table_.at(part.parameter).read == nn::Read::kNf4; }
  /// True if the tensor is one parameter that the table stores in NF4.
  bool keeps_nf4(const Binding& binding) const {
    return binding.parts.size() == 1 && reads_nf4(binding.parts[0]);
  }

  /// Quantises those parts of the tensor, already read, that the table stores in NF4.
  void quantise(const Binding& binding, DType type, const ParameterSink& sink, const Nf4Sink& nf4) const {
    for (const BindingPart& part : binding.parts) {
      if (!reads_nf4(part)) continue;
      nn::Nf4Tensor tensor = nn::nf4_quantise(sink(part.parameter), part.size);
      tensor.type = type;
      nf4(part.parameter, std::move(tensor));
    }
  }

  /// Returns the name in the files for Transformers' `hf_name`.
  std::string stored_name(const std::string& hf_name) const {
    return !record_.prefixed && starts_with(hf_name, prefix_) ? hf_name.substr(prefix_.size()) : hf_name;
  }

  void check_bindings() {
    for (const Binding& binding : bindings_) {
      const std::string name = stored_name(binding.hf_name);
      if (std::unique_ptr<QuantisedTensor> tensor = open_quantised(files_, name)) {
        check_quantised(name, binding, std::move(tensor));
        continue;
      }
      const auto found = files_.tensors.find(name);
      if (found == files_.tensors.end()) {
        mismatch_.missing.push_back(name);
        continue;
      }
      const TensorInfo& info = *found->second.info;
      const std::optional<DType> dtype = dtype_from_name(info.dtype);
      if (info.shape != binding.hf_shape)
        mismatch_.shapes.push_back(
            fmt::format("{} is {}, not {}", name, shape_text(info.shape), shape_text(binding.hf_shape)));
      if (!dtype || !is_weight_dtype(*dtype))
        mismatch_.dtypes.push_back(fmt::format("{} is {}", name, info.dtype));
      bound_.insert(name);
    }
  }

  void check_quantised(const std::string& name, const Binding& binding,
                       std::unique_ptr<QuantisedTensor> tensor) {
    if (tensor->shape() != binding.hf_shape)
      mismatch_.shapes.push_back(fmt::format("{} is {} in {}, not {}", name, shape_text(tensor->shape()),
                                             tensor->format(), shape_text(binding.hf_shape)));
    else if (binding.is_transposed())
      mismatch_.shapes.push_back(
          fmt::format("{} is in {}, which is not supported for transposed matrices", name, tensor->format()));
    if (keeps_nf4(binding)) tensor->require_nested(table_.adapter().nf4_nested);
    bound_.insert(tensor->codes());
    bound_.insert(tensor->companions().begin(), tensor->companions().end());
    beside_.insert(tensor->companions().begin(), tensor->companions().end());
    if (tensor->codes() != name) plain_names_[tensor->codes()] = name;
    quantised_[name] = std::move(tensor);
  }

  /// Returns the name and the dtype with which an export writes a tensor. An export does not quantise again,
  /// so both are those of the decoded tensor.
  RecordedTensor as_exported(const TensorInfo& info) const {
    const auto plain = plain_names_.find(info.name);
    const std::string& name = plain == plain_names_.end() ? info.name : plain->second;
    const auto quantised = quantised_.find(name);
    return {name,
            quantised == quantised_.end() ? info.dtype : dtype_name(quantised->second->type()),
            RecordedTensor::Kind::kWeight,
            {},
            ""};
  }

  /// True if the tensor belongs to a layer that predicts further tokens, which the model does not have.
  bool is_further(const std::string& name) const {
    for (int64_t i = model_.layers; i < model_.layers + further_layers_; ++i)
      if (starts_with(name, fmt::format("{}layers.{}.", record_.prefixed ? prefix_ : "", i))) return true;
    return false;
  }

  /// True for tensors that are not imported: those of further layers, and the head of a language model that
  /// gets a score head.
  bool is_left_out(const std::string& name) const {
    return is_further(name) || (starts_score_ && name == "lm_head.weight");
  }

  void check_others() {
    std::map<std::string, std::string> copies;  // stored names
    for (const TensorCopy& copy : tensor_copies(model_, bindings_.front().hf_name))
      copies[stored_name(copy.name)] = stored_name(copy.of);
    for (const auto& [name, place] : files_.tensors) {
      if (bound_.count(name) != 0 || is_left_out(name)) continue;
      if (const auto copy = copies.find(name); copy != copies.end()) {
        check_copy(place, copy->second);
        continue;
      }
      const std::string inner = starts_with(name, prefix_) ? name.substr(prefix_.size()) : name;
      std::optional<RecordedTensor> constant;
      if (record_.prefixed == starts_with(name, prefix_))
        constant = recognise_constant(family_, inner, files_.file_of(place), *place.info, model_);
      if (constant) {
        constants_[name] = std::move(*constant);
      } else {
        mismatch_.unknown.push_back(in_quotes(name));
      }
    }
  }

  /// Requires a copy to equal the tensor of which it is one, bit for bit.
  void check_copy(const WeightFiles::TensorLocation& copy, const std::string& of) {
    const auto found = files_.tensors.find(of);
    if (found == files_.tensors.end()) return;  // reported as missing
    const TensorInfo &a = *copy.info, &b = *found->second.info;
    bool same = a.dtype == b.dtype && a.shape == b.shape;
    constexpr int64_t kChunk = int64_t{1} << 20;
    std::vector<char> left(kChunk), right(kChunk);
    for (int64_t at = 0; same && at < a.bytes(); at += kChunk) {
      const int64_t n = std::min(kChunk, a.bytes() - at);
      files_.file_of(copy).read(a, at, left.data(), n);
      files_.file_of(found->second).read(b, at, right.data(), n);
      same = std::memcmp(left.data(), right.data(), static_cast<size_t>(n)) == 0;
    }
    if (!same)
      fail(Code::kCheckpointIncompatible, "{}: {} differs from {}, but {}", files_.file_of(copy).path(),
           a.name, b.name,
           a.name == "lm_head.weight"
               ? "config.json ties them; set tie_word_embeddings to false there if the head has its own "
                 "weights"
               : "layers that predict further tokens must share it; to leave those layers out, list "
                 "num_nextn_predict_layers in init.ignore_keys");
    constants_[a.name] = {a.name, a.dtype, RecordedTensor::Kind::kCopy, {}, ""};
  }

  void make_record() {
    record_.sharded = files_.sharded;
    record_.index_metadata = files_.index_metadata;
    for (size_t i = 0; i < files_.files.size(); ++i) {
      RecordedFile file{files_.names[i], files_.files[i].metadata(), {}};
      for (const TensorInfo& info : files_.files[i].tensors()) {
        if (is_left_out(info.name) || beside_.count(info.name) != 0) continue;
        const auto constant = constants_.find(info.name);
        if (constant != constants_.end()) {
          file.tensors.push_back(constant->second);
        } else {
          file.tensors.push_back(as_exported(info));
        }
      }
      if (!file.tensors.empty()) record_.files.push_back(std::move(file));
    }
  }

  Folder folder_;
  const nn::ModelConfig& model_;
  const nn::ParameterTable& table_;
  std::string family_, prefix_;
  int64_t further_layers_ = 0;
  bool starts_score_ = false;
  std::vector<Binding> bindings_;
  WeightFiles files_;
  std::map<std::string, std::unique_ptr<QuantisedTensor>> quantised_;
  std::map<std::string, std::string> plain_names_;  // by the name of the codes
  std::set<std::string> bound_, beside_;            // beside_: companions of quantised tensors
  std::map<std::string, RecordedTensor> constants_;
  Mismatch mismatch_;
  ImportRecord record_;
};

}  // namespace

bool is_hf_folder(const std::string& path) {
  try {
    const Folder folder = Folder::open(path);
    return folder.has_file("config.json", kLinks) &&
           (folder.has_file(kSingleName, kLinks) || folder.has_file(kIndexName, kLinks));
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;  // `path` may be a folder that cannot be read
    return false;
  }
}

std::string read_config_text(const std::string& path) {
  return Folder::open(path).read_file("config.json", kMaxConfigBytes, kLinks);
}

ExtraFiles import_weights(const std::string& folder, const nn::ModelConfig& model,
                          const nn::ParameterTable& table, const ParameterSink& sink,
                          const std::function<void()>& taken, std::map<std::string, std::string>* digests,
                          const Nf4Sink& nf4) {
  return Importer(folder, model, table).run(sink, taken, digests, nf4);
}

}  // namespace hawser::checkpoint::hf
