#include "engine/report/offload_report.h"

#include <fmt/format.h>

#include "engine/parallel/offload.h"

namespace hawser::train {
namespace {

/// Bytes outside the arena in one space, and those that move in a step.
struct Offloaded {
  int64_t all = 0, parameters = 0, optimizer = 0, activations = 0, leave = 0, come = 0;
};

Offloaded offloaded(const EnginePlans& plans, plan::Space space) {
  Offloaded o;
  o.all = plans.outside[static_cast<size_t>(space)];
  o.parameters = plan::persistent_bytes(plans.train, space, plan::Category::kWeights);
  o.optimizer = plan::persistent_bytes(plans.train, space, plan::Category::kOptimizer);
  o.activations = o.all - o.parameters - o.optimizer;
  o.leave = parallel::offloaded_bytes(plans.train, space);
  o.come = parallel::fetched_bytes(plans.train, space);
  return o;
}

constexpr plan::Space kOutside[] = {plan::Space::kHost, plan::Space::kDisk};

}  // namespace

OrderedJson offload_json(const EnginePlans& plans) {
  OrderedJson json;
  for (const plan::Space space : kOutside)
    if (const Offloaded o = offloaded(plans, space); o.all > 0)
      json[plan::space_name(space)] = {{"bytes", o.all},
                                       {"parameters", o.parameters},
                                       {"optimizer", o.optimizer},
                                       {"activations", o.activations},
                                       {"bytes_per_step", o.leave},
                                       {"bytes_back_per_step", o.come}};
  return json;
}

std::string offload_text(const EnginePlans& plans, const std::string& folder) {
  std::string text;
  for (const plan::Space space : kOutside) {
    const Offloaded o = offloaded(plans, space);
    if (o.all == 0) continue;
    text += fmt::format(
        "offload         {:>14} bytes {}: {} of parameters, {} of the optimizer, {} of activations; in a "
        "step, "
        "{} go there and {} come back\n",
        o.all,
        space == plan::Space::kDisk ? fmt::format("in a file in {} for each rank", folder)
                                    : "of each rank's host",
        plan::bytes_text(o.parameters), plan::bytes_text(o.optimizer), plan::bytes_text(o.activations),
        plan::bytes_text(o.leave), plan::bytes_text(o.come));
  }
  return text;
}

}  // namespace hawser::train
