// precision_summary: a function that describes the mixed-precision policy: the data types of products,
// transfers and results.
#pragma once

#include <string>

#include "engine/config/resolved_config.h"
#include "engine/parallel/strategy.h"

namespace hawser::train {

std::string precision_summary(const config::ResolvedConfig& config,
                              const parallel::DataParallelStrategy& strategy);

}  // namespace hawser::train
