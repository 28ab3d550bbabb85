// Tests that the dry run measures what a real run takes. Every call of every variant, on every kernel level,
// runs in regions of exactly the measured size and uses all of it: taking one byte more throws, and guards
// detect a write to it. The saved bytes also equal the closed form in block.h, and the FLOPs a count by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "engine/nn/model.h"
#include "engine/nn/rope_table.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"
#include "tests/nn/model_memory.h"
#include "tests/nn/model_variants.h"

namespace hawser::testing {
namespace dry_run_test {

/// The buffers of one micro-batch of a variant, with real calls over them.
class RealRun {
 public:
  RealRun(const ModelVariant& variant, const nn::Model& model, const kernels::KernelTable& kernels,
          int32_t workers, DType type)
      : stream_(workers),
        batch_(variant_batch(variant, model.config().vocab_size)),
        memory_(model.table(), variant_weights(model.table(), model.config().norm_weight_offset), type,
                kernels, stream_),
        rope_(static_cast<size_t>(nn::rope_table_size(model.config(), variant.sequence))),
        samples_(static_cast<size_t>(variant.micro_batch)) {
    if (!rope_.empty()) nn::fill_rope_table(rope_.data(), model.config(), variant.sequence);
    std::iota(samples_.begin(), samples_.end(), 0);
    positions_.resize(batch_.tokens.size());
    for (size_t i = 0; i < positions_.size(); ++i) {
      const auto column = static_cast<int32_t>(static_cast<int64_t>(i) % variant.sequence);
      positions_[i] = variant.documents ? column - batch_.document_begin[i] : column;
    }
    ctx_.kernels = &kernels;
    ctx_.stream = &stream_;
    ctx_.batch = variant.micro_batch, ctx_.seq = variant.sequence;
    ctx_.tokens_BT = batch_.tokens.data(), ctx_.targets_BT = batch_.targets.data();
    ctx_.positions_BT = positions_.data();
    ctx_.kv_begin_BT = variant.documents ? batch_.document_begin.data() : nullptr;
    ctx_.samples_B = samples_.data();
    ctx_.type = type;
    ctx_.groups = memory_.groups();
    ctx_.training = true;
    ctx_.seed = 9;
  }

  const float* rope(size_t layer, const nn::ModelConfig& model) const {
    return rope_.data() + nn::rope_table_begin(model, static_cast<int64_t>(layer), ctx_.seq);
  }
  nn::Context& context() { return ctx_; }

  /// Runs `call` in a workspace of exactly cost.workspace bytes, and expects it to use them all.
  void expect(const nn::CallCost& cost, const char* what,
              const std::function<void(const nn::Context&)>& call) {
    GuardedBuffer<char> memory(cost.workspace);
    nn::Region region(memory.data(), cost.workspace);
    ctx_.workspace = &region;
    call(ctx_);
    ctx_.workspace = nullptr;
    EXPECT_EQ(region.high(), cost.workspace) << what;
    EXPECT_TRUE(memory.intact()) << what << " wrote outside its workspace";
  }

 private:
  SerialStream stream_;
  ReferenceBatch batch_;
  ModelMemory memory_;
  std::vector<float> rope_;
  std::vector<uint64_t> samples_;
  std::vector<int32_t> positions_;
  nn::Context ctx_;
};

/// Returns the closed form of moe/mixture.h: bytes of the arrays of a sparse layer, for `batch` rows of the
/// batch.
std::vector<int64_t> mixture_arrays(const nn::ModelConfig& m, int64_t rows, int64_t batch, int64_t e) {
  const nn::MoeConfig& moe = m.moe;
  const int64_t gated = nn::is_gated(m.mlp) ? 2 : 1, k = moe.top_k;
  std::vector<int64_t> arrays = {4 * rows * moe.experts, 4 * (moe.experts + 1),
                                 4 * batch * (2 * moe.experts + 1), e * rows * k * moe.width * gated};
  for (int i = 0; i < 4; ++i) arrays.push_back(4 * rows * k);  // choice, weights, place, order
  if (moe.shared_width > 0) arrays.push_back(e * rows * moe.shared_width * gated);
  if (moe.shared_gate) arrays.insert(arrays.end(), 3, 4 * rows);
  return arrays;
}

/// Returns the closed form of block.h: the bytes that a block's forward saves, with each array rounded up to
/// 64 bytes.
int64_t saved_bytes(const nn::ModelConfig& m, int64_t layer, int64_t rows, int64_t batch, int64_t e) {
  const int64_t c = m.width, h = m.heads, k = m.kv_heads, d = m.head_dim, f = m.mlp_width;
  const bool gated = nn::is_gated(m.mlp);
  const int64_t statistics = m.norm == nn::Norm::kLayerNorm ? 2 : 1;
  std::vector<int64_t> arrays = {e * (h + 2 * k) * d, e * h * d, 4 * c, 4 * h};
  if (m.is_latent()) {
    const nn::LatentConfig& l = m.latent;
    arrays = {e * (l.q_rank + l.kv_rank + l.rope_dim),
              e * h * d,
              e * h * (d + l.value_dim),
              e * h * l.value_dim,
              4 * c,
              4 * h,
              4};
    if (l.q_rank > 0) arrays.push_back(4);
  }
  if (!m.is_sparse(layer)) arrays.push_back(e * f * (gated ? 2 : 1));
  for (int64_t i = 0; i < statistics * 2; ++i) arrays.push_back(4);
  if (m.qk_norm) arrays.insert(arrays.end(), {e * (h + k) * d, 4 * h, 4 * k});
  if (m.post_norm) {
    arrays.insert(arrays.end(), {4 * c, 4 * c});
    for (int64_t i = 0; i < statistics * 2; ++i) arrays.push_back(4);
  }
  int64_t bytes = 0;
  for (const int64_t row_bytes : arrays) bytes += (rows * row_bytes + 63) / 64 * 64;
  if (m.is_sparse(layer))
    for (const int64_t of_all : mixture_arrays(m, rows, batch, e)) bytes += (of_all + 63) / 64 * 64;
  return bytes;
}

class DryRun : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(DryRun, MeasuresWhatARealRunTakes) {
  const nn::ModelConfig config = resolve_variant(GetParam()).model;
  const nn::Model model(config);
  const int64_t rows = GetParam().micro_batch * GetParam().sequence, residual = rows * config.width;
  for (const kernels::KernelTable* kernels : kernel_tables()) {
    for (const auto& [type, workers] : {std::pair{DType::kF32, 1}, {DType::kF32, 3}, {DType::kBf16, 2}}) {
      SCOPED_TRACE(std::string(kernels->name) + ", workers " + std::to_string(workers));
      const nn::ModelCosts costs = nn::measure_costs(model, *kernels, workers, type, GetParam().micro_batch,
                                                     GetParam().sequence, true);
      RealRun run(GetParam(), model, *kernels, workers, type);
      std::vector<std::vector<float>> x(static_cast<size_t>(config.layers) + 1,
                                        std::vector<float>(static_cast<size_t>(residual)));
      std::vector<float> dx(static_cast<size_t>(residual)), losses(static_cast<size_t>(rows));
      std::vector<float> logits(static_cast<size_t>(rows * config.vocab_size));
      const float grad_scale = 0.1f;

      run.expect(costs.embedding_forward, "embedding forward",
                 [&](const nn::Context& c) { model.embedding().forward(c, x[0].data()); });
      std::vector<std::unique_ptr<GuardedBuffer<char>>> saved;
      for (size_t l = 0; l < costs.block_forward.size(); ++l) {
        const nn::CallCost& cost = costs.block_forward[l];
        EXPECT_EQ(cost.saved, saved_bytes(config, static_cast<int64_t>(l), rows, GetParam().micro_batch,
                                          dtype_bytes(run.context().type)));
        EXPECT_EQ(costs.block_backward[l].saved, cost.saved);
        saved.push_back(std::make_unique<GuardedBuffer<char>>(cost.saved));
        nn::BlockRegions region{.saved = {saved[l]->data(), cost.saved}};
        run.expect(cost, "block forward", [&](const nn::Context& c) {
          model.block(static_cast<int64_t>(l))
              .forward(c, region, run.rope(l, config), x[l + 1].data(), x[l].data());
        });
        EXPECT_EQ(region.saved.high(), cost.saved);
        EXPECT_TRUE(saved[l]->intact()) << "block forward wrote outside what it saved";
      }
      run.expect(costs.loss_eval, "loss of an evaluation",
                 [&](const nn::Context& c) { model.head().forward(c, losses.data(), x.back().data()); });
      run.expect(costs.logits, "logits",
                 [&](const nn::Context& c) { model.head().logits(c, logits.data(), x.back().data(), rows); });
      run.expect(costs.loss, "loss", [&](const nn::Context& c) {
        model.head().forward_backward(c, losses.data(), dx.data(), x.back().data(), &grad_scale);
      });
      for (size_t l = saved.size(); l-- > 0;) {
        nn::BlockRegions region{.saved = {saved[l]->data(), costs.block_forward[l].saved}};
        run.expect(costs.block_backward[l], "block backward", [&](const nn::Context& c) {
          model.block(static_cast<int64_t>(l))
              .backward(c, region, run.rope(l, config), dx.data(), x[l].data());
        });
        EXPECT_EQ(region.saved.high(), costs.block_forward[l].saved);
        EXPECT_TRUE(saved[l]->intact()) << "block backward wrote outside what was saved";
      }
      run.expect(costs.embedding_backward, "embedding backward",
                 [&](const nn::Context& c) { model.embedding().backward(c, dx.data()); });
      for (const float loss : losses) EXPECT_TRUE(std::isfinite(loss));
      for (const float d : dx) EXPECT_TRUE(std::isfinite(d));
    }
  }
}

TEST_P(DryRun, AnEvaluationTakesNoMoreThanTraining) {
  const nn::Model model(resolve_variant(GetParam()).model);
  const int64_t batch = GetParam().micro_batch, seq = GetParam().sequence;
  for (const kernels::KernelTable* kernels : kernel_tables()) {
    const nn::ModelCosts training = nn::measure_costs(model, *kernels, 2, DType::kF32, batch, seq, true);
    const nn::ModelCosts eval = nn::measure_costs(model, *kernels, 2, DType::kF32, batch, seq, false);
    EXPECT_LE(eval.embedding_forward.workspace, training.embedding_forward.workspace);
    for (size_t l = 0; l < eval.block_forward.size(); ++l) {
      EXPECT_LE(eval.block_forward[l].workspace, training.block_forward[l].workspace);
      EXPECT_EQ(eval.block_forward[l].saved, training.block_forward[l].saved);
    }
  }
}

/// Returns a model large enough for several tiles, chunks and workers.
nn::ModelConfig wider_model() {
  constexpr const char* kModel = R"({"vocab_size": 300, "context": 700, "layers": 1, "width": 96, "heads": 6,
      "kv_heads": 2, "qk_norm": true, "post_norm": true, "position": "rotary",
      "dropout": {"attention": 0.1, "residual": 0.1}})";
  return resolve_variant({"wider", kModel, 1, 1, 700}).model;
}

TEST(DryRunSizes, NoSmallerBatchTakesMore) {
  // Evaluation, forward and generation run fewer and shorter rows in memory planned for the largest.
  const nn::Model model(wider_model());
  for (const kernels::KernelTable* kernels : kernel_tables()) {
    for (const int32_t workers : {1, 2, 7, 64}) {
      for (const DType type : {DType::kF32, DType::kBf16}) {
        const auto cost = [&](int64_t batch, int64_t seq) {
          const nn::ModelCosts c = nn::measure_costs(model, *kernels, workers, type, batch, seq, true);
          return std::vector<int64_t>{c.embedding_forward.workspace, c.embedding_backward.workspace,
                                      c.block_forward[0].workspace,  c.block_forward[0].saved,
                                      c.block_backward[0].workspace, c.loss.workspace,
                                      c.loss_eval.workspace,         c.logits.workspace};
        };
        const std::vector<int64_t> most = cost(3, 700);
        for (const int64_t batch : {1, 2, 3}) {
          for (const int64_t seq : {1, 2, 31, 63, 64, 65, 127, 128, 200, 256, 257, 500, 699}) {
            const std::vector<int64_t> less = cost(batch, seq);
            for (size_t i = 0; i < less.size(); ++i)
              EXPECT_LE(less[i], most[i]) << kernels->name << ", workers " << workers << ", batch " << batch
                                          << ", seq " << seq << ", cost " << i;
          }
        }
      }
    }
  }
}

TEST(DryRunSizes, NoShorterCacheOrPieceTakesMore) {
  const nn::Model model(wider_model());
  for (const kernels::KernelTable* kernels : kernel_tables()) {
    for (const int32_t workers : {1, 2, 7, 64}) {
      const auto bytes = [&](int64_t rows, int64_t capacity) {
        return nn::measure_cached_workspace(model, *kernels, workers, DType::kF32, rows, capacity);
      };
      const int64_t most = bytes(64, 700);
      for (const int64_t rows : {1, 2, 3, 15, 16, 17, 33, 63, 64}) {
        for (const int64_t capacity : {64, 65, 127, 128, 129, 300, 512, 699, 700})
          EXPECT_LE(bytes(rows, capacity), most)
              << kernels->name << ", workers " << workers << ", rows " << rows << ", capacity " << capacity;
      }
    }
  }
}

/// Returns the (query, key) pairs of one head of one row.
double pairs(int64_t seq, int64_t window) {
  double sum = 0;
  for (int64_t t = 0; t < seq; ++t)
    for (int64_t key = 0; key <= t; ++key) sum += window == 0 || t - key < window ? 1 : 0;
  return sum;
}

TEST_P(DryRun, CountsTheFlopsOfEveryProduct) {
  const nn::ModelConfig m = resolve_variant(GetParam()).model;
  if (m.adapter.on()) return;  // nn_adapter_test counts these
  const nn::Model model(m);
  const int64_t batch = GetParam().micro_batch, seq = GetParam().sequence;
  const nn::ModelCosts costs =
      nn::measure_costs(model, *kernel_tables().back(), 2, DType::kF32, batch, seq, true);
  const double rows = static_cast<double>(batch * seq);
  double matmul_parameters = static_cast<double>(m.vocab_size * m.width);
  EXPECT_DOUBLE_EQ(costs.loss_eval.flops, 2 * rows * matmul_parameters);
  EXPECT_DOUBLE_EQ(costs.loss.flops, 6 * rows * matmul_parameters);
  for (int64_t l = 0; l < m.layers; ++l) {
    double in_block = 0, output_biases = 0;
    for (const nn::Parameter& p : model.table().all()) {
      if (p.block != l + 1) continue;
      const auto multiplied = static_cast<double>(multiplied_elements(p, m));
      (p.name.ends_with(".bias") ? output_biases : in_block) += multiplied;
    }
    const double head = pairs(seq, m.window[static_cast<size_t>(l)]) * static_cast<double>(batch * m.heads);
    const double keys = head * static_cast<double>(m.head_dim),
                 values = head * static_cast<double>(m.value_dim());
    EXPECT_DOUBLE_EQ(costs.block_forward[static_cast<size_t>(l)].flops,
                     2 * rows * (in_block + output_biases) + 2 * (keys + values));
    EXPECT_DOUBLE_EQ(costs.block_backward[static_cast<size_t>(l)].flops,
                     4 * rows * (in_block + output_biases) + 6 * keys + 4 * values);
    matmul_parameters += in_block;
  }
  EXPECT_DOUBLE_EQ(static_cast<double>(model.matmul_parameters()), matmul_parameters);
  EXPECT_DOUBLE_EQ(model.flops_per_token(seq),
                   6 * matmul_parameters +
                       3.0 * static_cast<double>(m.layers * seq * m.heads * (m.head_dim + m.value_dim())));
}

INSTANTIATE_TEST_SUITE_P(Variants, DryRun, ::testing::ValuesIn(model_variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace dry_run_test
}  // namespace hawser::testing
