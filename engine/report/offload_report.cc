#include "engine/report/offload_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/parallel/offload.h"

namespace hawser::train {
namespace {

/// Bytes outside the arena in one space, and those that move in a step. `gradients`: of an update on the
/// host's processor, with the updated weights that are on their way to the device.
struct Offloaded {
  int64_t all = 0, parameters = 0, optimizer = 0, gradients = 0, activations = 0, snapshots = 0, leave = 0,
          come = 0;
};

int64_t host_gradients(const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const plan::Slot& slot : plan.slots)
    if (slot.role == plan::Role::kHostGradients) bytes += slot.bytes;
  return bytes;
}

bool moves_activations(const plan::Plan& plan) {
  return std::any_of(plan.instructions.begin(), plan.instructions.end(),
                     [](const plan::Instruction& n) { return n.lane == plan::Lane::kOffload; });
}

Offloaded offloaded(const EnginePlans& plans, plan::Space space) {
  Offloaded o;
  o.all = plans.outside[static_cast<size_t>(space)];
  o.parameters = plan::persistent_bytes(plans.train, space, plan::Category::kWeights);
  o.optimizer = plan::persistent_bytes(plans.train, space, plan::Category::kOptimizer);
  o.activations = o.all - o.parameters - o.optimizer;
  if (space == plan::Space::kHost) {
    o.gradients = moves_activations(plans.train) ? host_gradients(plans.train) : o.activations;
    o.activations -= o.gradients;
  }
  if (space == plan::Space::kDisk) o.snapshots = plans.snapshot_bytes, o.all += o.snapshots;
  o.leave = parallel::offloaded_bytes(plans.train, space);
  o.come = parallel::fetched_bytes(plans.train, space);
  return o;
}

constexpr plan::Space kOutside[] = {plan::Space::kHost, plan::Space::kDisk};

const char* cargo_name(plan::Cargo cargo) {
  constexpr const char* kNames[] = {"activations", "optimizer", "parameters"};
  static_assert(std::size(kNames) == plan::kCargoes);
  return kNames[static_cast<size_t>(cargo)];
}

std::string move_text(const parallel::Moves& m) {
  const std::string pages = m.pages > 0 ? fmt::format("; whole pages take {} more", m.pages) : "";
  return fmt::format("  {:<14}{:>14} bytes out, {} back in a step{}{}{}\n", cargo_name(m.cargo), m.out,
                     m.back, m.formula.empty() ? "" : ": ", m.formula, pages);
}

}  // namespace

std::vector<parallel::Moves> moves_in_step(const EnginePlans& plans, const parallel::ShardLayout& layout,
                                           const nn::Model& model, const config::ResolvedConfig& config) {
  return parallel::moves_of(
      plans.train, {layout, plans.strategy, config, config.batch.grad_accum_steps,
                    model.local().loss_reads_table(), static_cast<int32_t>(model.first_trainable_block())});
}

OrderedJson offload_json(const EnginePlans& plans, const std::vector<parallel::Moves>& moves) {
  OrderedJson json;
  for (const plan::Space space : kOutside) {
    const Offloaded o = offloaded(plans, space);
    if (o.all == 0) continue;
    OrderedJson& of_space = json[plan::space_name(space)];
    of_space = {{"bytes", o.all},
                {"parameters", o.parameters},
                {"optimizer", o.optimizer},
                {"gradients", o.gradients},
                {"activations", o.activations},
                {"snapshots", o.snapshots},
                {"bytes_per_step", o.leave},
                {"bytes_back_per_step", o.come},
                {"moves", OrderedJson::array()}};
    for (const parallel::Moves& m : moves)
      if (m.space == space)
        of_space["moves"].push_back(
            {{"what", cargo_name(m.cargo)},
             {"bytes_per_step", m.out},
             {"bytes_back_per_step", m.back},
             {"page_bytes", m.pages},
             {"closed_form", m.formula.empty() ? OrderedJson() : OrderedJson(m.formula)}});
  }
  return json;
}

std::string offload_text(const EnginePlans& plans, const std::vector<parallel::Moves>& moves,
                         const std::string& folder) {
  std::string text;
  for (const plan::Space space : kOutside) {
    const Offloaded o = offloaded(plans, space);
    if (o.all == 0) continue;
    text += fmt::format(
        "offload         {:>14} bytes {}: {} of parameters, {} of the optimizer, {} of gradients, {} of "
        "activations{}; in a step, {} go there and {} come back\n",
        o.all,
        space == plan::Space::kDisk ? fmt::format("in a file in {} for each rank", folder)
                                    : "of each rank's host",
        plan::bytes_text(o.parameters), plan::bytes_text(o.optimizer), plan::bytes_text(o.gradients),
        plan::bytes_text(o.activations),
        o.snapshots > 0
            ? fmt::format(", {} of second places for asynchronous saves", plan::bytes_text(o.snapshots))
            : "",
        plan::bytes_text(o.leave), plan::bytes_text(o.come));
    for (const parallel::Moves& m : moves)
      if (m.space == space) text += move_text(m);
  }
  return text;
}

}  // namespace hawser::train
