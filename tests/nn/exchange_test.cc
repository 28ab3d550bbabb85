// Tests a block of two ranks, each with half of the heads and half of the MLP's features. With a sum at each
// call of the Exchange, both compute the results of one rank, forward and backward; without any one of the
// sums they do not. Chunks of rows change no bit. Also tests that the dry run passes each transfer to its
// exchange.
#include "engine/nn/exchange.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <numeric>
#include <thread>

#include "engine/nn/model.h"
#include "engine/nn/rope_table.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"
#include "tests/nn/model_memory.h"
#include "tests/nn/model_variants.h"

namespace hawser::testing {
namespace exchange_test {

constexpr int kRanks = 2;
constexpr int64_t kBatch = 2, kSeq = 9;

/// The state that two ranks share: pointers to their addends, and a barrier.
struct Meeting {
  std::barrier<> barrier{kRanks};
  const float* addends[kRanks] = {};
};

/// Tensor parallelism: a block sums twice in forward and twice in backward, each time in `chunks`.
/// `left_out`: the sums to skip: 0 none, 1 those of forward, 2 those of backward.
class Halves : public nn::Exchange {
 public:
  Halves(Meeting* meeting, int rank, int left_out, int64_t chunks)
      : meeting_(*meeting), rank_(rank), left_out_(left_out), chunks_(chunks) {}

  int64_t chunks() const override { return chunks_; }
  void begin_sum(const nn::Context&, float* own, float*, int64_t begin, int64_t end,
                 int64_t width) const override {
    const bool forward = sums_++ < 2 * chunks_;
    if (left_out_ != (forward ? 1 : 2)) add(own + begin * width, (end - begin) * width);
  }

 private:
  void add(float* addend, int64_t count) const {
    const auto elements = static_cast<size_t>(count);
    meeting_.addends[rank_] = addend;
    meeting_.barrier.arrive_and_wait();
    std::vector<float> sum(elements);
    for (size_t i = 0; i < elements; ++i) sum[i] = meeting_.addends[0][i] + meeting_.addends[1][i];
    meeting_.barrier.arrive_and_wait();
    std::copy(sum.begin(), sum.end(), addend);
  }

  Meeting& meeting_;
  const int rank_, left_out_;
  const int64_t chunks_;
  mutable int64_t sums_ = 0;
};

/// Returns the config of one rank's share.
nn::ModelConfig share(const nn::ModelConfig& whole, int ranks) {
  nn::ModelConfig m = whole;
  m.heads /= ranks, m.kv_heads /= ranks, m.mlp_width /= ranks;
  return m;
}

bool is_cut_by_rows(const std::string& name) {
  for (const char* part : {".q.", ".k.", ".v.", ".gate.", ".up."})
    if (name.find(part) != std::string::npos) return true;
  return false;
}
bool is_cut_by_columns(const std::string& name) {
  return name.ends_with(".o.weight") || name.ends_with(".down.weight");
}
/// True for a bias that is added after a sum, so that only one rank adds it.
bool is_of_first_rank(const std::string& name) {
  return name.ends_with(".o.bias") || name.ends_with(".down.bias");
}

/// Calls visit(element of the full parameter, element of the share) for rank r's elements of p; `mine` is its
/// share.
template <typename Visit>
void each_held(const nn::Parameter& p, const nn::Parameter& mine, int rank, Visit visit) {
  const bool columns = is_cut_by_columns(p.name);
  const int64_t width = p.shape.back(), cut = mine.shape.back();
  const int64_t rows_before = is_cut_by_rows(p.name) ? rank * mine.size : 0;
  for (int64_t i = 0; i < mine.size; ++i)
    visit(columns ? i / cut * width + rank * cut + i % cut : rows_before + i, i);
}

/// Runs one block forward and backward on one rank.
struct BlockRun {
  BlockRun(const nn::ModelConfig& config, std::vector<float> weights, const kernels::KernelTable& kernels)
      : model(config), stream(2), memory(model.table(), std::move(weights), DType::kF32, kernels, stream) {
    ctx.kernels = &kernels, ctx.stream = &stream;
    ctx.batch = kBatch, ctx.seq = kSeq;
    ctx.groups = memory.groups();
    ctx.training = true;
  }

  void run(const nn::Exchange& exchange) {
    const int64_t elements = kBatch * kSeq * model.config().width;
    std::vector<float> rope(static_cast<size_t>(nn::rope_table_size(model.config(), kSeq)));
    if (!rope.empty()) nn::fill_rope_table(rope.data(), model.config(), kSeq);
    std::vector<int32_t> positions(kBatch * kSeq);
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i) % kSeq;
    std::vector<float> x(static_cast<size_t>(elements));
    y.resize(x.size()), dx.resize(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = std::sin(0.37f * static_cast<float>(i));
      dx[i] = std::cos(0.53f * static_cast<float>(i));
    }
    std::vector<char> kept(1 << 20), scratch(1 << 20);
    ctx.positions_BT = positions.data();
    ctx.exchange = &exchange;
    const auto call = [&](auto fn) {
      nn::BlockRegions saved{.saved = {kept.data(), 1 << 20}};
      nn::Region workspace(scratch.data(), 1 << 20);
      ctx.workspace = &workspace;
      fn(saved);
    };
    call([&](auto& saved) { model.block(0).forward(ctx, saved, rope.data(), y.data(), x.data()); });
    call([&](auto& saved) { model.block(0).backward(ctx, saved, rope.data(), dx.data(), x.data()); });
  }

  const float* gradient(const nn::Parameter& p) { return memory.gradients().data() + memory.layout().at(p); }

  nn::Model model;
  SerialStream stream;
  ModelMemory memory;
  nn::Context ctx;
  std::vector<float> y, dx;
};

/// Returns the distance of the two relative to the length of `want`.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, length = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    length += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference / length);
}

/// `bits`: output and gradient of the input, on both ranks.
struct Distances {
  double y = 0, dx = 0, gradients = 0;
  std::vector<std::vector<float>> bits = {};
};

/// Compares two ranks with one; returns the greatest distance over ranks and parameters of the block.
Distances two_ranks(const nn::ModelConfig& config, int left_out, int64_t chunks = 1) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const nn::Model whole(config), part(share(config, kRanks));
  const std::vector<float> weights = variant_weights(whole.table(), config.norm_weight_offset);
  const FlatLayout flat(whole.table()), cut(part.table());
  BlockRun serial(config, weights, kernels);
  serial.run(nn::kAlone);

  std::vector<std::unique_ptr<BlockRun>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float> mine(static_cast<size_t>(cut.size()));
    for (const nn::Parameter& p : part.table().all())
      each_held(whole.table().at(p.name), p, rank, [&](int64_t from, int64_t to) {
        if (rank > 0 && is_of_first_rank(p.name)) return;
        mine[static_cast<size_t>(cut.at(p) + to)] =
            weights[static_cast<size_t>(flat.at(whole.table().at(p.name)) + from)];
      });
    ranks.push_back(std::make_unique<BlockRun>(share(config, kRanks), std::move(mine), kernels));
  }
  Meeting meeting;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back(
          [&, rank] { ranks[static_cast<size_t>(rank)]->run(Halves(&meeting, rank, left_out, chunks)); });
  }

  Distances d;
  for (const auto& rank : ranks) {
    d.y = std::max(d.y, distance(rank->y, serial.y));
    d.dx = std::max(d.dx, distance(rank->dx, serial.dx));
    d.bits.push_back(rank->y), d.bits.push_back(rank->dx);
  }
  for (const nn::Parameter& p : part.table().all()) {
    if (p.block != 1) continue;
    if (p.name.ends_with(".k.bias")) continue;  // softmax is invariant to it, so its gradient is noise
    const nn::Parameter& global = whole.table().at(p.name);
    // Every head contributes to the gradient of the norm of q or k, so each rank has only an addend of it.
    const bool summed =
        p.name.find("q_norm") != std::string::npos || p.name.find("k_norm") != std::string::npos;
    const float* const want = serial.gradient(global);
    std::vector<float> got(static_cast<size_t>(global.size)), expected(want, want + global.size);
    for (int rank = 0; rank < kRanks; ++rank)
      each_held(global, p, rank, [&](int64_t from, int64_t to) {
        const float g = ranks[static_cast<size_t>(rank)]->gradient(p)[to];
        float& element = got[static_cast<size_t>(from)];
        element = summed ? element + g : g;
      });
    d.gradients = std::max(d.gradients, distance(got, expected));
  }
  return d;
}

const nn::ModelConfig& model(const std::string& name) {
  static const std::map<std::string, nn::ModelConfig> models{
      {"gpt2",
       resolve_variant({"gpt2", R"({"vocab_size": 20, "context": 16, "layers": 1, "width": 24, "heads": 4,
          "mlp_width": 60, "mlp": "gelu_tanh"})"})
           .model},
      {"gemma",
       resolve_variant({"gemma", R"({"vocab_size": 20, "context": 16, "layers": 1, "width": 24, "heads": 4,
          "kv_heads": 2, "head_dim": 10, "mlp_width": 36, "norm": "rms_norm", "mlp": "geglu", "qk_norm": true,
          "post_norm": true, "window": 5, "attention_softcap": 3, "norm_weight_offset": 1})"})
           .model}};
  return models.at(name);
}

class ExchangeOfTwo : public ::testing::TestWithParam<const char*> {};

TEST_P(ExchangeOfTwo, ComputesWhatOneRankDoes) {
  const Distances d = two_ranks(model(GetParam()), 0);
  EXPECT_LT(d.y, 1e-6);
  EXPECT_LT(d.dx, 1e-6);
  EXPECT_LT(d.gradients, 2e-6);
}

TEST_P(ExchangeOfTwo, DoesNotWithoutEitherSum) {
  const Distances forward = two_ranks(model(GetParam()), 1), backward = two_ranks(model(GetParam()), 2);
  EXPECT_GT(forward.y, 1e-2);
  EXPECT_LT(backward.y, 1e-6);
  EXPECT_GT(backward.dx, 1e-2);
}

/// The 18 rows are divided equally, unequally, and into one chunk for each row.
TEST_P(ExchangeOfTwo, ComputesTheSameBitsInChunks) {
  const Distances one = two_ranks(model(GetParam()), 0);
  for (const int64_t chunks : {int64_t{2}, int64_t{5}, kBatch * kSeq})
    EXPECT_EQ(two_ranks(model(GetParam()), 0, chunks).bits, one.bits) << chunks;
}

INSTANTIATE_TEST_SUITE_P(Models, ExchangeOfTwo, ::testing::Values("gpt2", "gemma"),
                         [](const auto& name) { return std::string(name.param); });

/// Records its calls and moves nothing. All rows take kAllRows bytes. Backwards are measured a second
/// time, as they add to gradients, which is not recorded.
class Notes : public nn::Exchange {
 public:
  static constexpr int64_t kAllRows = 1 << 20;

  void* take_rows(const nn::Context& ctx, int64_t) const override { return ctx.workspace->take(kAllRows); }
  void gather_rows(const nn::Context& ctx, void*, const void*, DType type, int64_t width) const override {
    note(ctx, &gathered, ctx.rows() * width * dtype_bytes(type));
  }
  void begin_sum(const nn::Context& ctx, float*, float*, int64_t begin, int64_t end,
                 int64_t width) const override {
    note(ctx, &summed, (end - begin) * width);
  }
  void sum(const nn::Context& ctx, void*, DType, int64_t elements) const override {
    note(ctx, &summed, elements);
  }

  mutable int64_t gathered = 0, summed = 0;

 private:
  static void note(const nn::Context& ctx, int64_t* sum, int64_t count) {
    if (!ctx.accumulate) *sum += count;
  }
};

TEST(ExchangeInADryRun, SeesEveryTransferAndItsWorkspaceCounts) {
  const nn::Model whole(model("gemma"));
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const int64_t elements = 3 * 16 * whole.config().width;
  for (const DType type : {DType::kF32, DType::kBf16}) {
    const Notes notes;
    const nn::ModelCosts with = nn::measure_costs(whole, kernels, 2, type, 3, 16, true, false, notes);
    const nn::ModelCosts alone = nn::measure_costs(whole, kernels, 2, type, 3, 16, true);
    // The inputs of two branches in forward and in backward, and the gradients of their outputs; then the
    // rows that loss, evaluation and logits read, and those whose gradient goes to the embedding's table.
    EXPECT_EQ(notes.gathered, 6 * elements * dtype_bytes(type) + 4 * elements * dtype_bytes(DType::kF32));
    // A block's two branches in both directions; then the embedding's rows, the head's gradient, and the rows
    // of logits.
    EXPECT_EQ(notes.summed, (2 + 2 + 1 + 1) * elements + 3 * 16 * whole.config().vocab_size);
    EXPECT_LT(alone.block_forward[0].workspace, Notes::kAllRows);
    // The input and the addends of one branch after the other.
    EXPECT_GE(with.block_forward[0].workspace, 2 * Notes::kAllRows);
    EXPECT_LT(with.block_forward[0].workspace, 3 * Notes::kAllRows);
    EXPECT_GE(with.block_backward[0].workspace, 3 * Notes::kAllRows);  // and the gradient of the output
    EXPECT_EQ(with.block_forward[0].saved, alone.block_forward[0].saved);
    EXPECT_EQ(with.block_forward[0].flops, alone.block_forward[0].flops);
  }
}

}  // namespace exchange_test
}  // namespace hawser::testing
