// latent_summary: the lines of a plan report about latent attention: the bytes that generation caches per
// token, and the features that context-parallel ranks send.
#pragma once

#include <string>

#include "engine/base/dtype.h"
#include "engine/nn/column_exchange.h"
#include "engine/nn/model_config.h"

namespace hawser::train {

/// Returns "" for a model without latent attention. `local` is a rank's share of the model,
/// `columns` how ranks exchange columns.
std::string latent_summary(const nn::ModelConfig& local, const nn::ColumnExchange& columns, DType compute);

}  // namespace hawser::train
