// The executor before the first step: modules run once over kernels that compute nothing, at the addresses
// and sizes of the real arena, so that the device meets every product and attention that it will be given.
#include "engine/train/step/executor.h"

namespace hawser::train {

/// Look-ups have no products, and nothing else has.
void Executor::rehearse(const plan::Plan& plan, const kernels::KernelTable& kernels, const Run& run) {
  using plan::Op;
  kernels_ = &kernels;
  stream_ = &s_.link->device().stream(device::StreamId::kCompute);
  // At least one document a row; how many there will be, nobody knows.
  host_->assume_documents(plan, run.documents ? run.batch : 0);
  for (const plan::Instruction& n : plan.instructions) {
    nn::Region workspace;
    const nn::Context ctx = context(plan, n, run, &workspace);
    if (n.op == Op::kForward && n.block > 0) forward(plan, n, ctx, run);
    if (n.op == Op::kBackward && n.block > 0) backward(plan, n, ctx);
    if (n.op == Op::kLoss || n.op == Op::kEvalLoss) head(plan, n, ctx);
  }
  kernels_ = nullptr;
}

}  // namespace hawser::train
