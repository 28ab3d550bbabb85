// Instructions and slots: what a plan is made of. No tensors here: ids and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser::plan {

/// What a slot's bytes are for; memory is reported by it.
enum class Category : uint8_t {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kWorkspace,
  kStaging,
  kTables,
  kCount
};
const char* category_name(Category category);

/// An index into Plan::slots; -1: none.
using SlotId = int32_t;

/// A piece of the arena. Persistent slots live always; others from the first instruction that names them to
/// the last.
struct Slot {
  std::string name;
  Category category = Category::kActivations;
  int64_t bytes = 0;
  bool persistent = false;
  int32_t first = -1, last = -1;  ///< instructions; -1 when no one names it
  int64_t offset = -1;            ///< bytes into the arena
};

/// Operands by op (reads | writes; scratch is the workspace; all that compute also read weights and masters):
///   kLoadMicroBatch               | batch
///   kCountTokens     batches...   | scalars
///   kForward         block 0:     batch | x_1       (embedding)
///                    block b:     x_b, batch | x_b+1, saved_b
///   kLoss            x, batch, scalars | losses, dx, gradients     (norm, head, loss, and their backward)
///   kEvalLoss        x, batch | losses
///   kLogits          x, batch |
///   kBackward        block b:     x_b, saved_b, batch | dx, gradients;  block 0: batch | dx, gradients
///   kReduceGrad      head_gradient | gradients        (joins the two gradients of a tied embedding)
///   kGradNorm        gradients | partials
///   kOptimizerStep   gradients, scalars | weights, optimizer state
enum class Op : uint8_t {
  kLoadMicroBatch,
  kCountTokens,
  kForward,
  kLoss,
  kEvalLoss,
  kLogits,
  kBackward,
  kReduceGrad,
  kGradNorm,
  kOptimizerStep,
};
const char* op_name(Op op);

struct Instruction {
  Op op = Op::kForward;
  int32_t micro_batch = -1;
  int32_t block = -1;  ///< 0 embedding, 1..layers blocks, layers + 1 head
  std::vector<SlotId> reads, writes;
  SlotId scratch = -1;
  double flops = 0;
};

}  // namespace hawser::plan
