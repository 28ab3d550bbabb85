// Update: the interface of optimizers. Each optimizer is one file, which states the arrays that it keeps and
// calls its kernels; the table in optimizer.cc has a row for each optimizer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engine/base/dtype.h"
#include "engine/base/stream.h"
#include "engine/nn/parameter.h"
#include "engine/optim/optim_config.h"
#include "engine/plan/state_table.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// The data type of each array that an optimizer keeps, in the order of plan::kStates; none if it does not
/// keep the array.
using StateTypes = std::array<std::optional<DType>, plan::kStateCount>;

/// The data type of an array in checkpoints: numbers in records are decoded, exactly, because which
/// elements share a record depends on the layout of ranks. Where the layout is the same, they are encoded
/// as they were.
inline DType saved_type(DType kept) { return is_state_block(kept) ? DType::kF32 : kept; }

/// One update: elements of a parameter group that have the same settings. Pointers refer to the first one.
struct UpdateCall {
  void* weights = nullptr;  ///< masters, or the weights if there are none
  void* copy = nullptr;     ///< their rounded copy; null if none
  const void* gradients = nullptr;
  std::array<void*, plan::kStateCount> states = {};  ///< null: the optimizer does not keep the array
  const kernels::OptimizerScalars* scalars = nullptr;
  int64_t n = 0;
  float decay = 0, rate = 1;       ///< weight decay; factor on the learning rate
  DType copy_type = DType::kBf16;  ///< bf16 or f16
  kernels::RoundingRun rounded;    ///< of state in bf16
  /// UpdateUnit::kRecords, instead of decay and rate: the settings of all elements, and the number of the
  /// first one.
  const kernels::SettingsRun* runs = nullptr;
  int64_t first = 0;
};

/// What one call of an optimizer updates.
enum class UpdateUnit {
  kElements,  ///< any elements of the same settings
  kRecords,   ///< whole records of state, which may lie across elements of different settings
  kMatrices,  ///< whole matrices, whose updates are orthogonalised (muon.h)
};

struct UpdateRule {
  const char* name;  ///< of /optimizer/kind
  UpdateUnit unit;
  /// `state`: the data type of weights and gradients, f32 or bf16.
  StateTypes (*states)(const OptimizerConfig& config, DType state);
  /// All arrays are f32, except the copy. The kernels read *call.scalars when they run. Null for matrices.
  void (*update)(const OptimizerConfig& config, const UpdateCall& call, const kernels::KernelTable& kernels,
                 Stream& stream);
  /// All arrays are bf16, without a copy, and are rounded stochastically. Null: not supported.
  void (*update_bf16)(const OptimizerConfig& config, const UpdateCall& call,
                      const kernels::KernelTable& kernels, Stream& stream);
};

inline constexpr size_t kOptimizerKinds = 5;
extern const UpdateRule kAdamW, kSgd, kLion, kMuon, kAdamW8;

const UpdateRule& rule_of(OptimizerKind kind);

/// The kind of optimizer that trains a group (nn::ParameterGroup::optimizer).
inline OptimizerKind kind_of(const nn::ParameterGroup& group) {
  return static_cast<OptimizerKind>(group.optimizer);
}

/// True if the group's optimizer updates whole matrices.
inline bool takes_matrices(const nn::ParameterGroup& group) {
  return group.trainable && rule_of(kind_of(group)).unit == UpdateUnit::kMatrices;
}

/// The arrays that each kind of optimizer keeps, in the order of OptimizerKind.
using StatesByKind = std::array<StateTypes, kOptimizerKinds>;
inline const StateTypes& states_of(const StatesByKind& states, const nn::ParameterGroup& group) {
  return states[static_cast<size_t>(group.optimizer)];
}

/// Returns the arrays that the config's optimizers keep for weights and gradients of type `state`.
StatesByKind states_by_kind(const OptimizerConfig& config, DType state);

/// Returns the parameters that the config trains, with OptimizerKind as the number of an optimizer.
nn::TrainedParts trained_parts(const OptimizerConfig& config);

}  // namespace hawser::optim
