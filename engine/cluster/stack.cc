#include "engine/cluster/stack.h"

#include <map>
#include <utility>

namespace hawser::cluster {
namespace {

struct Term {
  const char* key;
  double Stack::*value;
  Range range;
};

constexpr Range kMultiple{0, 100}, kBytes{0, 1000, true}, kShare{0, 1, true};
constexpr Term kTerms[] = {
    {"attention_forward", &Stack::attention_forward, kMultiple},
    {"attention_backward", &Stack::attention_backward, kMultiple},
    {"score_bytes_forward", &Stack::score_bytes_forward, kBytes},
    {"score_bytes_backward", &Stack::score_bytes_backward, kBytes},
    {"stream_bytes", &Stack::stream_bytes, kMultiple},
    {"gelu_bytes_forward", &Stack::gelu_bytes_forward, kBytes},
    {"gelu_bytes_backward", &Stack::gelu_bytes_backward, kBytes},
    {"recompute", &Stack::recompute, kShare},
    {"exchange_bytes", &Stack::exchange_bytes, kMultiple},
    {"message_bytes", &Stack::message_bytes, kMultiple},
    {"gradient_bytes", &Stack::gradient_bytes, kMultiple},
    {"message_seconds", &Stack::message_seconds, kShare},
    {"overlap", &Stack::overlap, kShare},
};

bool begins_with(std::string_view text, std::string_view part) { return text.substr(0, part.size()) == part; }

/// Returns a call for each of `of`, which only moves bytes.
KernelCalls moves(std::string_view kernel, const KernelCalls& of, double bytes) {
  KernelCalls calls;
  calls.kernel = kernel, calls.type = of.type, calls.calls = of.calls, calls.bytes = bytes;
  return calls;
}

}  // namespace

void read_stack(ObjectReader reader, Stack* stack) {
  stack->name = reader.text("name");
  for (const Term& term : kTerms)
    if (const double value = reader.sourced_if(term.key, term.range); reader.has(term.key))
      stack->*term.value = value;
  reader.finish();
}

WorkList in_stack(const Stack& stack, const KernelCalls& calls) {
  WorkList list{calls};
  KernelCalls& own = list.front();
  if (calls.length > 0) {
    const bool forward = begins_with(calls.kernel, "attention_forward");
    // A pair has 4 FLOPs for each element of a head in forward, and 10 in backward.
    const double pairs = calls.flops / ((forward ? 4 : 10) * static_cast<double>(calls.head_dim));
    const double bytes = pairs * (forward ? stack.score_bytes_forward : stack.score_bytes_backward);
    own.flops *= forward ? stack.attention_forward : stack.attention_backward;
    if (bytes > 0) list.push_back(moves("scores", calls, bytes));
  } else if (begins_with(calls.kernel, "norm_") || begins_with(calls.kernel, "residual_")) {
    own.bytes *= stack.stream_bytes;
  } else if (begins_with(calls.kernel, "matmul_gelu")) {
    const bool forward = calls.kernel == "matmul_gelu";
    const double elements = static_cast<double>(calls.m * calls.n) * static_cast<double>(calls.calls);
    const double bytes = elements * (forward ? stack.gelu_bytes_forward : stack.gelu_bytes_backward);
    if (bytes > 0) list.push_back(moves("gelu", calls, bytes));
  }
  return list;
}

double sent_share(const Stack& stack, plan::Op op) {
  using plan::Op;
  if (plan::is_message(op)) return stack.message_bytes;
  const bool sums = op == Op::kReduceGrad || op == Op::kGatherGrad || op == Op::kReduceReplicas;
  return sums ? stack.gradient_bytes : 1;
}

void recompute_more(const Stack& stack, const plan::Plan& plan, plan::CostTable* costs) {
  std::map<int64_t, double> forwards;  // seconds by block
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& n = plan.instructions[i];
    if (n.op != plan::Op::kForward && n.op != plan::Op::kRecompute) continue;
    const double all = costs->seconds[i] + costs->all_exposed_seconds(n, costs->seconds[i]);
    if (n.op == plan::Op::kForward)
      forwards.emplace(n.block, all);
    else
      costs->seconds[i] += stack.recompute * (forwards.at(n.block) - all);
  }
}

void expose_transfers(const Stack& stack, const plan::Plan& plan, plan::CostTable* costs) {
  double sums = 0;  // of gradients, which begin after the last backward
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& n = plan.instructions[i];
    if (n.op == plan::Op::kGradNorm) costs->seconds[i] += std::exchange(sums, 0);
    if (!n.is_transfer() || plan::is_own(n.lane)) continue;
    double& sent = costs->transfer_seconds[i];
    const double exposed = (1 - stack.overlap) * sent;
    if (plan::is_message(n.op))
      costs->seconds[i] += exposed + stack.message_seconds;
    else
      (i < plan.commit ? sums : costs->seconds[i]) += exposed;
    sent -= exposed;
  }
}

}  // namespace hawser::cluster
