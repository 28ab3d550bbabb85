// order1: the cross-entropy of a model that predicts each token only from the previous one. Users compare a
// run with it, because a trained language model should be well below it.
#pragma once

#include <string>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// Returns the cross-entropy (nats per token) of a bigram model that is fitted on the training part and
/// measured on the validation part, for a run on one text file with a byte or character vocabulary. The first
/// `train_tokens` tokens of the file are the training part. P(b|a) = (count(ab) + P(b)) / (count(a) + 1),
/// where P(b) is the add-one smoothed training frequency of b. Returns NaN for other runs (other data, more
/// than 256 MiB, a vocabulary above 4096).
double order1_validation_loss(const hws_engine* engine, const std::string& text_file,
                              double validation_fraction);

}  // namespace hawser::cli
