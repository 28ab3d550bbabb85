// Assembles the op-case table and makes the operands of its rows.
#include "tests/harness/op_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace hawser::testing {
namespace {

double round_bf16(double x) {
  const float f = static_cast<float>(x);
  if (std::isnan(f)) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  return std::bit_cast<float>(bits);
}

double round_f16(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), -14);  // subnormals share the exponent of 2^-14
  const double value = std::ldexp(std::nearbyint(std::ldexp(x, 10 - exponent)), exponent - 10);
  return std::abs(value) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), x) : value;
}

}  // namespace

const std::vector<std::string>& all_ops() {
  static const std::vector<std::string> ops = {
#define HWS_NAME(name, Args) #name,
      HWS_EACH_KERNEL(HWS_NAME)
#undef HWS_NAME
  };
  return ops;
}

double rounded(double x, DType type) {
  if (type == DType::kBf16) return round_bf16(x);
  if (type == DType::kF32) return static_cast<float>(x);
  if (type == DType::kF16) return round_f16(x);
  return x;
}

std::vector<double> random_values(int64_t n, uint32_t seed, double spread, DType type) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0.0, 1.0);
  std::vector<double> values(static_cast<size_t>(n));
  for (double& x : values) x = rounded(spread * normal(generator), type);
  return values;
}

Operand input(std::string name, DType type, int64_t n, uint32_t seed, double spread) {
  return {std::move(name), Role::kInput, type, random_values(n, seed, spread, type), 0};
}

Operand output(std::string name, DType type, int64_t n, double tolerance) {
  const std::vector<double> poison(static_cast<size_t>(n), std::numeric_limits<double>::quiet_NaN());
  return {std::move(name), Role::kOutput, type, poison, tolerance};
}

Operand whole_numbers(std::string name, std::vector<double> value, Role role, DType type) {
  return {std::move(name), role, type, std::move(value), 0};
}

Operand in_out(std::string name, DType type, int64_t n, uint32_t seed, double spread, double tolerance) {
  Operand operand = output(std::move(name), type, n, tolerance);
  operand.role = Role::kInOut;
  operand.value = random_values(n, seed, spread, type);
  return operand;
}

std::string type_word(DType type) {
  return type == DType::kBf16 ? "bf16" : type == DType::kF16 ? "f16" : "f32";
}

namespace {

/// True if the row needs halves that only the CPU has, in an operand or between two steps of the kernel: CUDA
/// converts and sums them, and does nothing else.
bool computes_with_halves(const OpCase& c) {
  if (c.op == "convert" || c.op == "ordered_sum") return false;
  if (c.name.find("_f16") != c.name.npos) return true;
  return std::any_of(c.operands.begin(), c.operands.end(),
                     [](const Operand& operand) { return operand.type == DType::kF16; });
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases;
    add_attention_cases(cases);
    add_norm_cases(cases);
    add_activation_cases(cases);
    add_cross_entropy_cases(cases);
    add_matmul_cases(cases);
    add_epilogue_cases(cases);
    add_ordered_sum_cases(cases);
    add_stream_cases(cases);
    add_vector_cases(cases);
    add_optimizer_bf16_cases(cases);
    add_muon_cases(cases);
    add_adamw8_cases(cases);
    add_router_cases(cases);
    add_expert_cases(cases);
    add_expert_bias_cases(cases);
    add_latent_cases(cases);
    add_sink_cases(cases);
    add_nf4_cases(cases);
    add_block_cases(cases);
    add_fp8_cases(cases);
    add_fp8_product_cases(cases);
    add_magnitude_cases(cases);
    for (OpCase& c : cases) c.cpu_only = c.cpu_only || computes_with_halves(c);
    return cases;
  }();
  return all;
}

const std::vector<GradientCase>& gradient_cases() {
  static const std::vector<GradientCase> all = [] {
    std::vector<GradientCase> cases;
    add_attention_gradients(cases);
    add_norm_gradients(cases);
    add_activation_gradients(cases);
    add_cross_entropy_gradients(cases);
    add_matmul_gradients(cases);
    add_stream_gradients(cases);
    add_router_gradients(cases);
    add_expert_gradients(cases);
    add_latent_gradients(cases);
    add_sink_gradients(cases);
    return cases;
  }();
  return all;
}

}  // namespace hawser::testing
