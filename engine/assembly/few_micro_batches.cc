#include "engine/assembly/few_micro_batches.h"

#include <algorithm>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::train {
namespace {

using config::PipelineSchedule;
namespace pipeline = parallel::pipeline;

/// Periods beyond the ramp: those in which slots find their places, those that must be equal, and the last,
/// after the cut.
constexpr int64_t kPeriods = 8;

/// Returns the micro-batches during which sent activations keep their memory (Stage::sent_lifetime_actions).
int64_t kept_when_sent(const pipeline::Shape& shape) {
  const int64_t actions = shape.chunks * (pipeline::splits_backward(shape.schedule) ? 3 : 2);
  const int64_t lifetime = pipeline::is_v(shape.schedule) ? 2 * shape.stages : 2;
  return (lifetime + actions - 1) / actions;
}

}  // namespace

FewMicroBatches few_micro_batches(const config::ResolvedConfig& config, int64_t more) {
  const int64_t all = config.batch.grad_accum_steps, stages = config.mesh.pp;
  const pipeline::Shape shape =
      stages > 1 ? pipeline::shape_of(config.pipeline, stages, all) : pipeline::Shape{.micro_batches = all};
  FewMicroBatches few{all, 0, pipeline::period(shape)};
  const bool phases = stages > 1 && shape.schedule == PipelineSchedule::kGpipe;
  if (phases || config.zero.sum_order == config::SumOrder::kTree) return few;
  const int64_t sent = (kept_when_sent(shape) + few.period - 1) / few.period * few.period;
  const int64_t planned = pipeline::ramp(shape) + sent + (kPeriods + more) * few.period;
  if (planned + all / 8 >= all) return few;
  return {planned, all - planned, few.period};
}

bool lengthen(plan::Plan* train, const FewMicroBatches& few, plan::RepeatedWaits waits) {
  return plan::lengthen(train, static_cast<int32_t>(few.planned), static_cast<int32_t>(few.left_out),
                        static_cast<int32_t>(few.period), waits);
}

}  // namespace hawser::train
