#include "engine/assembly/precision.h"

#include <utility>
#include <vector>

namespace hawser::train {
namespace {

nn::Fp8Scaling scaling_of(config::Fp8Recipe recipe) {
  switch (recipe) {
    case config::Fp8Recipe::kDelayed:
      return nn::Fp8Scaling::kHistory;
    case config::Fp8Recipe::kCurrent:
      return nn::Fp8Scaling::kOperand;
    default:
      return nn::Fp8Scaling::kBlocks;
  }
}

}  // namespace

DType compute_type(const config::ResolvedConfig& config) {
  switch (config.precision) {
    case config::Precision::kFp32:
      return DType::kF32;
    case config::Precision::kFp16:
      return DType::kF16;
    default:
      return DType::kBf16;
  }
}

DType state_type(const config::ResolvedConfig& config) {
  return config.precision == config::Precision::kBf16Pure ? DType::kBf16 : DType::kF32;
}

nn::Fp8Operands fp8_operands(const config::ResolvedConfig& config) {
  if (config.precision != config::Precision::kFp8) return {};
  return {scaling_of(config.fp8.recipe), static_cast<int32_t>(config.fp8.margin)};
}

int64_t noted_fp8_operands(const config::ResolvedConfig& config, const nn::ParameterTable& table) {
  return fp8_operands(config).has_history() ? static_cast<int64_t>(table.all().size()) * nn::kFp8Roles : 0;
}

int64_t noted_head_scores(const config::ResolvedConfig& config, const nn::ParameterTable& table) {
  return config.optimizer.qk_clip ? table.head_scores() : 0;
}

optim::Fp8History fp8_history(const config::ResolvedConfig& config, const nn::ParameterTable& table) {
  if (!fp8_operands(config).has_history()) return {};
  std::vector<optim::Fp8History::Operand> operands;
  for (const nn::Parameter& p : table.all())
    for (int64_t role = 0; const char* const name : {":input", ":weight", ":gradient"})
      operands.push_back({p.name + name, nn::first_fp8_maximum(static_cast<nn::Fp8Role>(role++))});
  return {std::move(operands), config.fp8.history};
}

}  // namespace hawser::train
