// The order-1 model: predicts from the previous token alone. A language model that has learned anything about
// text is well below its cross-entropy.
#pragma once

#include <string>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// Cross-entropy (nats per token) on the validation part of a bigram model fitted on the training part, for a
/// run on one text file with a byte or character vocabulary. The first `train_tokens` tokens of the file are
/// the training part. P(b|a) = (count(ab) + P(b)) / (count(a) + 1), where P(b) is the add-one smoothed
/// training frequency of b. NaN if it does not apply (other data, more than 256 MiB, a vocabulary above
/// 4096).
double order1_validation_loss(const hws_engine* engine, const std::string& text_file,
                              double validation_fraction);

}  // namespace hawser::cli
