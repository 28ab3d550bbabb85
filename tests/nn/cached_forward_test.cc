// Tests that generation through the key-value caches, in pieces of any size, equals one forward over the full
// text: the residual stream after every block of every variant is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "engine/nn/model.h"
#include "engine/nn/rope_table.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"
#include "tests/nn/model_memory.h"
#include "tests/nn/model_variants.h"

namespace hawser::testing {
namespace cached_forward_test {

/// Runs one text of `seq` tokens through the model, at once or through caches.
class TextRun {
 public:
  TextRun(const nn::Model& model, const kernels::KernelTable& kernels, nn::WeightTypes types, int64_t seq)
      : model_(model),
        stream_(2),
        seq_(seq),
        width_(model.config().width),
        weights_(model.table(), variant_weights(model.table(), model.config().norm_weight_offset),
                 types.product, kernels, stream_),
        rope_(static_cast<size_t>(nn::rope_table_size(model.config(), seq))),
        positions_(static_cast<size_t>(seq)),
        memory_(1 << 22) {
    if (!rope_.empty()) nn::fill_rope_table(rope_.data(), model.config(), seq);
    std::iota(positions_.begin(), positions_.end(), 0);
    for (int64_t t = 0; t < seq; ++t)
      tokens_.push_back(static_cast<int32_t>((t * t + 1) % model.config().vocab_size));
    ctx_.kernels = &kernels;
    ctx_.stream = &stream_;
    ctx_.batch = 1;
    ctx_.type = types.product, ctx_.residual_type = types.residual;
    ctx_.groups = weights_.groups();
  }

  const float* rope_of(int64_t layer) const {
    return rope_.data() + nn::rope_table_begin(model_.config(), layer, seq_);
  }
  /// Returns x[seq, width] after the last block.
  std::vector<float> whole() {
    std::vector<char> x = stream(), y = x;
    std::vector<char> saved(1 << 22);
    embed(x.data(), 0, seq_);
    for (int64_t l = 0; l < model_.config().layers; ++l) {
      nn::BlockRegions region{.saved = {saved.data(), static_cast<int64_t>(saved.size())}};
      nn::Region workspace = scratch();
      ctx_.workspace = &workspace;
      model_.block(l).forward(ctx_, region, rope_of(l), y.data(), x.data());
      std::swap(x, y);
    }
    return floats(x);
  }

  std::vector<float> in_pieces(int64_t piece) {
    const int64_t bytes = seq_ * nn::cached_bytes(model_.local(), ctx_.type);
    std::vector<std::vector<char>> caches(static_cast<size_t>(model_.config().layers),
                                          std::vector<char>(static_cast<size_t>(bytes), '\xff'));  // NaN
    std::vector<char> x = stream();
    for (int64_t begin = 0; begin < seq_; begin += piece) {
      void* const rows = nn::advance(x.data(), begin * width_, ctx_.residual_type);
      embed(rows, begin, std::min(piece, seq_ - begin));
      for (int64_t l = 0; l < model_.config().layers; ++l) {
        nn::Region workspace = scratch();
        ctx_.workspace = &workspace;
        model_.block(l).forward_cached(ctx_, {caches[static_cast<size_t>(l)].data(), bytes, begin},
                                       rope_of(l), rows);
      }
    }
    return floats(x);
  }

 private:
  nn::Region scratch() {
    std::fill(memory_.begin(), memory_.end(), static_cast<char>(0xff));
    return nn::Region(memory_.data(), static_cast<int64_t>(memory_.size()));
  }
  std::vector<char> stream() const {
    return std::vector<char>(static_cast<size_t>(seq_ * width_ * dtype_bytes(ctx_.residual_type)));
  }
  std::vector<float> floats(const std::vector<char>& x) {
    std::vector<float> wide(static_cast<size_t>(seq_ * width_));
    ctx_.kernels->convert({wide.data(), x.data(), DType::kF32, ctx_.residual_type, seq_ * width_}, stream_);
    return wide;
  }
  void embed(void* x, int64_t begin, int64_t rows) {
    ctx_.seq = rows;
    ctx_.tokens_BT = tokens_.data() + begin;
    ctx_.positions_BT = positions_.data() + begin;
    nn::Region workspace = scratch();
    ctx_.workspace = &workspace;
    model_.embedding().forward(ctx_, x);
  }

  const nn::Model& model_;
  SerialStream stream_;
  int64_t seq_, width_;
  ModelMemory weights_;
  std::vector<float> rope_;
  std::vector<int32_t> positions_, tokens_;
  std::vector<char> memory_;
  nn::Context ctx_;
};

class CachedForward : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(CachedForward, InPiecesOfAnySizeEqualsOneForward) {
  const nn::Model model(resolve_variant(GetParam()).model);
  for (const kernels::KernelTable* kernels : kernel_tables()) {
    for (const nn::WeightTypes& types : {nn::WeightTypes(DType::kF32), nn::WeightTypes(DType::kBf16),
                                         nn::WeightTypes(DType::kBf16, DType::kF32, {}, DType::kBf16)}) {
      TextRun run(model, *kernels, types, model.config().context);
      const std::vector<float> expected = run.whole();
      for (const int64_t piece : {int64_t{1}, int64_t{3}, model.config().context}) {
        const std::vector<float> x = run.in_pieces(piece);
        double difference = 0, norm = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          const double e = static_cast<double>(expected[i]), d = static_cast<double>(x[i]) - e;
          difference += d * d, norm += e * e;
        }
        // In bf16, operands that differ in their last fp32 bits are sometimes rounded to different
        // neighbours.
        EXPECT_LE(std::sqrt(difference / norm), types.product == DType::kF32 ? 1e-6 : 3e-3)
            << kernels->name << ", pieces of " << piece;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, CachedForward, ::testing::ValuesIn(model_variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace cached_forward_test
}  // namespace hawser::testing
