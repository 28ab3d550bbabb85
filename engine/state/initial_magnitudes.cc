#include "engine/state/initial_magnitudes.h"

#include "engine/checkpoint/hf/number_format.h"

namespace hawser::train {

std::vector<float> initial_magnitudes(const nn::Parameter& weight, std::vector<float> numbers,
                                      DType read_as) {
  if (read_as != DType::kF32) {
    std::vector<uint16_t> rounded(numbers.size());
    checkpoint::hf::narrow(read_as, numbers.data(), weight.size, rounded.data());
    checkpoint::hf::widen(read_as, rounded.data(), weight.size, numbers.data());
  }
  std::vector<float> norms(static_cast<size_t>(weight.shape[0]));
  nn::row_norms(norms.data(), numbers.data(), weight.shape[0], weight.shape[1]);
  return norms;
}

}  // namespace hawser::train
