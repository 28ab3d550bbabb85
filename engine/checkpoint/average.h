// Average: a checkpoint whose weights are weighted means of those of other checkpoints of one model. The mean
// of the last checkpoints of a run, before its learning rate decays, often has a lower loss than each of them
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
/// Optimizers' arrays, counters and data are left out: step, config, vocabulary and files are those of the
/// checkpoint with the most steps. Verifies the digests of all checkpoints first, and reads them piece by
/// piece. Throws kInvalidArgument for fewer than two checkpoints, and weights that are not positive and
/// finite; kCheckpointIncompatible for checkpoints of different models, vocabularies or tokenizers;
/// kFailedPrecondition for adapters, because a mean of factors is not a mean of weights; and the errors of
/// Reader and save.
void average(const std::vector<Weighted>& of, const std::string& to);

}  // namespace hawser::checkpoint
