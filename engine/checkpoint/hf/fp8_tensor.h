// Fp8Tensor: reads a matrix whose numbers a Hugging Face folder stores in fp8, with one scale for each block
// of 128 x 128 (DeepSeek-V3, arXiv:2412.19437, section 3.3). `X.weight` holds codes of E4M3, and
// `X.weight_scale_inv` the scales, [ceil(rows / 128), ceil(columns / 128)] in F32 or BF16. The model gets the
// numbers that they stand for: code times scale, rounded to f32.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/hf/transfer.h"
#include "engine/checkpoint/hf/weight_files.h"

namespace hawser::checkpoint::hf {

inline constexpr int64_t kFp8Block = 128;  ///< rows and columns of a block

/// One matrix of `files`.
class Fp8Tensor {
 public:
  static bool is_one(const WeightFiles& files, const std::string& name);
  /// Throws kCheckpointIncompatible if the scales are missing or do not fit the codes.
  Fp8Tensor(const WeightFiles& files, const std::string& name);

  const std::vector<int64_t>& shape() const { return codes_.info->shape; }
  std::string scales_name() const { return name_ + "_scale_inv"; }
  /// Puts the numbers into the sinks, and adds them to `digest` (may be null). Throws kCheckpointIncompatible
  /// for a scale that is not finite; weights are checked later, like those of other folders
  /// (engine/state/finite_weights.h).
  void read(const Binding& binding, const ParameterSink& sink, Digest* digest) const;

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  std::vector<float> read_scales() const;

  const WeightFiles& files_;
  std::string name_;
  WeightFiles::TensorLocation codes_, scales_;
  int64_t block_columns_ = 0;
};

}  // namespace hawser::checkpoint::hf
