// Plan: attention of one shape as a cuDNN graph, ready to run. If a plan for the whole problem needs more
// workspace than there is, make_plan creates one for a part of the batch or of the heads, which runs once
// for each part. The deterministic backward on Hopper needs a [seq, seq] matrix for every head (cuDNN below
// 9.25).
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/cudnn/graphs.h"

namespace hawser::kernels::cuda::cudnn {

using Graph = fe::graph::Graph;

/// What plans are built for: the device of a handle or, without a GPU, a device with these properties.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<fe::DeviceProperties> properties = nullptr;
};

struct Plan {
  SdpaShape shape, part;         ///< `part` is what one run of the graph computes
  std::shared_ptr<Graph> graph;  ///< null if cuDNN has no plan
  int64_t workspace_bytes = 0;
  std::string refusal;  ///< why cuDNN has no plan for `part`
};

inline int64_t smallest_factor(int64_t n) {
  for (int64_t factor = 2; factor * factor <= n; ++factor) {
    if (n % factor == 0) return factor;
  }
  return n;
}

/// Reduces the part to fewer rows of the batch, or fewer heads of one row. Parts are equal, so that one plan
/// runs all of them. Returns false if the part cannot be divided further. Ragged documents share their
/// tensors and are not divided.
inline bool shrink(SdpaShape* part) {
  if (part->documents > 0) return false;
  if (part->batch > 1) {
    part->batch /= smallest_factor(part->batch);
    return true;
  }
  if (part->kv_heads == 1) return false;
  const int64_t factor = smallest_factor(part->kv_heads);
  part->kv_heads /= factor;
  part->heads /= factor;
  return true;
}

/// Builds the plan of the graph of `plan`. Without one, the graph becomes null.
inline void build(Plan* plan, const PlanTarget& target) {
  Graph& graph = *plan->graph;
  if (target.properties) graph.set_device_properties(target.properties);
  fe::error_t result = graph.validate();
  if (result.is_good()) result = graph.build_operation_graph(target.handle);
  if (result.is_good()) result = graph.create_execution_plans({fe::HeurMode_t::A});
  if (result.is_good()) result = graph.check_support();
  if (result.is_good()) result = graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
  if (result.is_good()) result = graph.get_workspace_size(plan->workspace_bytes);
  plan->refusal = result.is_good() ? "" : result.get_message();
  if (result.is_bad()) plan->graph = nullptr;
}

/// Creates a plan that needs at most `workspace_bytes` if there is one. Workspace grows with rows and heads
/// and so determines the size of the parts.
inline Plan make_plan(const SdpaShape& shape, int64_t workspace_bytes, bool deterministic,
                      const PlanTarget& target) {
  Plan plan;
  plan.shape = plan.part = shape;
  for (bool smaller = true; smaller;) {
    double each = 0;  // workspace of each head of each row
    plan.graph = attention_graph(plan.part, deterministic);
    build(&plan, target);
    if (plan.graph && plan.workspace_bytes <= workspace_bytes) break;
    if (plan.graph)
      each =
          static_cast<double>(plan.workspace_bytes) / static_cast<double>(plan.part.batch * plan.part.heads);
    do {
      smaller = shrink(&plan.part);
    } while (smaller && each * static_cast<double>(plan.part.batch * plan.part.heads) >
                            static_cast<double>(workspace_bytes));
  }
  return plan;
}

}  // namespace hawser::kernels::cuda::cudnn
