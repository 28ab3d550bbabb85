// The op-case table: at least one row for each op of kernels/include/table.h. A row calls the fast path and
// the scalar reference on the same operands; a gradient row has the reference's forward over complex numbers
// and its backward. The tests of correctness on every CPU level, gradients, determinism and poisoning all
// read this table.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "kernels/include/table.h"
#include "tests/harness/complex_step.h"

namespace hawser::testing {

enum class Role { kInput, kOutput, kInOut };

/// One buffer of an op. Values are kept in double, already rounded to `type`. Outputs start as NaN in both
/// paths: elements that neither path writes must stay NaN in both, so gaps between rows are checked, too.
struct Operand {
  std::string name;
  Role role = Role::kInput;
  DType type = DType::kF32;
  std::vector<double> value;
  double tolerance =
      0;  ///< bound of |fast - reference|, relative to |reference| + its root mean square; outputs only
  /// The amount that a GPU library may add to `tolerance` (tensor_core_tolerance).
  double on_tensor_cores = 0;
};

/// An addition to the tolerance, relative to the root mean square of the result. Hopper's tensor cores sum k
/// products of bf16 by adding 16 at a time and cut off digits below 2^-23 of the sum. cuBLASLt kernels
/// without a bias epilogue round the product to the result's type before they add the bias.
constexpr double tensor_core_tolerance(int64_t k, bool rounded_before_bias) {
  return static_cast<double>(k) / 16 / (1 << 23) + (rounded_before_bias ? 1.0 / 256 : 0.0);
}

/// Addresses of the fast path's operands, in the order of OpCase::operands, and its workspace.
struct FastCall {
  const kernels::KernelTable& table;
  Stream& stream;
  std::vector<void*> data;
  std::function<void*(int64_t bytes)> workspace;  ///< returns exactly `bytes` bytes, 64-byte aligned, filled
                                                  ///< with NaN

  template <class T>
  T* as(size_t operand) const {
    return static_cast<T*>(data[operand]);
  }
};

struct OpCase {
  std::string op;    ///< the entry of KernelTable
  std::string name;  ///< the special property of this row
  std::vector<Operand> operands;
  std::function<void(const FastCall&)> fast;
  std::function<void(RealOperands& values)> reference;  ///< reads inputs, writes outputs, in operand order
  bool narrow = false;  ///< only for tables with narrow_logits, epilogues and rounded_gradients (CUDA)
  /// Not for CUDA, whose heads have at most 256 elements, and which has no precision fp16.
  bool cpu_only = false;
  /// The shape is large to reach a form of the CPU's kernels, or more of its tiles. The emulated GPU computes
  /// all shapes in tiles of 64, so smaller rows test the same there in much less time.
  bool for_cpu_tiles = false;
};

struct GradientCase {
  /// The entry of KernelTable whose reference this row differentiates, or which is the derivative.
  std::string op;
  std::string name;
  RealOperands inputs;
  std::function<ComplexOperands(const ComplexOperands& in)> forward;
  /// Returns the gradient by each input, given the gradient by each output of `forward`.
  std::function<RealOperands(const RealOperands& in, const RealOperands& dout)> backward;
};

/// Names every computing entry of KernelTable.
const std::vector<std::string>& all_ops();

/// The lists are made once, at the first call.
const std::vector<OpCase>& op_cases();
const std::vector<GradientCase>& gradient_cases();

// Functions that make the operands of rows.

/// Returns n normal values of the given spread, rounded to `type`; equal seeds give equal values.
std::vector<double> random_values(int64_t n, uint32_t seed, double spread = 1.0, DType type = DType::kF32);

/// Returns x as `type` stores it (f32, bf16, f16).
double rounded(double x, DType type);

Operand input(std::string name, DType type, int64_t n, uint32_t seed, double spread = 1.0);
Operand output(std::string name, DType type, int64_t n, double tolerance = 4e-6);
Operand in_out(std::string name, DType type, int64_t n, uint32_t seed, double spread = 1.0,
               double tolerance = 4e-6);

/// Makes an operand of integers (i32, i64 or u8), which are exact.
Operand whole_numbers(std::string name, std::vector<double> value, Role role = Role::kInput,
                      DType type = DType::kI32);

/// Returns "f32", "bf16" or "f16", for names of rows.
std::string type_word(DType type);

// Each family of ops adds its rows (op_cases_*.cc).
void add_attention_cases(std::vector<OpCase>& cases);
void add_attention_piece_cases(std::vector<OpCase>& cases);
void add_norm_cases(std::vector<OpCase>& cases);
void add_activation_cases(std::vector<OpCase>& cases);
void add_cross_entropy_cases(std::vector<OpCase>& cases);
void add_matmul_cases(std::vector<OpCase>& cases);
void add_epilogue_cases(std::vector<OpCase>& cases);
void add_ordered_sum_cases(std::vector<OpCase>& cases);
void add_stream_cases(std::vector<OpCase>& cases);
void add_vector_cases(std::vector<OpCase>& cases);
void add_optimizer_bf16_cases(std::vector<OpCase>& cases);
void add_muon_cases(std::vector<OpCase>& cases);
void add_adamw8_cases(std::vector<OpCase>& cases);
void add_router_cases(std::vector<OpCase>& cases);
void add_expert_cases(std::vector<OpCase>& cases);
void add_expert_bias_cases(std::vector<OpCase>& cases);
void add_latent_cases(std::vector<OpCase>& cases);
void add_sink_cases(std::vector<OpCase>& cases);
void add_nf4_cases(std::vector<OpCase>& cases);
void add_block_cases(std::vector<OpCase>& cases);
void add_fp8_cases(std::vector<OpCase>& cases);
void add_fp8_product_cases(std::vector<OpCase>& cases);
void add_magnitude_cases(std::vector<OpCase>& cases);
void add_attention_gradients(std::vector<GradientCase>& cases);
void add_norm_gradients(std::vector<GradientCase>& cases);
void add_activation_gradients(std::vector<GradientCase>& cases);
void add_cross_entropy_gradients(std::vector<GradientCase>& cases);
void add_matmul_gradients(std::vector<GradientCase>& cases);
void add_stream_gradients(std::vector<GradientCase>& cases);
void add_router_gradients(std::vector<GradientCase>& cases);
void add_expert_gradients(std::vector<GradientCase>& cases);
void add_latent_gradients(std::vector<GradientCase>& cases);
void add_sink_gradients(std::vector<GradientCase>& cases);

}  // namespace hawser::testing
