// PlanDigest: a hash of each part of the plans that must be equal on all ranks. Ranks compare it once, when
// an engine is made; calls then need no check of the plan position.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/assembly/engine_plans.h"

namespace hawser::train {

enum class PlanPart : uint8_t { kTrain, kEval, kLogits, kGenerate, kParameters, kGroups, kCount };
/// For example "plan of training steps", "layout of parameters".
const char* part_name(PlanPart part);

/// Indexed by PlanPart. Of a plan: its instructions in order with their lanes, operands and operand sizes,
/// and what is sent. Of the parameters: names, shapes, types, and how they are sharded. Of the groups: the
/// mesh, the axes along which ranks sum and gather, in which order, and the transport. Workspaces, addresses
/// and values derived from them are left out, because they may differ between machines.
struct PlanDigest {
  std::array<uint64_t, static_cast<size_t>(PlanPart::kCount)> parts{};
  uint64_t& operator[](PlanPart part) { return parts[static_cast<size_t>(part)]; }
  uint64_t operator[](PlanPart part) const { return parts[static_cast<size_t>(part)]; }
};

/// The same on every rank of a world. `inference` as in make_plans.
PlanDigest digest_of(const std::vector<EnginePlans>& stages, const nn::Model& model,
                     const config::ResolvedConfig& config, bool inference);

}  // namespace hawser::train
