// The order-1 model: what can be predicted from the previous token alone. A language model that has learned
// anything about text is well below its cross-entropy.
#pragma once

#include <string>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// Cross-entropy (nats per token) on the validation part of a bigram model fitted on the training part, for a
/// run on one text file with a byte or character vocabulary; `train_tokens` of the file's tokens are the
/// training part. P(b|a) = (count(ab) + P(b)) / (count(a) + 1) with P(b) the training frequency of b, plus
/// one each. NaN where that does not apply (other data, more than 256 MiB, a vocabulary above 4096).
double order1_validation_loss(const hws_engine* engine, const std::string& text_file,
                              double validation_fraction);

}  // namespace hawser::cli
