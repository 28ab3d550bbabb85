// Average: writes a checkpoint with the weighted mean of the weights of several checkpoints of one model. The
// mean of a run's last checkpoints before its learning rate decays often has a lower loss than each of them
// (Izmailov et al., arXiv:1803.05407).
#pragma once

#include <string>
#include <vector>

namespace hawser::checkpoint {

/// A checkpoint, and its share of the mean relative to the others.
struct Weighted {
  std::string path;
  double weight = 1;
};

/// Writes the checkpoint `to`, which must not exist. Each element of each weight is the sum of weight *
/// element in the order of `of`, divided by the sum of the weights, in f64, and rounded once to f32.
/// Step, config, vocabulary and files are those of the checkpoint with the most steps; the arrays of the
/// optimizer, counters and the position in the data are left out. Verifies the digests of all checkpoints
/// first, and reads them piece by piece. Throws kInvalidArgument for fewer than two checkpoints, and for
/// weights that are not positive and finite; kCheckpointIncompatible for checkpoints of different models,
/// vocabularies or tokenizers; kFailedPrecondition for adapters, because a mean of factors is not a mean of
/// weights; and the errors of Reader and of saving.
void average(const std::vector<Weighted>& of, const std::string& to);

}  // namespace hawser::checkpoint
