// Rehearsal: runs the modules once before the first step over kernels that compute nothing, at the addresses
// and sizes of the real arena, so that the device sees every matrix product and attention it will run.
#include "engine/execute/executor.h"

namespace hawser::train {

/// Everything with a matrix product; look-ups have none.
void Executor::rehearse(const plan::Plan& plan, const kernels::KernelTable& kernels, const Run& run) {
  using plan::Op;
  kernels_ = &kernels;
  stream_ = &s_.memory.link->device().stream(device::StreamId::kCompute);
  const parallel::BlockExchanges blocks =
      s_.communication.strategies->dry_exchanges(s_.memory.layout->options().rank);
  // Assumes one document per row, the minimum, because the actual number is not known yet.
  host_->assume_documents(plan, run.documents ? run.batch : 0);
  for (const plan::Instruction& n : plan.instructions) {
    nn::Region workspace;
    nn::Context ctx = context(plan, n, run, &workspace);
    ctx.exchange = &blocks.exchange();
    ctx.columns = &blocks.columns();
    ctx.experts = &blocks.experts();
    if (n.op == Op::kForward && n.block > 0) forward_block(plan, n, ctx, run);
    if (n.op == Op::kRecompute) recompute(plan, n, ctx);
    const bool backwards = n.op == Op::kBackward || n.op == Op::kBackwardInput || n.op == Op::kBackwardWeight;
    if (backwards && n.block > 0) backward_block(plan, n, ctx);
    if (n.op == Op::kLoss || n.op == Op::kEvalLoss || n.op == Op::kLogprobs) head(plan, n, ctx);
  }
  kernels_ = nullptr;
}

}  // namespace hawser::train
