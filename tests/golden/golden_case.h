// GoldenCase: one folder of reference values (tests/golden/README.md describes its files) and the tolerances
// derived from the errors of PyTorch's own float32 and bfloat16 runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/golden/engine_session.h"
#include "tests/golden/safetensors_file.h"

namespace hawser::golden {

struct GoldenCase;

/// The largest relative error allowed per tensor: a multiple of PyTorch's own error plus a floor. A gradient
/// that is only rounding noise differs between CPU levels, and AdamW turns it into steps of any sign.
/// PyTorch's error is then one sample of the noise, so the bounds of this tensor follow from the noise
/// instead.
class Tolerances {
 public:
  /// Reads float32_error.json or bfloat16_error.json of `folder`. precision: "fp32" (8 x + 4e-6), "bf16"
  /// (2 x + 4e-3) or "fp16": a quarter of that of bf16 in the first step, because halves have three bits
  /// more, and the same later. Rounding to either type may turn the sign of a gradient near zero, and
  /// AdamW makes a whole step of it.
  Tolerances(const std::string& folder, const std::string& precision);
  /// Widens the bounds of a vector if its true gradient is below 1e-9 of the norm of all gradients, or if
  /// PyTorch's own error of the gradient is 5 % or more. The error of its gradient may then be as long as the
  /// floor's part of this norm. Each of its elements may move by the learning rate in each step, in either
  /// direction.
  void allow_noise(const GoldenCase& golden);
  /// Throws std::runtime_error if the file has no entry for `name`.
  double of(const std::string& name) const;

 private:
  std::string path_;
  double factor_, floor_;
  double first_step_;  ///< factor on the tolerances of what no optimizer step precedes
  std::map<std::string, double> reference_error_;
  std::map<std::string, double> of_noise_;
};

/// The constant learning rate of every golden case.
inline constexpr double kLearningRate = 2e-3;

/// Rows and the model's expected results. Names are those of the safetensors file.
struct ExpectedPass {
  TokenBatch batch;
  StoredTensor logits;  ///< [rows, cols, vocab]
  double loss = 0;
  std::map<std::string, StoredTensor> gradients;  ///< under Hugging Face names
};

struct GoldenCase {
  ExpectedPass first;             ///< the first step, before any update
  std::vector<TokenBatch> steps;  ///< one batch per step; steps[0] is first.batch
  std::vector<double> losses, grad_norms;
  std::map<std::string, StoredTensor> after;  ///< weights after all steps, under Hugging Face names
};

/// Reads case.safetensors of `folder`. Throws std::runtime_error.
GoldenCase read_case(const std::string& folder);

/// Reads packed.safetensors of `folder`: one row that holds several documents.
ExpectedPass read_packed(const std::string& folder);

/// Returns the norm of the difference over the norm of the truth; infinite if `actual` has a non-finite
/// value.
double relative_error(const std::vector<float>& actual, const std::vector<double>& truth);
double relative_error(const std::vector<double>& actual, const std::vector<double>& truth);

}  // namespace hawser::golden
