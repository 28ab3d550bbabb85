// PlanDigest: a hash of each part of the plans that must be equal on all ranks. Ranks compare the hashes
// once, when an engine is created. Later calls then need not check that all ranks are at the same place of
// the plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/assembly/engine_plans.h"

namespace hawser::train {

enum class PlanPart : uint8_t { kTrain, kEval, kLogits, kGenerate, kParameters, kGroups, kCount };
/// Returns, for example, "plan of training steps" or "layout of parameters".
const char* part_name(PlanPart part);

/// The hashes, indexed by PlanPart. The hash of a plan covers its instructions in order, with their lanes,
/// operands and operand sizes, and what is sent. The hash of parameters covers names, shapes, types and
/// sharding. The hash of groups covers the mesh, the axes along which ranks sum and gather, their order, and
/// the transport. Workspaces, addresses and values derived from them are left out, because they may differ
/// between machines.
struct PlanDigest {
  std::array<uint64_t, static_cast<size_t>(PlanPart::kCount)> parts{};
  uint64_t& operator[](PlanPart part) { return parts[static_cast<size_t>(part)]; }
  uint64_t operator[](PlanPart part) const { return parts[static_cast<size_t>(part)]; }
};

/// Returns the digest, which is equal on all ranks of a world. `inference` has its meaning from make_plans.
PlanDigest digest_of(const std::vector<EnginePlans>& stages, const nn::Model& model,
                     const config::ResolvedConfig& config, bool inference);

}  // namespace hawser::train
