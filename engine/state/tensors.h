// Tensors: reads and writes whole tensors of the ranks as f32, by Hawser's names or Hugging Face's.
//
// Threading: const members may run in parallel; set is a mutating call. Collective if ranks are in several
// processes, except location and json. Errors: kNotFound for an unknown name, kInvalidArgument for a wrong
// size, kFailedPrecondition for a tensor that this engine does not have, or not at the moment.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/device/arena.h"
#include "engine/plan/state_table.h"
#include "engine/ranks/ranks.h"
#include "engine/state/progress.h"

namespace hawser::train {

/// From kFirstState on, the kinds are the rows of plan::kStates, in order.
enum class TensorKind : int32_t {
  kWeight = 0,
  kGradient = 1,
  kFirstState = 2,
  kMoment1 = 2,
  kMoment2 = 3,
  kAverage = 4
};
inline TensorKind kind_of_state(size_t state) {
  return static_cast<TensorKind>(static_cast<size_t>(TensorKind::kFirstState) + state);
}
/// Returns the row of plan::kStates for a kind from kFirstState on.
inline size_t state_of_kind(TensorKind kind) {
  return static_cast<size_t>(kind) - static_cast<size_t>(TensorKind::kFirstState);
}
inline constexpr size_t kTensorKinds = static_cast<size_t>(TensorKind::kFirstState) + plan::kStateCount;

/// The location of a parameter in memory, for zero-copy views.
struct TensorLocation {
  const void* data = nullptr;
  DType type = DType::kF32;  ///< f32 or bf16
  std::vector<int64_t> shape;
  std::shared_ptr<device::Arena> arena;
};

/// Gathers the full weight from all ranks that have a part of it, whether it is in NF4 or not. Collective.
void collect_weight(const Ranks& ranks, const nn::Parameter& p, float* out);

class Tensors {
 public:
  /// Create after the initial weights are loaded: their files determine which family's names apply.
  Tensors(const Ranks& ranks, Progress* progress);

  void get(TensorKind kind, std::string_view name, float* data, size_t bytes) const;
  /// True if the engine has such a tensor of the parameter (a gradient: in a step).
  bool keeps(TensorKind kind, const nn::Parameter& p) const;
  void set(TensorKind kind, std::string_view name, const float* data, size_t bytes);
  TensorLocation location(TensorKind kind, std::string_view name) const;
  /// Gathers the full tensor from all ranks that have a part of it.
  void collect(TensorKind kind, const nn::Parameter& p, float* out) const;

  /// Returns for each tensor its names, its shape, and whether it has weight decay and is trained.
  std::string json() const;
  /// Returns for each gradient of the pending step its norm, its largest element, and the number of
  /// non-finite elements.
  std::string statistics_json() const;

 private:
  StateArray state_of(const Rank& rank, TensorKind kind, int32_t group) const;
  void check_kind(TensorKind kind) const;
  void scatter(TensorKind kind, const nn::Parameter& p, const float* data);
  const checkpoint::hf::Binding& binding(std::string_view name) const;

  const Ranks& ranks_;
  Progress& progress_;
  std::vector<checkpoint::hf::Binding> bindings_;
};

}  // namespace hawser::train
