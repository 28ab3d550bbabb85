// Base engine: an inference engine whose frozen weights other engines read (hws_engine_create_on), so that
// many adapters share one base. An engine on a base has only adapter, optimizer state and activations of its
// own. The base engine's weights are read-only meanwhile. Their memory lives as long as any of the engines.
#pragma once

#include <string>

#include "engine/assembly/assemble.h"
#include "engine/ranks/ranks.h"
#include "engine/state/tensors.h"

namespace hawser::train {

struct Progress;

/// The parts of a base engine that the creation of another engine reads. They must outlive this creation, but
/// not the new engine.
struct BaseEngine {
  const Ranks& ranks;
  const Tensors& tensors;
  const Progress& progress;
};

/// Throws kFailedPrecondition if the weights of `base` may change or are in no folder, and kConfigInvalid
/// (with all problems) if the config of `ours` needs other weights or another layout.
void require_base(const BaseEngine& base, const Assembly& ours);

/// Copies from the base engine those weights that are neither borrowed nor an adapter's. Collective.
void copy_from_base(const BaseEngine& base, const Ranks& ranks);

}  // namespace hawser::train
