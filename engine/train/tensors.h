// Tensors: what the ranks hold, whole and as f32, by our names or by Hugging Face's.
//
// Threading: const members beside each other; set is a mutating call. Collective where ranks are in several
// processes, but for location and json.
// Errors: kNotFound for a name that is none, kInvalidArgument for a wrong size, kFailedPrecondition for what
// this engine does not keep, or not now.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/device/arena.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"

namespace hawser::train {

enum class TensorKind : int32_t { kWeight = 0, kGradient = 1, kMoment1 = 2, kMoment2 = 3 };

/// Where a parameter lies, for zero-copy views.
struct TensorLocation {
  const void* data = nullptr;
  DType type = DType::kF32;  ///< or bf16
  std::vector<int64_t> shape;
  std::shared_ptr<device::Arena> arena;
};

class Tensors {
 public:
  /// After the initial weights, whose files say which family's names there are.
  Tensors(const Ranks& ranks, const Progress& progress);

  void get(TensorKind kind, std::string_view name, float* data, size_t bytes) const;
  void set(TensorKind kind, std::string_view name, const float* data, size_t bytes);
  TensorLocation location(TensorKind kind, std::string_view name) const;
  /// The whole tensor, from all who hold a part of it.
  void collect(TensorKind kind, const nn::Parameter& p, float* out) const;

  /// Every tensor: its names, shape, and whether it decays and trains.
  std::string json() const;
  /// Of the gradients of the pending step: norm, largest and non-finite elements.
  std::string statistics_json() const;

 private:
  StateArray state_of(const Rank& rank, TensorKind kind, int32_t group) const;
  void check_kind(TensorKind kind) const;
  void scatter(TensorKind kind, const nn::Parameter& p, const float* data);
  const checkpoint::hf::Binding& binding(std::string_view name) const;

  const Ranks& ranks_;
  const Progress& progress_;
  std::vector<checkpoint::hf::Binding> bindings_;
};

}  // namespace hawser::train
