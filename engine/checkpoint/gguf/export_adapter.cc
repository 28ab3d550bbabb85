#include "engine/checkpoint/gguf/export_adapter.h"

#include <optional>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/gguf/architecture.h"
#include "engine/checkpoint/gguf/tensors.h"
#include "engine/checkpoint/temporary_folder.h"
#include "engine/nn/adapter_factors.h"

namespace hawser::checkpoint::gguf {
namespace {

constexpr const char* kAdapterFile = "adapter.gguf";  // within the temporary folder

[[noreturn]] void refuse_adapter(const std::string& what) {
  fail(Code::kFailedPrecondition,
       "a GGUF adapter cannot hold {}; export the merged model, or the adapter as a PEFT folder", what);
}

/// The factors of one tensor of the base model's file.
struct Factors {
  std::string name;
  const nn::Parameter* a = nullptr;
  Tensor b;  // its rows are those of the base tensor
  double alpha = 0;
};

/// Returns the factors of the tensor; nothing if none of its parameters has an adapter.
std::optional<Factors> factors_of(const Tensor& tensor, const nn::ParameterTable& table) {
  Factors found;
  size_t adapted = 0;
  for (const std::string& name : tensor.parameters) {
    const nn::Parameter& weight = table.at(name);
    if (weight.trainable && !weight.balances) refuse_adapter(name + ", which is trained too");
    if (!nn::is_linear(weight)) continue;
    const nn::AdapterFactors factors = nn::adapter_factors(table, weight);
    if (!factors) continue;
    if (factors.m != nullptr) refuse_adapter("the magnitudes of DoRA");
    if (tensor.transposed) refuse_adapter("an adapter of " + name);
    if (found.a != nullptr && factors.a != found.a)
      refuse_adapter("separate adapters of q, k and v of GPT-2");
    found.a = factors.a;
    found.alpha = factors.scale * static_cast<double>(factors.a->shape[0]);
    found.b.parameters.push_back(factors.b->name);
    ++adapted;
  }
  if (adapted == 0) return std::nullopt;
  if (adapted != tensor.parameters.size()) refuse_adapter("adapters of some of q, k and v of GPT-2");
  found.name = tensor.name;
  found.b.rows = tensor.rows;
  return found;
}

}  // namespace

void export_adapter(const std::string& path, std::string_view family, const nn::ModelConfig& model,
                    const nn::ParameterTable& table, const hf::ParameterSource& source,
                    const std::function<void()>& written) {
  check_model(family, model);
  std::vector<Factors> all;
  std::vector<TensorInfo> infos;
  for (const Tensor& tensor : tensors_of(family, model, table)) {
    std::optional<Factors> factors = factors_of(tensor, table);
    if (!factors) continue;
    infos.push_back({tensor.name + ".lora_a", factors->a->shape, Type::kF32});
    infos.push_back({tensor.name + ".lora_b", {tensor.shape[0], factors->a->shape[0]}, Type::kF32});
    all.push_back(std::move(*factors));
  }
  HWS_CHECK(!all.empty());
  const double alpha = all.front().alpha;
  Metadata metadata;
  metadata.add("general.architecture", architecture_of(family).name);
  metadata.add("general.type", "adapter");
  metadata.add("adapter.type", "lora");
  metadata.add("adapter.lora.alpha", static_cast<float>(alpha));
  TemporaryFolder temporary(path);
  Writer writer(temporary.folder(), kAdapterFile, metadata, std::move(infos));
  for (Factors& factors : all) {
    writer.append(source(factors.a->name), factors.a->size);
    factors.b.factor = factors.alpha / alpha;  // one alpha holds for the file
    write_tensor(&writer, factors.b, table, source);
    written();
  }
  writer.finish();
  temporary.publish_file(kAdapterFile);
}

}  // namespace hawser::checkpoint::gguf
