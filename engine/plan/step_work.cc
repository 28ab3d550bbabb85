#include "engine/plan/step_work.h"

#include <algorithm>

namespace hawser::plan {

/// ADD_GRAD reads both sums and writes one of them.
KernelCalls add_grad(const Plan& plan, const Instruction& n) {
  KernelCalls calls;
  calls.kernel = "add", calls.calls = 1;
  calls.bytes = 3 * static_cast<double>(plan.slot(n[Operand::kGradients]).bytes);
  return calls;
}

const WorkList* calls_of(const Plan& plan, const Instruction& n) {
  if (n.work < 0) return nullptr;
  const Work& work = plan.work[static_cast<size_t>(n.work)];
  return n.accumulate ? &work.adding : &work.calls;
}

int32_t Plan::add_work(const Work& of) {
  if (of.calls.empty() && of.adding.empty()) return -1;
  const auto known = std::find(work.begin(), work.end(), of);
  if (known == work.end()) return work.push_back(of), static_cast<int32_t>(work.size()) - 1;
  return static_cast<int32_t>(known - work.begin());
}

WorkList step_work(const Plan& plan) {
  WorkList all;
  for (const Instruction& n : plan.instructions) {
    if (n.on_host()) continue;
    if (n.op == Op::kAddGrad) add_calls(&all, add_grad(plan, n));
    if (const WorkList* const list = calls_of(plan, n))
      for (const KernelCalls& calls : *list) add_calls(&all, calls);
  }
  return all;
}

}  // namespace hawser::plan
