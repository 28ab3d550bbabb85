// Work that may run on the host's processor (plan::Lane::kHost): the lane of an instruction decides which
// kernels run, and on which memory.
#include "engine/base/error.h"
#include "engine/execute/executor.h"
#include "engine/optim/grad_norm.h"

namespace hawser::train {

using plan::Op, plan::Operand;

/// The rank's thread shares the work with its pool, and continues when it is done. Meanwhile the device runs
/// what has been submitted to it.
void Executor::step_on_host(const plan::Plan& plan, size_t index) {
  const plan::Instruction& n = plan.instructions[index];
  if (recording_) recording_->turn(index);
  transfers_.await_on_host(n.waits_for);
  if (recording_) recording_->starts(index);
  slots_->acquire(plan, index);
  switch (n.op) {
    case Op::kAddGrad:
      add_sums(plan, n);
      break;
    case Op::kGradNorm:
      add_squares(plan, n);
      break;
    case Op::kOptimizerStep:
      optimizer_step(plan, n);
      break;
    default:
      HWS_CHECK(!"the host's processor does not run this op");
  }
  transfers_.ran_on_host(index);
  if (recording_) recording_->ended(index, 0);
  slots_->release(plan, index, transfers_.done());
}

/// Adds the f32 sums of a micro-batch to this rank's part of the gradients, in their stored type.
void Executor::add_sums(const plan::Plan& plan, const plan::Instruction& n) {
  for (const int32_t g : s_.memory.layout->groups_of(n.block)) {
    const parallel::GroupLayout& group = s_.memory.layout->group(g);
    if (!group.trainable) continue;
    char* const to = at(plan, n[Operand::kGradients]) + group.host_gradients;
    const char* const from = at(plan, n[Operand::kAddend]) + group.shard_sums;
    s_.host.kernels->convert(
        {to, from, group.state_type, DType::kF32, s_.memory.layout->state_elements(group), n.accumulate},
        *s_.host.stream);
  }
}

/// Adds the squares of this rank's own part of a block's gradients.
void Executor::add_squares(const plan::Plan& plan, const plan::Instruction& n) {
  const bool host = n.on_host();
  auto* const workspace = as<ExactSum>(plan, n.scratch);
  ExactSum* const to = host ? host_->host_squares() : &host_->sums()->squares;
  for (const int32_t g : s_.memory.layout->groups_of(n.block)) {
    if (!s_.memory.layout->group(g).trainable || !s_.memory.layout->group(g).owns_state()) continue;
    const char* const sums = at(plan, n[Operand::kGradients]) + reduced(plan, n[Operand::kGradients], g);
    optim::add_squares(to, sums, s_.memory.layout->group(g).state_type, state(g).range.size(), workspace,
                       host ? *s_.host.kernels : *kernels_, host ? *s_.host.stream : *stream_);
  }
}

}  // namespace hawser::train
