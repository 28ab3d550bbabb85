// Stack: describes another trainer by terms that change the costs of Hawser's own plan, so that published
// runs of that trainer can be compared with a prediction. Such a prediction does not describe a step of
// Hawser, and reports mark it "not Hawser".
#pragma once

#include <string>

#include "engine/base/kernel_calls.h"
#include "engine/cluster/object_reader.h"
#include "engine/plan/simulator.h"

namespace hawser::cluster {

/// The defaults change nothing.
struct Stack {
  std::string name;  ///< empty: Hawser itself

  /// FLOPs of attention, as a multiple of the plan's. The plan leaves masked pairs out, and its backward
  /// computes the scores again.
  double attention_forward = 1, attention_backward = 1;
  /// Bytes of memory traffic outside the products for each visible pair of attention, if scores are stored in
  /// memory. For a trainer that also computes masked pairs, this is twice the bytes of one pair.
  double score_bytes_forward = 0, score_bytes_backward = 0;
  /// Bytes of norms and residuals, as a multiple of the plan's.
  double stream_bytes = 1;
  /// Bytes of a GELU with a kernel of its own, for each element. The plan fuses it into a product.
  double gelu_bytes_forward = 0, gelu_bytes_backward = 0;

  /// Share of the forward work that the plan omits from a recomputation but the stack repeats, such as the
  /// last product of a layer.
  double recompute = 0;

  /// Bytes of sums inside blocks, of messages between stages, and of sums of gradients, as multiples of the
  /// plan's.
  double exchange_bytes = 1, message_bytes = 1, gradient_bytes = 1;
  /// Seconds in which a stage computes nothing for each message that it sends or receives.
  double message_seconds = 0;
  /// The share of a transfer that runs while the rank computes.
  double overlap = 1;

  bool is_hawser() const { return name.empty(); }
};

/// Reads the field `stack` of a cluster file (README.md).
void read_stack(ObjectReader reader, Stack* stack);

/// Returns the kernel calls of the stack that replace these calls of the plan.
WorkList in_stack(const Stack& stack, const KernelCalls& calls);

/// Returns the multiple of the plan's bytes that the stack sends in a transfer.
double sent_share(const Stack& stack, plan::Op op);

/// Adds the seconds of forward work that the stack recomputes and the plan does not.
void recompute_more(const Stack& stack, const plan::Plan& plan, plan::CostTable* costs);

/// Moves the part of transfers that the stack does not overlap to the compute lane: of messages to where they
/// begin, and of sums of gradients to the end of the last backward.
void expose_transfers(const Stack& stack, const plan::Plan& plan, plan::CostTable* costs);

}  // namespace hawser::cluster
