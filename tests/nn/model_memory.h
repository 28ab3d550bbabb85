// ModelMemory: the weights and gradients of a full model in plain host memory, with all parameter groups
// contiguous, for tests that call modules directly.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"
#include "engine/proof/reference_model.h"
#include "kernels/include/table.h"

namespace hawser::testing {

using train::FlatLayout;

class ModelMemory {
 public:
  /// `weights`: f32 in the flat layout; products read them in `type`.
  ModelMemory(const nn::ParameterTable& table, std::vector<float> weights, DType type,
              const kernels::KernelTable& kernels, Stream& stream)
      : layout_(table), weights_(std::move(weights)), narrow_(weights_.size()), gradients_(weights_.size()) {
    kernels.convert({narrow_.data(), weights_.data(), DType::kBf16, DType::kF32, layout_.size()}, stream);
    for (size_t g = 0; g < table.groups().size(); ++g) {
      const nn::ParameterGroup& group = table.groups()[g];
      const auto begin = static_cast<size_t>(layout_.begin(g));
      const bool wide = group.read != nn::Read::kProduct || type == DType::kF32;
      groups_.push_back({wide ? reinterpret_cast<const char*>(weights_.data() + begin)
                              : reinterpret_cast<const char*>(narrow_.data() + begin),
                         group.trainable ? gradients_.data() + begin : nullptr});
    }
  }
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  /// Returns the array for Context::groups.
  const nn::GroupPointers* groups() const { return groups_.data(); }
  /// Gradients of trainable parameters; f32 in the flat layout.
  std::vector<float>& gradients() { return gradients_; }
  const FlatLayout& layout() const { return layout_; }

 private:
  FlatLayout layout_;
  std::vector<float> weights_;
  std::vector<uint16_t> narrow_;
  std::vector<float> gradients_;
  std::vector<nn::GroupPointers> groups_;
};

}  // namespace hawser::testing
