// The updates of matrices that an optimizer makes as a whole: momentum, the way to their homes, the products
// there, and the way back, before the OPTIMIZER_STEPs that use the result.
#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/training_step.h"

namespace hawser::plan {

using enum Operand;

/// True if several ranks hold the same matrices.
bool TrainingStep::scatters() const {
  return std::any_of(s_.state.begin(), s_.state.end(), [](const BlockState& state) {
    return std::any_of(state.matrices.begin(), state.matrices.end(),
                       [](const MatrixSizes& m) { return m.home > 0; });
  });
}

/// All parts are on their way before the first product, so that homes in different blocks work at the same
/// time.
void TrainingStep::add_directions() {
  for (int32_t b = 0; b <= s_.head(); ++b)
    for (const bool experts : {false, true}) add_direction(b, experts);
  for (int32_t b = 0; b <= s_.head(); ++b)
    for (const bool experts : {false, true}) orthogonalise(b, experts);
}

namespace {

Instruction transfer(Op op, int32_t block, bool experts, SlotId from, SlotId to, int64_t bytes) {
  Instruction n;
  n.op = op, n.block = block, n.experts = experts;
  n.lane = Lane::kDataParallel;
  n.read(kSent, from), n.write(kReceived, to);
  n.sent_bytes = bytes;
  return n;
}

std::string slot_name(const char* name, int32_t block, bool experts) {
  return fmt::format("{}.{}{}", name, block, experts ? ".experts" : "");
}

}  // namespace

void TrainingStep::add_direction(int32_t block, bool experts) {
  const MatrixSizes& m = s_.state[static_cast<size_t>(block)].matrices[experts ? 1 : 0];
  if (m.direction == 0) return;
  const SlotId direction =
      b_.transient(slot_name("direction", block, experts), Category::kWorkspace, m.direction);
  directions_[{block, experts}] = direction;
  b_.add(Op::kMomentum, -1, block,
         {{kGradients, b_.gradients()[static_cast<size_t>(block)]}, {kScalars, b_.scalars()}},
         {{kMoment1, find_state(b_.plan(), Role::kMoment1, block)}, {kDirection, direction}}, m.momentum)
      .experts = experts;
  if (m.parts == 0) return;
  const SlotId parts = b_.transient(slot_name("parts", block, experts), Category::kWorkspace, m.parts);
  parts_[{block, experts}] = parts;
  b_.plan().instructions.push_back(transfer(Op::kGatherMatrix, block, experts, direction, parts, m.gathered));
}

void TrainingStep::orthogonalise(int32_t block, bool experts) {
  const MatrixSizes& m = s_.state[static_cast<size_t>(block)].matrices[experts ? 1 : 0];
  if (m.direction == 0) return;
  const SlotId direction = directions_.at({block, experts});
  const SlotId from = m.parts > 0 ? parts_.at({block, experts}) : direction;
  const SlotId home =
      m.home > 0 ? b_.transient(slot_name("home", block, experts), Category::kWorkspace, m.home) : direction;
  b_.add(Op::kOrthogonalise, -1, block, {{kDirection, from}}, {{kHome, home}}, m.orthogonalise).experts =
      experts;
  if (home != direction)
    b_.plan().instructions.push_back(
        transfer(Op::kScatterMatrix, block, experts, home, direction, m.scattered));
}

}  // namespace hawser::plan
