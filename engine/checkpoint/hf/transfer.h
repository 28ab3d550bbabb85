// Tensor transfer: copies one Hugging Face tensor between a file and our parameters, through a buffer of
// bounded size.
#pragma once

#include <vector>

#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_writer.h"

namespace hawser::checkpoint::hf {

inline constexpr int64_t kTransferNumbers = int64_t{1} << 20;  ///< numbers per buffer

/// Copies the numbers of a tensor, which are appended in the tensor's order, to their parameters.
class Placer {
 public:
  Placer(const Binding& binding, const ParameterSink& sink);
  void append(const float* numbers, int64_t n);

 private:
  const Binding& binding_;
  std::vector<float*> parts_;
  int64_t done_ = 0;
};

/// Copies a tensor from its file to the sinks. The tensor's dtype and shape must have been checked. Adds the
/// stored bytes to `digest` (may be null).
void read_binding(const SafetensorsFile& file, const TensorInfo& info, const Binding& binding,
                  const ParameterSink& sink, Digest* digest);

/// Copies from the sources to the next bytes of `writer`. Throws kOutOfRange for a value that `dtype` cannot
/// hold.
void write_binding(SafetensorsWriter* writer, DType dtype, const Binding& binding,
                   const ParameterSource& source);

}  // namespace hawser::checkpoint::hf
