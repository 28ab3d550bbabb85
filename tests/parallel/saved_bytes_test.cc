// Saved bytes test: compares the bytes that a block saves from its forward to its backward with the closed
// form: for R rows with the rank's heads and features; under sequence parallelism with norms and residual
// stream of R/t rows (arXiv:2205.05198, table 2); under context parallelism R is the rank's local columns,
// and Ulysses also saves q, k, v and the output of all columns.
#include <gtest/gtest.h>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "engine/parallel/context_parallel.h"
#include "engine/parallel/sequence_parallel.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace saved_bytes_test {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// `m` is one tensor-parallel rank's model, `rows` is R, `own` the rows of the residual stream.
int64_t saved_bytes(const nn::ModelConfig& m, int64_t rows, int64_t own, const Layout& l, int64_t e) {
  const int64_t h = m.heads, k = m.kv_heads, d = m.head_dim, c = l.cp;
  const int64_t norms = (m.norm == nn::Norm::kLayerNorm ? 2 : 1) * (m.post_norm ? 4 : 2);
  int64_t bytes = norms * aligned(4 * own) + (m.post_norm ? 3 : 1) * aligned(4 * own * m.width);
  bytes += aligned(e * rows * m.mlp_width * (nn::is_gated(m.mlp) ? 2 : 1));
  bytes += aligned(e * rows * h * d) + aligned(4 * rows * h);
  if (c > 1 && l.cp_mode == "ulysses")
    bytes += aligned(e * rows * c * (2 * h / c + 2 * std::max<int64_t>(1, k / c)) * d);
  else
    bytes += aligned(e * rows * (h + 2 * k) * d);
  if (m.qk_norm) bytes += aligned(e * rows * (h + k) * d) + aligned(4 * rows * h) + aligned(4 * rows * k);
  return bytes;
}

TEST(SavedBytes, FollowTheClosedFormForEveryTAndC) {
  for (const bool like_gpt2 : {true, false})
    for (const auto& [tp, sp, cp, mode] :
         {std::tuple<int64_t, bool, int64_t, const char*>{1, false, 1, "ring"},
          {2, false, 1, "ring"},
          {2, true, 1, "ring"},
          {4, true, 1, "ring"},
          {1, false, 2, "ring"},
          {1, false, 4, "gather"},
          {1, false, 2, "ulysses"},
          {1, false, 4, "ulysses"},
          {2, true, 2, "ring"},
          {2, false, 2, "ulysses"}}) {
      Problem problem;
      problem.like_gpt2 = like_gpt2, problem.sequence = 13, problem.micro_batch = 3;
      Layout layout;
      layout.tp = tp, layout.sequence_parallel = sp, layout.cp = cp, layout.cp_mode = mode;
      SCOPED_TRACE(layout.name());
      const config::ResolvedConfig config =
          train::assemble(config::ConfigTree::from_json(layout_config(problem, layout))).config;
      const nn::Model model(config.model, config.init.scale_residual, {}, tp);
      const int64_t seq = nn::LocalColumns{cp, 0}.count(13), rows = 3 * seq;
      for (const DType type : {DType::kF32, DType::kBf16}) {
        parallel::CountingWire wire(tp), column_wire(cp);
        const auto exchange = parallel::make_exchange(sp, 1, &wire);
        const auto columns = parallel::make_column_exchange(config.mesh.cp_mode, &column_wire);
        const nn::ModelCosts costs = nn::measure_costs(model, *kernel_tables().back(), 1, type, 3, seq, true,
                                                       false, *exchange, *columns);
        const int64_t own = sp ? (rows + tp - 1) / tp : rows;
        for (const nn::CallCost& cost : costs.block_forward)
          EXPECT_EQ(cost.saved, saved_bytes(model.local(), rows, own, layout, dtype_bytes(type)));
      }
    }
}

/// In the zigzag order every rank computes the same amount of attention.
TEST(SavedBytes, AttentionIsTheSameWorkOnEveryRank) {
  Problem problem;
  problem.sequence = 24;
  for (const char* mode : {"ring", "gather"})
    for (const int64_t cp : {2, 3, 4}) {
      Layout layout;
      layout.cp = cp, layout.cp_mode = mode;
      const config::ResolvedConfig config =
          train::assemble(config::ConfigTree::from_json(layout_config(problem, layout))).config;
      const nn::Model model(config.model);
      double first = 0;
      for (int64_t rank = 0; rank < cp; ++rank) {
        parallel::CountingWire wire(cp, rank);
        const auto columns = parallel::make_column_exchange(config.mesh.cp_mode, &wire);
        const nn::ModelCosts costs =
            nn::measure_costs(model, *kernel_tables().back(), 1, DType::kF32, 2,
                              nn::LocalColumns{cp, 0}.count(24), true, false, nn::kAlone, *columns);
        const double flops = costs.block_forward[0].flops;
        if (rank == 0) first = flops;
        EXPECT_EQ(flops, first) << mode << " rank " << rank << " of " << cp;
      }
    }
}

}  // namespace saved_bytes_test
}  // namespace hawser::testing
