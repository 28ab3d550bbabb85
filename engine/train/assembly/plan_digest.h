// PlanDigest: what all ranks must have planned alike, as a number for each part. Ranks compare it once, when
// an engine is made; from then on no call needs a word about where in the plan a rank is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/train/assembly/engine_plans.h"

namespace hawser::train {

enum class PlanPart : uint8_t { kTrain, kEval, kLogits, kGenerate, kParameters, kGroups, kCount };
/// "plan of training steps", "layout of parameters".
const char* part_name(PlanPart part);

/// By PlanPart. Of a plan: its instructions in order with their lanes, operands and their sizes, and what is
/// sent. Of the parameters: names, shapes, types, and how they are cut into shards. Of the groups: the mesh,
/// along which axes ranks sum and gather, in which order, and what carries it. Workspaces, addresses and what
/// follows from them are left out: they may differ from machine to machine.
struct PlanDigest {
  std::array<uint64_t, static_cast<size_t>(PlanPart::kCount)> parts{};
  uint64_t& operator[](PlanPart part) { return parts[static_cast<size_t>(part)]; }
  uint64_t operator[](PlanPart part) const { return parts[static_cast<size_t>(part)]; }
};

/// The same on every rank of a world. `inference`: as make_plans.
PlanDigest digest_of(const EnginePlans& plans, const nn::Model& model, const config::ResolvedConfig& config,
                     bool inference);

}  // namespace hawser::train
