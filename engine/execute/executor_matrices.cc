// Updates of matrices that an optimizer makes as a whole (optim/muon.h). Each rank works on its own parts,
// except in ORTHOGONALISE, for which the plan has brought the matrices to their homes.
#include "engine/execute/executor.h"
#include "engine/optim/muon.h"

namespace hawser::train {

using plan::Operand;

void Executor::add_momentum(const plan::Plan& plan, const plan::Instruction& n) {
  const kernels::OptimizerScalars* const scalars = &host_->scalars()->optimizer;
  auto* const direction = as<float>(plan, n[Operand::kDirection]);
  for (const parallel::BlockMatrices::Part& part :
       s_.memory.layout->matrices().of(n.block, n.experts)->parts) {
    const parallel::GroupLayout& group = s_.memory.layout->group(part.group);
    const int64_t from = (part.in_group - group.state.begin) * 4;
    char* const m = at(plan, n[Operand::kMoment1]) + group.states[plan::kFirstMoment].at + from;
    const char* const gradients =
        at(plan, n[Operand::kGradients]) + reduced(plan, n[Operand::kGradients], part.group) + from;
    s_.optimizer->add_momentum(reinterpret_cast<float*>(m), direction + part.at,
                               reinterpret_cast<const float*>(gradients), part.n, scalars, *kernels_,
                               *stream_);
  }
}

void Executor::orthogonalise(const plan::Plan& plan, const plan::Instruction& n) {
  const parallel::BlockMatrices& m = *s_.memory.layout->matrices().of(n.block, n.experts);
  nn::Region workspace = region(plan, n.scratch);
  auto* squares = workspace.take_as<ExactSum>(m.most_at_home);
  s_.memory.link->zero(squares, m.most_at_home * static_cast<int64_t>(sizeof(ExactSum)));
  optim::Orthogonal call;
  call.type = optim::product_type(s_.model.type);
  call.from = as<float>(plan, n[Operand::kDirection]), call.to = as<float>(plan, n[Operand::kHome]);
  for (const parallel::BlockMatrices::AtHome& matrix : m.at_home) {
    call.rows = matrix.rows, call.columns = matrix.columns;
    call.pieces = matrix.parts, call.copies = matrix.results;
    call.squares = squares++;
    optim::orthogonalise(call, *kernels_, &workspace, *stream_);
  }
}

/// The part of OPTIMIZER_STEP for groups whose optimizer takes matrices.
void Executor::update_matrices(const plan::Plan& plan, const plan::Instruction& n) {
  bool experts = s_.memory.layout->matrices().of(n.block, false) == nullptr;
  for (const plan::Use& use : n.uses) {  // first the direction of all but divided experts, then of these
    if (use.operand != Operand::kDirection) continue;
    const parallel::BlockMatrices* const m = s_.memory.layout->matrices().of(n.block, experts);
    const auto* const direction = as<const float>(plan, use.slot);
    experts = true;
    for (const parallel::BlockMatrices::Part& part : m->parts) {
      const parallel::GroupLayout& group = s_.memory.layout->group(part.group);
      const int64_t from = part.in_group - group.state.begin;
      char* const weights = at(plan, n[Operand::kWeights]) + own_weights(part.group);
      char* const master = group.has_master ? at(plan, n[Operand::kMaster]) + group.master : nullptr;
      optim::Optimizer::MatrixUpdate update;
      update.weights = reinterpret_cast<float*>(master ? master : weights) + from;
      if (master && !is_int_block(group.type)) update.copy = weights + dtype_bytes(group.type, from);
      update.direction = direction + part.result;
      update.n = part.n, update.copy_type = group.type;
      update.rows = part.rows, update.columns = part.columns;
      s_.optimizer->update_matrix(part.parameter, update, &host_->scalars()->optimizer, *kernels_, *stream_);
    }
  }
}

}  // namespace hawser::train
