// Hugging Face folders (config.json + safetensors, one file or sharded with an index): maps their tensors to
// ours, and reads the model from config.json. Families: gpt2, llama, mistral, qwen2, qwen3, gemma2,
// gemma3_text; with experts mixtral,
// qwen2_moe, qwen3_moe, dots1, deepseek_v3.
#pragma once

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

bool is_hf_folder(const std::string& path);  ///< config.json and model.safetensors or its index

/// Reads config.json of the folder. Throws kCheckpointCorrupt for a file above 1 MiB, a link elsewhere, a
/// FIFO or a device.
std::string read_config_text(const std::string& path);

/// Consecutive elements of one of our parameters: all of it, or a slice, such as the matrix of one expert.
struct BindingPart {
  std::string parameter;
  int64_t begin = 0, size = 0;
};

/// One Hugging Face tensor made from ours: parts one after the other, or whole matrices stacked along our
/// rows and then transposed (GPT-2's Conv1D stores [in, out]).
struct Binding {
  std::string hf_name;
  std::vector<int64_t> hf_shape;
  std::vector<BindingPart> parts;  ///< none: zeros (see Absent)
  bool transposed = false;
};

/// How a folder stores experts: a matrix of each, or all in one tensor, gate and up of an expert one after
/// the other. And whether Mixtral's are called as in other families.
struct ExpertStyle {
  bool fused = false, plain_names = false;
};

/// The model section as a JSON config text ({"model": {...}}) from the text of config.json, with Transformers
/// 4 or 5 keys. Keys that affect the mathematics are honoured or refused by name (kConfigInvalid, all at
/// once). Listed keys without effect are accepted. Any other key is refused unless it is in ignore_keys.
/// Throws kConfigParse for invalid JSON.
std::string model_json(std::string_view config_json_text, const std::vector<std::string>& ignore_keys);

/// The model_type that can express a model, from its config ("" if none can), to export models that were not
/// imported.
std::string family_of(const nn::ModelConfig& model);

/// How to handle biases that the family always has and the model does not: leave the tensors out or, in an
/// export, write zeros, which mean the same.
enum class Absent { kLeftOut, kZeros };

/// Tensor names and order as Transformers writes them for the family.
std::vector<Binding> bindings(std::string_view family, const nn::ModelConfig& model,
                              const nn::ParameterTable& table, Absent absent = Absent::kLeftOut,
                              const ExpertStyle& experts = {});
/// The style of a folder that has tensors of these names.
ExpertStyle expert_style(const std::vector<std::string>& stored_names);

/// Tells, of tensors that are read or written one after the other, when no parameter that has been begun is
/// needed again.
class PartsLeft {
 public:
  void expect(const Binding& binding) {
    for (const BindingPart& part : binding.parts) ++left_[part.parameter];
  }
  bool none_after(const Binding& binding) {
    for (const BindingPart& part : binding.parts) {
      begun_.insert(part.parameter);
      if (--left_[part.parameter] == 0) begun_.erase(part.parameter);
    }
    return none();
  }
  bool none() const { return begun_.empty(); }

 private:
  std::map<std::string, int64_t> left_;
  std::set<std::string> begun_;
};

/// Access to our parameters by name, f32 [size].
using ParameterSink = std::function<float*(const std::string& name)>;
/// Takes what the table keeps in NF4.
using Nf4Sink = std::function<void(const std::string& name, nn::Nf4Tensor tensor)>;
using ParameterSource = std::function<const float*(const std::string& name)>;

/// What an import keeps for a later export: extra files, unread (including config.json), and a record
/// "hawser_import.json" (stored dtype per tensor, name prefix, shards).
using ExtraFiles = std::map<std::string, std::string>;

/// Reads all weights of `folder` into `sink` (bf16, f16, f32 widened exactly). Calls `taken` after each
/// stored tensor, when the parameters requested since the last call are complete. Everything is checked
/// (missing, unknown, shapes) before the first byte is written to a sink. Constant mask buffers are
/// recognised and skipped; GPT-2 with and without the "transformer." prefix. `digests` (may be null) receives
/// the digest of each stored tensor's bytes (of a quantised one, of its numbers in f32) under the name that
/// Transformers gives it. `nf4` gets the parameters that the table has in NF4: as they are in the folder if
/// they are quantised there, else quantised now, for which they pass through `sink`.
ExtraFiles import_weights(const std::string& folder, const nn::ModelConfig& model,
                          const nn::ParameterTable& table, const ParameterSink& sink,
                          const std::function<void()>& taken,
                          std::map<std::string, std::string>* digests = nullptr, const Nf4Sink& nf4 = {});

/// Writes `folder` (must not exist): a config.json that Transformers loads, the weights (with the dtypes and
/// names of the import if `extra` has them, else f32), and the extra files. dtype_override: "", "f32",
/// "bf16", "f16". Calls `written` after each stored tensor, when the parameters requested since the last call
/// are no longer needed. Exact: export(import(x)) == x bit for bit.
void export_folder(const std::string& folder, const nn::ModelConfig& model, const nn::ParameterTable& table,
                   const ParameterSource& source, const ExtraFiles& extra, const std::string& dtype_override,
                   const std::function<void()>& written);

}  // namespace hawser::checkpoint::hf
