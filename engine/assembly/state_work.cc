#include "engine/assembly/state_work.h"

#include <limits>
#include <span>

#include "engine/nn/work_counter.h"
#include "engine/optim/grad_norm.h"
#include "engine/optim/muon.h"
#include "engine/optim/optimizer.h"

namespace hawser::train {
namespace {

using nn::WorkCounter;
using parallel::GroupLayout;

class StateWork {
 public:
  StateWork(const nn::Model& model, const config::ResolvedConfig& config, const parallel::ShardLayout& layout,
            const kernels::KernelTable& kernels)
      : model_(model),
        layout_(layout),
        optimizer_(model.table(), config.optimizer, layout.options().state, config.seed,
                   [&](const nn::Parameter& p) { return layout.share_of(p); }),
        counter_(kernels, 1) {}

  /// As Executor::add_squares.
  WorkList norm(int32_t block) {
    return of_groups(block, [&](int32_t, const GroupLayout& group) {
      if (!group.owns_state()) return;
      optim::add_squares(nullptr, fake(), group.state_type, group.state.size(), nullptr, counter_.table(),
                         counter_.stream());
    });
  }

  /// As Executor::optimizer_step.
  WorkList update(int32_t block) {
    of_groups(block, [&](int32_t g, const GroupLayout& group) {
      const bool records = is_int_block(group.type);
      const auto if_kept = [](bool kept) { return kept ? fake() : nullptr; };
      optim::OptimizerRun run{group.state.begin, group.state.end, fake(),
                              if_kept(group.has_master && !records), fake()};
      run.copy_type = group.type;
      for (size_t s = 0; s < plan::kStateCount; ++s) run.states[s] = if_kept(group.states[s].kept);
      optimizer_.step(g, run, nullptr, nullptr, counter_.table(), counter_.stream());
      if (records && group.state.size() > 0)
        counter_.table().block_encode({fake(), group.type, fake(), DType::kF32, group.state.size()},
                                      counter_.stream());
    });
    for (const bool experts : {false, true})
      if (const parallel::BlockMatrices* const m = layout_.matrices().of(block, experts))
        for (const parallel::BlockMatrices::Part& part : m->parts) update_matrix(part);
    balance(block);
    return counter_.calls();
  }

  /// As MOMENTUM and ORTHOGONALISE. The workspace is that of the rank that needs the most.
  plan::MatrixSizes matrices(int32_t block, bool experts, int32_t workers) {
    plan::MatrixSizes sizes;
    const parallel::BlockMatrices* const m = layout_.matrices().of(block, experts);
    if (m == nullptr) return sizes;
    sizes.direction = m->direction_bytes;
    if (m->gathers()) sizes.parts = m->parts_bytes, sizes.gathered = m->gathered_bytes;
    if (m->scatters()) sizes.home = m->home_bytes, sizes.scattered = m->scattered_bytes;
    counter_.clear();
    for (const parallel::BlockMatrices::Part& part : m->parts)
      optimizer_.add_momentum(WorkCounter::fake_floats(), WorkCounter::fake_floats(),
                              WorkCounter::fake_floats(), part.n, nullptr, counter_.table(),
                              counter_.stream());
    sizes.momentum.work.calls = counter_.calls();
    counter_.clear();
    for (const parallel::BlockMatrices::AtHome& at_home : m->at_home) {
      nn::Region unused = nn::Region::measuring();
      orthogonalise(&counter_, &unused, at_home.rows, at_home.columns, at_home.parts, at_home.results);
    }
    sizes.orthogonalise.work.calls = counter_.calls();
    sizes.orthogonalise.flops = counter_.flops();
    sizes.orthogonalise.workspace = workspace(block, experts, m->most_at_home, workers);
    return sizes;
  }

  /// As Executor::round_gradients. `head`: only the head's part of a tied table.
  Work round(int32_t block, bool head) { return {rounded(block, head, false), rounded(block, head, true)}; }

 private:
  void orthogonalise(WorkCounter* counter, nn::Region* workspace, int64_t rows, int64_t columns,
                     std::span<const optim::MatrixPiece> parts = {},
                     std::span<const optim::MatrixPiece> results = {}) {
    optim::Orthogonal call;
    call.rows = rows, call.columns = columns;
    call.type = optim::product_type(layout_.options().compute);
    call.from = call.to = WorkCounter::fake_floats();
    call.pieces = parts, call.copies = results;
    optim::orthogonalise(call, counter->table(), workspace, counter->stream());
  }

  int64_t workspace(int32_t block, bool experts, int64_t at_home, int32_t workers) {
    WorkCounter measure(counter_.table(), workers);
    nn::Region region = nn::Region::measuring();
    region.take(at_home * static_cast<int64_t>(sizeof(ExactSum)));
    for (const parallel::Matrix& m : layout_.matrices().all()) {
      const nn::Parameter& p = model_.table().all()[static_cast<size_t>(m.parameter)];
      if (p.block == block && p.cut.experts == experts) orthogonalise(&measure, &region, m.rows, m.columns);
    }
    return region.high();
  }

  static void* fake() { return WorkCounter::fake(); }

  /// As Executor::update_matrices.
  void update_matrix(const parallel::BlockMatrices::Part& part) {
    const GroupLayout& group = layout_.group(part.group);
    optim::Optimizer::MatrixUpdate update;
    update.weights = WorkCounter::fake_floats(), update.n = part.n;
    update.rows = part.rows, update.columns = part.columns;
    if (group.has_master && !is_int_block(group.type)) update.copy = fake();
    optimizer_.update_matrix(part.parameter, update, nullptr, counter_.table(), counter_.stream());
  }

  template <typename Count>
  WorkList of_groups(int32_t block, Count count) {
    counter_.clear();
    for (const int32_t g : layout_.groups_of(block))
      if (layout_.group(g).trainable) count(g, layout_.group(g));
    return counter_.calls();
  }

  /// As Executor::balance.
  void balance(int32_t block) {
    for (const nn::Balance* const balance : model_.balances(block)) {
      if (!balance->bias()) continue;
      const mesh::FlatRange own = layout_.group(balance->bias().group).state;
      nn::GroupRange weights{WorkCounter::fake_floats(), own.begin, own.end};
      if (!layout_.weights_sharded()) weights = {weights.data, 0, std::numeric_limits<int64_t>::max()};
      balance->move_bias(weights, static_cast<const int64_t*>(fake()), counter_.table(), counter_.stream());
    }
  }

  WorkList rounded(int32_t block, bool head, bool adds) {
    const nn::Parameter& tokens = model_.table().all().front();
    return of_groups(block, [&](int32_t g, const GroupLayout& group) {
      const bool shared = block == 0 && model_.trains_shared_table() && g == tokens.group;
      const int64_t tied = shared ? tokens.offset + tokens.room : 0;
      const auto convert = [&](int64_t n, bool accumulate) {
        if (n > 0)
          counter_.table().convert({fake(), fake(), group.state_type, DType::kF32, n, accumulate},
                                   counter_.stream());
      };
      convert(tied, adds || !head);
      if (!head) convert(group.elements - tied, adds);
    });
  }

  const nn::Model& model_;
  const parallel::ShardLayout& layout_;
  const optim::Optimizer optimizer_;
  WorkCounter counter_;
};

}  // namespace

void add_state_work(plan::Sizes* sizes, const nn::Model& model, const config::ResolvedConfig& config,
                    const parallel::ShardLayout& layout, const kernels::KernelTable& kernels,
                    int32_t workers) {
  StateWork work(model, config, layout, kernels);
  for (int32_t b = 0; b < layout.blocks(); ++b) {
    plan::BlockState& state = sizes->state[static_cast<size_t>(b)];
    state.norm.calls = work.norm(b);
    state.update.calls = work.update(b);
    for (const bool experts : {false, true})
      state.matrices[experts ? 1 : 0] = work.matrices(b, experts, workers);
    if (layout.has_window(b)) state.round = work.round(b, false);
  }
  if (layout.rounds_gradients()) sizes->round_head = work.round(0, true);
}

}  // namespace hawser::train
