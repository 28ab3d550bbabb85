// Stage: what one rank of a pipeline has of the model, and the order in which it works. A single rank has one
// chunk, the whole model.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::plan {

/// What is done to a chunk and a micro-batch.
enum class Part : uint8_t {
  kForward,
  kBackward,        ///< both halves
  kBackwardInput,   ///< gradients of the chunk's input
  kBackwardWeight,  ///< gradients of its weights, after kBackwardInput
};

struct Action {
  Part part = Part::kForward;
  int32_t chunk = 0;  ///< of this rank
  int32_t micro_batch = 0;
  bool paired = false;  ///< a forward whose blocks take turns with those of the next action, an input half
  bool operator==(const Action&) const = default;
};

/// Where the chunk before or after this one, in the model's order, is.
enum class Neighbour : uint8_t {
  kNone,      ///< there is none: the model ends here
  kHere,      ///< on this rank
  kNext,      ///< on the rank of the next stage; the first stage is next to the last
  kPrevious,  ///< on that of the previous one
};

/// Whether what passes that border is sent.
inline bool travels(Neighbour n) { return n == Neighbour::kNext || n == Neighbour::kPrevious; }

/// Consecutive blocks: 0 embedding, 1..layers blocks, layers + 1 head.
struct ModelChunk {
  int32_t begin = 0, end = 0;
  Neighbour below = Neighbour::kNone, above = Neighbour::kNone;
  bool has(int32_t block) const { return begin <= block && block < end; }
};

struct Stage {
  std::vector<ModelChunk> chunks;  ///< in the model's order
  std::vector<Action> actions;     ///< of a training step
  /// How many more actions what was sent stays where it is. Whoever takes its bytes waits until it has
  /// arrived, and must not wait for a stage that waits for it.
  size_t sent_lifetime_actions = 2;

  bool has(int32_t block) const {
    for (const ModelChunk& chunk : chunks)
      if (chunk.has(block)) return true;
    return false;
  }
};

/// A rank that has all `blocks` blocks: micro-batches one after the other.
Stage whole_model(int32_t blocks, int32_t micro_batches);

}  // namespace hawser::plan
