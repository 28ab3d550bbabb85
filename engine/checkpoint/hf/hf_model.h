// Hugging Face folders (config.json + safetensors, one file or sharded with an index): these functions map
// their tensors to ours and read the model from config.json. kFamilies (hf_config.h) lists the families.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/nn/model_config.h"
#include "engine/nn/nf4.h"
#include "engine/nn/parameter.h"

namespace hawser::checkpoint::hf {

bool is_hf_folder(const std::string& path);  ///< has config.json, and model.safetensors or its index

/// Reads config.json of the folder. Throws kCheckpointCorrupt for a file above 1 MiB, a broken link, a FIFO
/// or a device.
std::string read_config_text(const std::string& path);

/// A matrix in one of our parameters (all of it, or a slice such as the matrix of one expert) and its place
/// in a Hugging Face tensor. Element (r, c) of the matrix has the index `begin + r * columns + c` in the
/// parameter, and `at + r * row_step + c * column_step` in the tensor.
struct BindingPart {
  std::string parameter;
  int64_t begin = 0, size = 0;  ///< consecutive elements of the parameter
  int64_t at = 0;
  int64_t columns = 1, row_step = 1, column_step = 1;

  int64_t rows() const { return size / columns; }
  /// Returns the index in the tensor of element i of the part.
  int64_t place(int64_t i) const { return at + i / columns * row_step + i % columns * column_step; }
};

/// One Hugging Face tensor made from our parameters. Its parts may follow each other, be stored transposed
/// (GPT-2's Conv1D stores [in, out]), or alternate (GPT-OSS stores an output of the gate next to one of up).
struct Binding {
  std::string hf_name;
  std::vector<int64_t> hf_shape;
  std::vector<BindingPart> parts = {};  ///< empty: the tensor is zeros (see Absent)

  /// Adds consecutive elements of a parameter, which the tensor stores in the same order after the last part.
  void append(const std::string& parameter, int64_t begin, int64_t count) {
    const int64_t at = parts.empty() ? 0 : parts.back().at + parts.back().size;
    parts.push_back({parameter, begin, count, at, count, count, 1});
  }
  int64_t size() const {
    int64_t n = 1;
    for (const int64_t dim : hf_shape) n *= dim;
    return n;
  }
  bool is_transposed() const {
    return std::any_of(parts.begin(), parts.end(), [](const BindingPart& p) { return p.column_step != 1; });
  }
};

/// Storage of experts in a folder. fused: one tensor holds all experts, with gate and up of an expert one
/// after the other; otherwise each expert has its own matrices. plain_names: Mixtral's experts have the names
/// of other families. packed: the matrices of GPT-OSS's experts are not transposed, because a block of
/// MXFP4 is 32 consecutive numbers of a row.
struct ExpertStyle {
  bool fused = false, plain_names = false, packed = false;
};

/// Returns the model section as a JSON config text ({"model": {...}}) from the text of config.json, with
/// Transformers 4 or 5 keys. Keys that affect the mathematics are honoured or refused by name
/// (kConfigInvalid, all at once). Listed keys without effect are accepted. Any other key is refused unless it
/// is in ignore_keys. Throws kConfigParse for invalid JSON.
std::string model_json(std::string_view config_json_text, const std::vector<std::string>& ignore_keys);

/// Returns the model_type that can express a model ("" if none can), for exporting models that were not
/// imported.
std::string family_of(const nn::ModelConfig& model);

/// Treatment of biases that the family always has and the model does not: leave the tensors out, or write
/// zeros in an export, which have the same effect.
enum class Absent { kLeftOut, kZeros };

/// Lists tensor names in the order in which Transformers writes them for the family.
std::vector<Binding> bindings(std::string_view family, const nn::ModelConfig& model,
                              const nn::ParameterTable& table, Absent absent = Absent::kLeftOut,
                              const ExpertStyle& experts = {});
/// A tensor that repeats another one: a tied head that is stored anyway, or the embedding and the head in a
/// layer that predicts further tokens. Both names are Transformers'.
struct TensorCopy {
  std::string name, of;
};
/// Lists the copies that a folder of the model may have. `embedding`: the name of the embedding.
std::vector<TensorCopy> tensor_copies(const nn::ModelConfig& model, const std::string& embedding);
/// Returns the style of a folder that has tensors of these names. `packed` is left false: one tensor of a
/// folder may be packed and another not.
ExpertStyle expert_style(const std::vector<std::string>& stored_names);

/// PartsLeft: counts the remaining uses of parameters while tensors are read or written one after the other.
/// none_after(tensor) is true if no parameter that was used so far is needed again, so memory can be
/// released.
class PartsLeft {
 public:
  void expect(const std::string& parameter) { ++left_[parameter]; }
  void expect(const Binding& binding) {
    for (const BindingPart& part : binding.parts) expect(part.parameter);
  }
  void use(const std::string& parameter) {
    begun_.insert(parameter);
    if (--left_[parameter] == 0) begun_.erase(parameter);
  }
  bool none_after(const Binding& binding) {
    for (const BindingPart& part : binding.parts) use(part.parameter);
    return none();
  }
  bool none() const { return begun_.empty(); }

 private:
  std::map<std::string, int64_t> left_;
  std::set<std::string> begun_;
};

/// Access to our parameters by name, f32 [size].
using ParameterSink = std::function<float*(const std::string& name)>;
/// Receives the parameters that the table stores in NF4.
using Nf4Sink = std::function<void(const std::string& name, nn::Nf4Tensor tensor)>;
using ParameterSource = std::function<const float*(const std::string& name)>;

/// Data that an import passes to a later export: extra files, which are not read (including config.json), and
/// a record "hawser_import.json" (stored dtype per tensor, name prefix, shards).
using ExtraFiles = std::map<std::string, std::string>;

/// Reads all weights of `folder` into `sink` (bf16, f16, f32 widened exactly). Calls `taken` after a stored
/// tensor when all parameters requested since the last call are complete. Everything is checked (missing,
/// unknown, shapes) before the first byte is written to a sink. Constant mask buffers are recognised and
/// skipped. GPT-2 may have the "transformer." prefix or not. `digests` (may be null) receives the digest of
/// each stored tensor's bytes (for a quantised tensor, of its numbers in f32) under Transformers' name for
/// it. `nf4` receives the parameters that the table stores in NF4: unchanged if the folder stores them in
/// NF4, otherwise quantised now, after passing through `sink`.
ExtraFiles import_weights(const std::string& folder, const nn::ModelConfig& model,
                          const nn::ParameterTable& table, const ParameterSink& sink,
                          const std::function<void()>& taken,
                          std::map<std::string, std::string>* digests = nullptr, const Nf4Sink& nf4 = {});

/// Writes `folder` (must not exist): a config.json that Transformers loads, the weights (with the dtypes and
/// names of the import if `extra` has them, else f32), and the extra files. dtype_override: "", "f32",
/// "bf16", "f16". Calls `written` after a stored tensor when the parameters requested since the last call are
/// no longer needed. Exact: export(import(x)) == x bit for bit.
void export_folder(const std::string& folder, const nn::ModelConfig& model, const nn::ParameterTable& table,
                   const ParameterSource& source, const ExtraFiles& extra, const std::string& dtype_override,
                   const std::function<void()>& written);

}  // namespace hawser::checkpoint::hf
