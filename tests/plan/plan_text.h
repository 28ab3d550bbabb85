// Plan text: small plans for tests, with sizes that distinguish blocks and roles, and a text form that reads
// like a program.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/serial.h"

namespace hawser::plan {

// Plans a training step for a rank that has the full model.

inline Plan train_plan(const Sizes& sizes, int32_t micro_batches, Accumulation accumulation) {
  return train_plan(sizes, whole_model(sizes.head() + 1, micro_batches), micro_batches, accumulation);
}
inline Plan eval_plan(const Sizes& sizes) { return eval_plan(sizes, whole_model(sizes.head() + 1, 0)); }
inline Plan logits_plan(const Sizes& sizes) { return logits_plan(sizes, whole_model(sizes.head() + 1, 0)); }
inline Plan generate_plan(const Sizes& sizes) {
  return generate_plan(sizes, whole_model(sizes.head() + 1, 0));
}

}  // namespace hawser::plan

namespace hawser::testing {

/// Returns the state of one block: weights of `bytes`, gradients and two moments of twice that size.
inline plan::BlockState small_block(int64_t bytes) {
  plan::BlockState s;
  s.weights = bytes;
  s.gradients = s.gradient_bucket = 2 * bytes;
  s.states[plan::kFirstMoment] = s.states[plan::kSecondMoment] = 2 * bytes;
  return s;
}

/// Returns the sizes of `layers` blocks between an embedding and a head; the first `frozen` of all these have
/// no gradient.
inline plan::Sizes small_sizes(int64_t layers, bool tied, int32_t frozen = 0) {
  plan::Sizes s;
  s.state.push_back(small_block(320));
  for (int64_t l = 0; l < layers; ++l) s.state.push_back(small_block(512));
  s.state.push_back(small_block(tied ? 64 : 384));
  for (size_t b = 0; b < static_cast<size_t>(frozen); ++b) {
    const int64_t weights = s.state[b].weights;
    s.state[b] = {};
    s.state[b].weights = weights;
  }
  s.first_trainable = frozen;
  s.lookup_gradient = tied && frozen == 0 ? 640 : 0;
  s.tied_head = tied;
  s.scalars = 32, s.norm = 64, s.norm_workspace = 128;
  s.residual = s.dx = 256, s.batch = 128, s.losses = 64;
  s.block_forward.assign(static_cast<size_t>(layers), {100, 700, 2e9});
  s.block_backward.assign(static_cast<size_t>(layers), {200, 700, 4e9});
  s.loss = {300, 0, 3e9}, s.loss_eval = {150, 0, 1e9}, s.logits = {150, 0, 1e9};
  s.generate_residual = 64, s.generate_batch = 64, s.generate_workspace = 96, s.kv_cache = 512;
  return s;
}

inline plan::Plan finished(plan::Plan plan) {
  plan::finish(&plan);
  return plan;
}

/// Returns one line for each instruction: op block micro-batch: reads -> writes; "+>" if it adds to
/// gradients; "~" before a transfer; "#k" for its bucket.
inline std::string text_of(const plan::Plan& plan) {
  const auto names = [&](const std::vector<plan::SlotId>& ids) {
    std::string text;
    for (const plan::SlotId id : ids) text += " " + plan.slot(id).name;
    return text;
  };
  std::ostringstream text;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& n = plan.instructions[i];
    if (i == plan.commit) text << "durable\n";
    if (n.is_transfer()) text << "~ ";
    text << plan::op_name(n.op) << " " << n.block << " " << n.micro_batch;
    if (n.bucket >= 0) text << " #" << n.bucket;
    text << ":" << names(n.reads()) << (n.accumulate ? " +>" : " ->") << names(n.writes()) << "\n";
  }
  return text.str();
}

}  // namespace hawser::testing
