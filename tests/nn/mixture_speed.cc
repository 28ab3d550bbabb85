// Benchmark of a mixture of experts against a dense MLP with equal active FLOPs: forward and backward of the
// branch, as the best of several alternating runs, and the fraction of time spent routing and moving rows. It
// uses several numbers of rows for each expert, and one hot expert.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "engine/device/cpu/thread_pool.h"
#include "engine/nn/branch_sum.h"
#include "engine/nn/feed_forward.h"
#include "engine/nn/model.h"
#include "kernels/include/each_kernel.h"
#include "kernels/include/levels.h"

namespace {

using namespace hawser;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds in kernels that route and move rows, since the last `take`.
double g_moving = 0;
const kernels::KernelTable* g_real = nullptr;

template <auto kKernel, class Args>
void timed(const Args& args, Stream& stream) {
  const auto begin = Clock::now();
  (g_real->*kKernel)(args, stream);
  g_moving += seconds_since(begin);
}

kernels::KernelTable with_timed_routing(const kernels::KernelTable& real) {
  using T = kernels::KernelTable;
  T table = real;
  g_real = &real;
  table.router_forward = timed<&T::router_forward, kernels::RouterForward>;
  table.router_backward = timed<&T::router_backward, kernels::RouterBackward>;
  table.router_statistics = timed<&T::router_statistics, kernels::RouterStatistics>;
  table.router_tally = timed<&T::router_tally, kernels::RouterTally>;
  table.group_rows = timed<&T::group_rows, kernels::GroupRows>;
  table.gather_rows = timed<&T::gather_rows, kernels::GatherRows>;
  table.combine_rows = timed<&T::combine_rows, kernels::CombineRows>;
  return table;
}

/// One branch with memory of its own.
class Branch {
 public:
  Branch(const nn::ModelConfig& model, const kernels::KernelTable& table, Stream& stream, DType type,
         int64_t rows, bool hot)
      : model_(model), nn_(model), type_(type) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0f, 0.02f);
    const auto fill = [&](std::vector<float>* x) {
      for (float& value : *x) value = normal(random);
    };
    for (const nn::ParameterGroup& g : nn_.table().groups()) {
      weights_.emplace_back(static_cast<size_t>(g.elements));
      fill(&weights_.back());
      gradients_.emplace_back(static_cast<size_t>(g.trainable ? g.elements : 0));
    }
    if (hot)  // routes all rows to the first top_k experts, by the sign of their first feature
      if (const nn::Parameter* p = nn_.table().find("blocks.0.moe.router.weight"))
        for (int64_t e = 0; e < model.moe.experts; ++e)
          weights_[static_cast<size_t>(p->group)][static_cast<size_t>(p->offset + e * model.width)] =
              e < model.moe.top_k ? 9.0f : -9.0f;
    for (size_t g = 0; g < weights_.size(); ++g) {
      narrow_.emplace_back(weights_[g].size());
      const bool narrow = type == DType::kBf16 && nn_.table().groups()[g].read == nn::Read::kProduct;
      if (narrow)
        table.convert({narrow_[g].data(), weights_[g].data(), DType::kBf16, DType::kF32,
                       static_cast<int64_t>(weights_[g].size())},
                      stream);
      groups_.push_back({narrow ? reinterpret_cast<const char*>(narrow_[g].data())
                                : reinterpret_cast<const char*>(weights_[g].data()),
                         gradients_[g].data()});
    }
    x_.resize(static_cast<size_t>(rows * model.width)), dy_ = y_ = dx_ = x_;
    fill(&x_), fill(&dy_);
    for (float& value : x_) value *= 50;
    for (int64_t r = 0; r < rows; ++r) x_[static_cast<size_t>(r * model.width)] = 1.0f;
    in_.resize(x_.size());
    table.convert({in_.data(), x_.data(), DType::kBf16, DType::kF32, static_cast<int64_t>(x_.size())},
                  stream);
    ctx_.kernels = &table, ctx_.stream = &stream;
    ctx_.batch = 1, ctx_.seq = rows;
    ctx_.type = type;
    ctx_.groups = groups_.data();
    ctx_.training = true;
    const nn::ModelCosts costs = nn::measure_costs(nn_, table, stream.num_workers, type, 1, rows, true);
    saved_.resize(static_cast<size_t>(costs.block_forward[0].saved));
    workspace_.resize(2 * static_cast<size_t>(
                              std::max(costs.block_forward[0].workspace, costs.block_backward[0].workspace)));
    branch_.emplace(nn_.table(), nn_.local(), nn::MoeTraining{.aux_loss = 0.01, .z_loss = 0.001}, 0);
  }

  void run() {
    nn::Region saved_region(saved_.data(), std::ssize(saved_)),
        workspace(workspace_.data(), std::ssize(workspace_));
    ctx_.workspace = &workspace;
    nn::GatheredRows x(type_ == DType::kBf16 ? static_cast<const void*>(in_.data()) : x_.data()),
        dy(dy_.data());
    const nn::FeedForwardSaved saved = branch_->take_saved(ctx_, saved_region, saved_region);
    const nn::BranchSum y(ctx_, y_.data(), branch_->y_type(ctx_), model_.width),
        dx(ctx_, dx_.data(), branch_->dx_type(ctx_), model_.width);
    branch_->forward(ctx_, saved, &y, &x);
    nn::FeedForwardMade made;
    branch_->take_weight_pass_inputs(ctx_, workspace, &made);
    branch_->take_activation(ctx_, saved, workspace, &made);
    branch_->backward_input(ctx_, saved, made, dx, &dy, DType::kF32);
    branch_->backward_down_weight(ctx_, saved, made, dy_.data(), DType::kF32);
    branch_->backward_up_weight(ctx_, saved, made, x.all(ctx_));
  }

 private:
  nn::ModelConfig model_;
  nn::Model nn_;
  DType type_;
  std::vector<std::vector<float>> weights_, gradients_;
  std::vector<std::vector<uint16_t>> narrow_;
  std::vector<nn::GroupPointers> groups_;
  std::vector<float> x_, y_, dx_, dy_;
  std::vector<uint16_t> in_;
  std::vector<char> saved_, workspace_;
  nn::Context ctx_;
  std::optional<nn::FeedForward> branch_;
};

nn::ModelConfig model_of(int64_t width, int64_t experts, int64_t top_k, int64_t features) {
  nn::ModelConfig m;
  m.vocab_size = 16, m.context = 16, m.layers = 1, m.width = width, m.heads = m.kv_heads = 1, m.head_dim = 16;
  m.norm = nn::Norm::kRmsNorm, m.mlp = nn::MlpKind::kSwiGlu, m.position = nn::Position::kNone;
  m.attention_scale = 1, m.window = {0}, m.tied_head = true, m.bias = {};
  m.mlp_width = top_k * features;
  if (experts == 0) return m;
  m.moe = {.experts = experts, .top_k = top_k, .width = features, .layers = {{true}}};
  m.moe.normalize = true, m.moe.scale = 1, m.moe.groups = m.moe.top_groups = 1;
  return m;
}

struct Size {
  int64_t width, experts, top_k, features, rows;
  bool hot = false;
};

void compare(const Size& s, DType type, int32_t threads) {
  device::ThreadPool pool(threads);
  const kernels::KernelTable& real = kernels::cpu_kernels(kernels::best_cpu_level());
  const kernels::KernelTable table = with_timed_routing(real);
  Branch dense(model_of(s.width, 0, s.top_k, s.features), table, pool.stream(), type, s.rows, false);
  Branch sparse(model_of(s.width, s.experts, s.top_k, s.features), table, pool.stream(), type, s.rows, s.hot);
  double best_dense = 1e9, best_sparse = 1e9, moving = 0;
  for (int i = 0; i < 9; ++i) {
    auto begin = Clock::now();
    dense.run();
    best_dense = std::min(best_dense, seconds_since(begin));
    g_moving = 0;
    begin = Clock::now();
    sparse.run();
    const double seconds = seconds_since(begin);
    if (seconds < best_sparse) best_sparse = seconds, moving = g_moving;
  }
  const double flops =
      18.0 * static_cast<double>(s.rows * s.top_k) * static_cast<double>(s.width * s.features);
  std::printf(
      "%s C %5ld E %3ld k %ld F %5ld rows %5ld (%4ld an expert%s)  dense %6.1f GFLOP/s  sparse %6.1f: %5.1f "
      "%%"
      "  routing and moving %4.1f %%\n",
      type == DType::kF32 ? "fp32" : "bf16", static_cast<long>(s.width), static_cast<long>(s.experts),
      static_cast<long>(s.top_k), static_cast<long>(s.features), static_cast<long>(s.rows),
      static_cast<long>(s.rows * s.top_k / s.experts), s.hot ? ", hot" : "", 1e-9 * flops / best_dense,
      1e-9 * flops / best_sparse, 100 * best_dense / best_sparse, 100 * moving / best_sparse);
}

}  // namespace

int main(int argc, char** argv) {
  const int32_t threads = argc > 1 ? std::atoi(argv[1]) : 2;
  for (const DType type : {DType::kF32, DType::kBf16})
    for (const Size& s :
         {Size{1024, 8, 2, 1792, 512}, Size{1024, 16, 2, 1024, 1024}, Size{1024, 16, 2, 1024, 4096},
          Size{768, 64, 8, 384, 1024}, Size{768, 64, 8, 384, 2048}, Size{1024, 16, 2, 1024, 1024, true},
          Size{512, 64, 4, 256, 64}})
      compare(s, type, threads);
  return 0;
}
