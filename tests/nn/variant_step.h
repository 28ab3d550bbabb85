// VariantStep: a training step of a model variant, module by module, in regions of exactly the size that the
// dry run measured.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/nn/model.h"
#include "engine/nn/rope_table.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/test_stream.h"
#include "tests/nn/model_memory.h"
#include "tests/nn/model_variants.h"

namespace hawser::testing {

using Gradients = std::map<std::string, std::vector<float>>;  // keyed by parameter name

/// Runs forward, loss and backward of one variant's global batch through the modules.
class VariantStep {
 public:
  /// `form`: with halves, all weight passes of a micro-batch follow all input passes. Arrays that are
  /// recomputed are overwritten in between.
  VariantStep(const ModelVariant& variant, const std::vector<std::string>& frozen,
              const kernels::KernelTable& kernels, nn::WeightTypes types, const nn::BackwardForm& form = {},
              int64_t tile_rows = 1)
      : form_(form),
        variant_(variant),
        model_(resolve_variant(variant).model, true, frozen, 1, resolve_variant(variant).moe, 1, tile_rows),
        stream_(kWorkers),
        memory_(model_.table(),
                variant_weights(model_.table(), model_.config().norm_weight_offset, variant.new_adapter,
                                types.product),
                types.product, kernels, stream_),
        costs_(nn::measure_costs(model_, kernels, kWorkers, types, variant.micro_batch, variant.sequence,
                                 true, false, nn::kAlone, nn::kAllColumns, nullptr, form)),
        batch_(variant_batch(variant, model_.config().vocab_size)),
        rope_(static_cast<size_t>(nn::rope_table_size(model_.config(), variant.sequence))),
        positions_(batch_.tokens.size()),
        samples_(static_cast<size_t>(batch_.rows)),
        tied_sizes_{model_.config().vocab_size, model_.config().width, variant.micro_batch * variant.sequence,
                    variant.grad_accum_steps},
        tied_memory_(static_cast<size_t>(nn::LookupGradient::bytes(tied_sizes_) / 4)),
        tied_(tied_memory_.data(), tied_memory_.data(), tied_sizes_) {
    if (!rope_.empty()) nn::fill_rope_table(rope_.data(), model_.config(), variant.sequence);
    std::iota(samples_.begin(), samples_.end(), 0);
    for (size_t i = 0; i < positions_.size(); ++i) {
      const auto column = static_cast<int32_t>(static_cast<int64_t>(i) % variant.sequence);
      positions_[i] = variant.documents ? column - batch_.document_begin[i] : column;
    }
    ctx_.kernels = &kernels, ctx_.stream = &stream_;
    ctx_.batch = variant.micro_batch, ctx_.seq = variant.sequence;
    ctx_.type = types.product, ctx_.residual_type = types.residual;
    ctx_.groups = memory_.groups();
    ctx_.training = true;
    ctx_.remakes = form.remakes, ctx_.compress = form.compress;
    ctx_.seed = 9;
  }

  Gradients run() {
    for (int64_t mb = 0; mb < variant_.grad_accum_steps; ++mb) micro_batch(mb);
    const auto last = static_cast<int32_t>(variant_.grad_accum_steps - 1);
    if (model_.trains_shared_table())
      call({}, [&](const nn::Context& c) { model_.embedding().join(c, tied_, last); });
    Gradients gradients;
    for (const nn::Parameter& p : model_.table().all()) {
      const auto begin = memory_.gradients().begin() + memory_.layout().at(p);
      if (p.trainable) gradients[p.name].assign(begin, begin + p.size);
    }
    return gradients;
  }
  /// True if anything was written where a frozen parameter group's gradients would be.
  bool wrote_frozen() {
    for (size_t g = 0; g < model_.table().groups().size(); ++g) {
      const nn::ParameterGroup& group = model_.table().groups()[g];
      const auto begin = memory_.gradients().begin() + memory_.layout().begin(g);
      if (!group.trainable && std::any_of(begin, begin + group.elements, [](float v) { return v != 0; }))
        return true;
    }
    return false;
  }
  /// Returns the elements of the gradient after the parameter, as many as Parameter::zeros.
  std::vector<float> gradient_behind(const nn::Parameter& p) {
    const auto begin = memory_.gradients().begin() + memory_.layout().at(p) + p.room;
    return {begin, begin + p.zeros};
  }
  const nn::Model& model() const { return model_; }
  const nn::ModelCosts& costs() const { return costs_; }

 private:
  static constexpr int32_t kWorkers = 2;

  template <class Call>
  void call(const nn::CallCost& cost, Call fn) {
    GuardedBuffer<char> workspace(cost.workspace);
    nn::Region region(workspace.data(), cost.workspace);
    ctx_.workspace = &region;
    fn(ctx_);
    EXPECT_EQ(region.high(), cost.workspace) << "the dry run measured another step";
    EXPECT_TRUE(workspace.intact());
  }

  void micro_batch(int64_t mb) {
    const int64_t rows = variant_.micro_batch * variant_.sequence;
    const auto first = static_cast<size_t>(mb * rows),
               residual = static_cast<size_t>(rows * model_.config().width);
    ctx_.tokens_BT = batch_.tokens.data() + first, ctx_.targets_BT = batch_.targets.data() + first;
    ctx_.positions_BT = positions_.data() + first;
    ctx_.kv_begin_BT = variant_.documents ? batch_.document_begin.data() + first : nullptr;
    ctx_.samples_B = samples_.data() + mb * variant_.micro_batch;
    ctx_.accumulate = mb > 0;

    const size_t layers = costs_.block_forward.size();
    std::vector<std::vector<float>> x(layers + 1, std::vector<float>(residual));
    call(costs_.embedding_forward, [&](const nn::Context& c) { model_.embedding().forward(c, x[0].data()); });
    memory_of_.clear();
    branch_.resize(static_cast<size_t>(costs_.branch));
    for (size_t l = 0; l < layers; ++l) forward(l, &x);
    std::vector<float> losses(static_cast<size_t>(rows)), dx(residual);
    const float grad_scale = 0.1f;
    call(branch_.empty() ? costs_.loss : costs_.loss_of_sum, [&](const nn::Context& c) {
      model_.head().forward_backward(c, losses.data(), dx.data(), input(c, layers, &x), &grad_scale);
    });
    if (nn::Block::reads_rounded(*ctx_.kernels, model_.config(), ctx_.type)) {
      rounded_.resize(residual);
      call(costs_.round_dx, [&](const nn::Context& c) {
        nn::Block::round(c, {dx.data(), rounded_.data()}, model_.config().width);
      });
    }
    for (size_t l = layers; l-- > 0;) backward(l, &x, &dx);
    for (size_t l = layers; form_.halves && l-- > 0;) backward_weight(l);
    const bool tied = model_.trains_shared_table();
    const auto number = static_cast<int32_t>(mb);
    if (tied)
      tied_.look_up(number, ctx_.tokens_BT, rows, static_cast<int32_t>(model_.config().padding_token));
    call(costs_.embedding_backward, [&](const nn::Context& c) {
      model_.embedding().backward(c, dx.data(), tied ? &tied_ : nullptr, number);
    });
  }

  /// Memory of exactly the size that the dry run measured.
  struct Exact {
    explicit Exact(int64_t bytes) : memory(bytes), bytes(bytes) {}
    nn::Region region() { return nn::Region(memory.data(), bytes); }
    void spoil() { std::fill_n(memory.data(), bytes, '\x7f'); }
    GuardedBuffer<char> memory;
    int64_t bytes;
  };

  struct LayerMemory {
    LayerMemory(const nn::CallCost& forward, bool halves, int64_t made)
        : saved(forward.saved - (halves ? forward.kept : 0)),
          kept(halves ? forward.kept : 0),
          remade(forward.remade - (halves ? forward.remade_kept : 0)),
          remade_kept(halves ? forward.remade_kept : 0),
          made(made),
          halves(halves) {}
    nn::BlockRegions regions() {
      return {saved.region(), kept.region(), remade.region(), remade_kept.region(), made.region(), halves};
    }
    bool intact() const {
      return saved.memory.intact() && kept.memory.intact() && remade.memory.intact() &&
             remade_kept.memory.intact() && made.memory.intact();
    }
    Exact saved, kept, remade, remade_kept, made;
    bool halves;
  };

  const float* rope(size_t l) const {
    return rope_.data() + nn::rope_table_begin(model_.config(), static_cast<int64_t>(l), variant_.sequence);
  }
  const nn::Block& block(size_t l) const { return model_.block(static_cast<int64_t>(l)); }

  void forward(size_t l, std::vector<std::vector<float>>* x) {
    memory_of_.push_back(std::make_unique<LayerMemory>(
        costs_.block_forward[l], form_.halves, form_.halves ? costs_.block_backward_input[l].made : 0));
    nn::BlockRegions regions = memory_of_[l]->regions();
    const bool defers = !branch_.empty();
    call(!defers ? costs_.block_forward[l] : costs_.block_forward_deferring[l == 0 ? 1 : 2][l],
         [&](const nn::Context& c) {
           block(l).forward(c, regions, rope(l), (*x)[l + 1].data(), input(c, l, x),
                            defers ? branch_.data() : nullptr);
         });
    EXPECT_EQ(regions.saved.high(), memory_of_[l]->saved.bytes);
    EXPECT_EQ(regions.remade.high(), memory_of_[l]->remade.bytes);
    memory_of_[l]->remade.spoil(), memory_of_[l]->remade_kept.spoil();
  }

  /// Returns the input of a block, or of the head: x, or the last sum that the block below left. Its
  /// addend x' is where that block stored it.
  nn::StreamInput input(const nn::Context& c, size_t l, std::vector<std::vector<float>>* x) {
    float* const own = (*x)[l].data();
    if (branch_.empty() || l == 0) return own;
    const void* const saved = memory_of_[l - 1]->saved.memory.data();
    return block(l - 1).last_sum(c, own, form_.remakes.rest ? own : saved, branch_.data());
  }

  /// Overwrites memory that only the input pass may use, before the weight pass.
  void backward(size_t l, std::vector<std::vector<float>>* x, std::vector<float>* dx) {
    LayerMemory& m = *memory_of_[l];
    if (form_.remakes.any()) {
      nn::BlockRegions regions = m.regions();
      call(costs_.block_recompute[l],
           [&](const nn::Context& c) { block(l).recompute(c, regions, rope(l), nullptr, (*x)[l].data()); });
    }
    nn::BlockRegions regions = m.regions();
    const nn::StreamGradient both(dx->data(), rounded_.empty() ? nullptr : rounded_.data());
    const nn::CallCost& cost = form_.halves ? costs_.block_backward_input[l] : costs_.block_backward[l];
    call(cost, [&](const nn::Context& c) {
      if (form_.halves)
        block(l).backward_input(c, regions, rope(l), both, (*x)[l].data());
      else
        block(l).backward(c, regions, rope(l), both, (*x)[l].data());
    });
    EXPECT_EQ(regions.made.high(), m.made.bytes);
    EXPECT_TRUE(m.intact());
    m.saved.spoil(), m.remade.spoil();
    std::fill((*x)[l].begin(), (*x)[l].end(), -1e30f);
  }

  void backward_weight(size_t l) {
    nn::BlockRegions regions = memory_of_[l]->regions();
    call(costs_.block_backward_weight[l],
         [&](const nn::Context& c) { block(l).backward_weight(c, regions); });
    EXPECT_TRUE(memory_of_[l]->intact());
  }

  const nn::BackwardForm form_;
  std::vector<char> branch_;       // output of a block that left its last sum; else empty
  std::vector<uint16_t> rounded_;  // dx in bf16; empty if blocks round it
  std::vector<std::unique_ptr<LayerMemory>> memory_of_;  // by layer
  const ModelVariant& variant_;
  nn::Model model_;
  SerialStream stream_;
  ModelMemory memory_;
  nn::ModelCosts costs_;
  ReferenceBatch batch_;
  std::vector<float> rope_;
  std::vector<int32_t> positions_;
  std::vector<uint64_t> samples_;
  nn::LookupGradient::Sizes tied_sizes_;
  std::vector<int32_t> tied_memory_;
  nn::LookupGradient tied_;
  nn::Context ctx_;
};

}  // namespace hawser::testing
