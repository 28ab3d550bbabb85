// Stage: the part of the model that one rank of a pipeline has, and the order in which the rank works. A
// single rank has one chunk, the full model.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::plan {

/// The kind of work on one micro-batch of a chunk.
enum class Part : uint8_t {
  kForward,
  kBackward,        ///< input pass and weight pass
  kBackwardInput,   ///< the input pass: gradients of the chunk's input
  kBackwardWeight,  ///< the weight pass: gradients of its weights, after kBackwardInput
};

struct Action {
  Part part = Part::kForward;
  int32_t chunk = 0;  ///< index among this rank's chunks
  int32_t micro_batch = 0;
  bool overlaps_next = false;  ///< a forward whose blocks alternate with those of the next action, a backward
  bool operator==(const Action&) const = default;
};

/// The location of the chunk that precedes or follows a chunk in the model's order.
enum class Neighbour : uint8_t {
  kNone,      ///< nowhere: the model ends here
  kHere,      ///< on this rank
  kNext,      ///< on the rank of the next stage; the first stage follows the last
  kPrevious,  ///< on the rank of the previous stage; the last stage precedes the first
};

/// True if activations and gradients are sent across this border.
inline bool travels(Neighbour n) { return n == Neighbour::kNext || n == Neighbour::kPrevious; }

/// Consecutive blocks: 0 embedding, 1..layers blocks, layers + 1 head.
struct ModelChunk {
  int32_t begin = 0, end = 0;
  Neighbour below = Neighbour::kNone, above = Neighbour::kNone;
  bool has(int32_t block) const { return begin <= block && block < end; }
};

/// Consecutive blocks of a chunk, [begin, end), whose discarded activations are rebuilt together, just before
/// the backward of the last. Only the first saves its input.
struct RecomputeSegment {
  int32_t begin = 0, end = 0;
};

struct Stage {
  std::vector<ModelChunk> chunks;                ///< in the model's order
  std::vector<Action> actions;                   ///< the actions of a training step
  std::vector<RecomputeSegment> recompute = {};  ///< blocks outside of them save what their backward reads
  /// Number of further actions for which a sent activation keeps its memory. An instruction that reuses the
  /// memory earlier blocks until the receiver has the data, which can deadlock the pipeline.
  size_t sent_lifetime_actions = 2;

  bool has(int32_t block) const {
    for (const ModelChunk& chunk : chunks)
      if (chunk.has(block)) return true;
    return false;
  }
};

/// Returns the stage of a rank that has all `blocks` blocks and processes micro-batches one after the other.
Stage whole_model(int32_t blocks, int32_t micro_batches);

}  // namespace hawser::plan
