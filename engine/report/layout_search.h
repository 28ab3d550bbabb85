// LayoutSearch: finds the fastest layouts of a config on a cluster. Lower bounds (layout_bounds.h) leave out
// the layouts that cannot fit or cannot be among the fastest; forecasts decide between the others. The result
// does not depend on the number of threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/report/found_layout.h"
#include "engine/report/layout_reasons.h"

namespace hawser::train {

struct SearchOptions {
  int64_t ranks = 0;     ///< 0: those of the cluster, or else of the config's mesh
  int64_t top = 10;      ///< layouts in the result
  double imbalance = 1;  ///< of the loads of experts, as for Forecast
  int64_t most = 48;     ///< most forecasts
  bool prunes = true;    ///< false: makes a forecast of every layout that the rules allow, for tests
  bool varies = true;    ///< false: leaves the details of layouts as they are (layout_details.h), for tests
};

struct SearchResult {
  int64_t ranks = 0, global_batch = 0;
  std::vector<FoundLayout> layouts;  ///< the fastest first; of equally fast ones the simpler first
  int64_t considered = 0, refused = 0, forecasts = 0;
  int64_t slower = 0;            ///< layouts whose least seconds exceed those of the slowest in `layouts`
  int64_t not_tried = 0;         ///< layouts left because the number and size of forecasts are limited
  double not_tried_seconds = 0;  ///< the least seconds that any of these layouts takes
  std::map<std::string, int64_t> does_not_fit;  ///< layouts by what takes most of their bytes
  std::map<std::string, int64_t> fits_with;  ///< of these, layouts by what would make their least bytes fit
  double least_bytes = 0;                    ///< that any layout needs
  int64_t varied = 0;                        ///< of the forecasts, those of other details
  std::vector<FieldReason> reasons;          ///< why the fastest layout has its values
};

/// Throws kConfigInvalid if no mesh has so many ranks or nothing divides the global batch, kOutOfMemory if
/// the model fits in no layout, and the errors of plan_report for the config.
SearchResult search_layouts(const config::ConfigTree& config, const cluster::Cluster& cluster,
                            const SearchOptions& options);

}  // namespace hawser::train
