// Rehearsal: runs the modules once before the first step over kernels that compute nothing, at the addresses
// and sizes of the real arena, so that the device sees every matrix product and attention it will run.
#include "engine/execute/executor.h"
#include "engine/parallel/context_parallel.h"
#include "engine/parallel/sequence_parallel.h"

namespace hawser::train {

/// Everything with a matrix product; look-ups have none.
void Executor::rehearse(const plan::Plan& plan, const kernels::KernelTable& kernels, const Run& run) {
  using plan::Op;
  kernels_ = &kernels;
  stream_ = &s_.link->device().stream(device::StreamId::kCompute);
  parallel::CountingWire wire(s_.exchange->ranks(), s_.exchange->rank());
  const auto nobody = parallel::make_exchange(s_.sequence_parallel, &wire);
  const nn::LocalColumns& own = s_.columns->own();
  parallel::CountingWire column_wire(own.ranks, own.rank);
  const auto columns = parallel::make_column_exchange(s_.context_mode, &column_wire);
  const mesh::DeviceMesh& mesh = s_.layout->options().mesh;
  parallel::CountingWire expert_wire(mesh.degree(mesh::Axis::kEp));
  const auto experts = parallel::make_expert_exchange(&expert_wire, s_.expert_round);
  // Assumes one document per row, the minimum, because the actual number is not known yet.
  host_->assume_documents(plan, run.documents ? run.batch : 0);
  for (const plan::Instruction& n : plan.instructions) {
    nn::Region workspace;
    nn::Context ctx = context(plan, n, run, &workspace);
    ctx.exchange = nobody.get();
    ctx.columns = columns.get();
    ctx.experts = experts.get();
    if (n.op == Op::kForward && n.block > 0) forward(plan, n, ctx, run);
    if (n.op == Op::kRecompute) recompute(plan, n, ctx);
    const bool backwards = n.op == Op::kBackward || n.op == Op::kBackwardInput || n.op == Op::kBackwardWeight;
    if (backwards && n.block > 0) backward(plan, n, ctx);
    if (n.op == Op::kLoss || n.op == Op::kEvalLoss || n.op == Op::kLogprobs) head(plan, n, ctx);
  }
  kernels_ = nullptr;
}

}  // namespace hawser::train
