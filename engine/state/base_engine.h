// Many adapters on one base: an engine reads the frozen weights of another one (hws_engine_create_on), and
// has only adapter, optimizer state and activations itself. The base engine is one for inference, whose
// weights then stay as they are. The memory lives as long as any of the engines.
#pragma once

#include <string>

#include "engine/assembly/assemble.h"
#include "engine/ranks/ranks.h"
#include "engine/state/tensors.h"

namespace hawser::train {

struct Progress;

/// What a base engine lends. It must outlive the creation of the engine on it, not that engine.
struct BaseEngine {
  const Ranks& ranks;
  const Tensors& tensors;
  const Progress& progress;
};

/// Throws kFailedPrecondition for an engine whose weights may change or have no folder, and kConfigInvalid
/// (all problems) for a config that needs others.
void require_base(const BaseEngine& base, const Assembly& ours);

/// Writes the weights that `ranks` does not borrow and no adapter has: those of the base engine. Collective.
void copy_from_base(const BaseEngine& base, const Ranks& ranks);

}  // namespace hawser::train
