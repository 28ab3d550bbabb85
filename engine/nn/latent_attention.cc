#include "engine/nn/latent_attention.h"

#include <fmt/format.h>

namespace hawser::nn {
namespace {

std::string latent_at(int64_t layer, const char* name) {
  return fmt::format("blocks.{}.attention.{}", layer, name);
}

/// Copies rows of n elements from x to y, which may have another type and another stride.
void copy_rows(const Context& ctx, void* y, DType y_type, int64_t y_stride, const void* x, DType x_type,
               int64_t x_stride, int64_t n) {
  kernels::Convert copy;
  copy.y = y, copy.y_stride = y_stride;
  copy.x = x, copy.x_stride = x_stride;
  copy.y_type = y_type, copy.x_type = x_type;
  copy.rows = ctx.rows(), copy.n = n;
  ctx.kernels->convert(copy, *ctx.stream);
}

std::vector<std::string> down_names(const ModelConfig& model, int64_t layer) {
  if (model.latent.q_rank == 0) return {latent_at(layer, "kv_a")};
  return {latent_at(layer, "q_a"), latent_at(layer, "kv_a")};
}

}  // namespace

LatentAttention::LatentAttention(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : model_(model),
      q_rank_(model.latent.q_rank),
      kv_rank_(model.latent.kv_rank),
      rope_dim_(model.latent.rope_dim),
      own_(model.head_dim - rope_dim_),
      q_width_(model.heads * model.head_dim),
      key_width_(q_width_),
      kv_width_(key_width_ + model.heads * model.latent.value_dim),
      down_width_(q_rank_ + kv_rank_ + rope_dim_),
      down_(table, down_names(model, layer)),
      q_(table, {latent_at(layer, q_rank_ > 0 ? "q_b" : "q")}),
      kv_up_(table, {latent_at(layer, "kv_b")}),
      out_(table, {latent_at(layer, "o")}),
      core_(table, model, layer),
      kv_norm_(table, model, latent_at(layer, "kv_a_norm"), true, model.latent.norm_eps) {
  if (q_rank_ > 0) q_norm_.emplace(table, model, latent_at(layer, "q_a_norm"), true, model.latent.norm_eps);
}

LatentSaved LatentAttention::take_saved(const Context& ctx, Region& inputs, Region& core,
                                        Region& kept) const {
  const int64_t rows = ctx.rows();
  LatentSaved saved;
  saved.core = core_.take_saved(ctx, core, kept);
  saved.down = saved_rows(ctx, down_width_).take(ctx, inputs);
  if (q_norm_) saved.q_norm = q_norm_->take_saved(inputs, rows);
  saved.kv_norm = kv_norm_.take_saved(inputs, rows);
  if (saved.core.exchanged != nullptr) return saved;
  saved.q = saved_rows(ctx, q_width_).take(ctx, inputs);
  saved.kv = saved_rows(ctx, kv_width_).take(ctx, inputs);
  return saved;
}

LatentSaved LatentAttention::moved(const Context& ctx, const LatentSaved& saved, Move move) const {
  LatentSaved moved = saved;
  moved.down = (saved_rows(ctx, down_width_).*move)(ctx, saved.down);
  moved.q = (saved_rows(ctx, q_width_).*move)(ctx, saved.q);
  moved.kv = (saved_rows(ctx, kv_width_).*move)(ctx, saved.kv);
  moved.core.o = (core_.output(ctx).*move)(ctx, saved.core.o);
  return moved;
}

AttentionInputs LatentAttention::core_inputs(const Context& ctx, const void* q, const void* kv) const {
  return {q, kv, kv == nullptr ? nullptr : advance(kv, key_width_, ctx.type), q_width_, kv_width_};
}

/// Returns the inputs of the core. If a ring carries compressed rows and shared keys, both are copied to the
/// workspace, the shared keys after the rows.
AttentionInputs LatentAttention::ring_inputs(const Context& ctx, const LatentSaved& saved) const {
  AttentionInputs in = core_inputs(ctx, saved.q, saved.kv);
  if (!in_ring(ctx)) return in;
  in.maker = this;
  in.source = ctx.take(ctx.rows() * width());
  compress_keys(ctx, saved, in.source);
  copy_rows(ctx, advance(in.source, ctx.rows() * kv_rank_, ctx.type), ctx.type, rope_dim_,
            advance(saved.down, q_rank_ + kv_rank_, ctx.type), ctx.type, down_width_, rope_dim_);
  return in;
}

void LatentAttention::make(const Context& ctx, void* kv, const void* source, int64_t rows) const {
  make_keys(ctx, kv, source, advance(source, rows * kv_rank_, ctx.type), rope_dim_, rows);
}

void LatentAttention::backward(const Context& ctx, float* d_source, const void* source, const float* dkv,
                               int64_t rows, bool adds, bool first) const {
  RegionScope scope(*ctx.workspace);
  const int64_t shared = rows * rope_dim_;
  void* const narrow = ctx.take(rows * kv_width_);
  ctx.kernels->convert({narrow, dkv, ctx.type, DType::kF32, rows * kv_width_}, *ctx.stream);
  kernels::LatentKeysBackward k;
  k.s = shape(ctx, rows, rope_dim_);
  k.d_up = ctx.take(rows * kv_up_.out()), k.d_shared = ctx.take(shared);
  k.dk = narrow, k.dv = advance(narrow, key_width_, ctx.type);
  ctx.kernels->latent_keys_backward(k, *ctx.stream);
  float* const to = d_source + rows * kv_rank_;
  float* const part = adds ? ctx.workspace->take_as<float>(shared) : to;
  ctx.kernels->convert({part, k.d_shared, DType::kF32, ctx.type, shared}, *ctx.stream);
  if (adds) ctx.kernels->add({to, to, part, shared}, *ctx.stream);
  kv_up_.backward_input(ctx, d_source, DType::kF32, k.d_up, ctx.type, rows, adds);
  Context weights = ctx;
  weights.accumulate = ctx.accumulate || !first;
  kv_up_.backward_weight(weights, k.d_up, ctx.type, source, rows);
}

/// Rotates rope_dim elements from x on in each head.
void LatentAttention::rotate(const Context& ctx, const float* cos_sin, void* x, int64_t heads, int64_t stride,
                             bool inverse) const {
  kernels::Rope r;
  r.x = x;
  r.cos_sin = cos_sin;
  r.positions = ctx.positions_BT;
  r.type = ctx.type;
  r.rows = ctx.rows(), r.heads = heads, r.d = rope_dim_, r.stride = stride;
  r.head_stride = model_.head_dim;
  r.inverse = inverse, r.interleaved = model_.latent.interleaved;
  ctx.kernels->rope(r, *ctx.stream);
}

kernels::LatentShape LatentAttention::shape(const Context& ctx, int64_t rows, int64_t shared_stride) const {
  kernels::LatentShape s;
  s.type = ctx.type;
  s.rows = rows, s.heads = model_.heads;
  s.own = own_, s.shared = rope_dim_, s.value = model_.latent.value_dim;
  s.shared_stride = shared_stride, s.kv_stride = kv_width_;
  return s;
}

void LatentAttention::compress_queries(const Context& ctx, const LatentSaved& saved, void* c_q) const {
  q_norm_->forward(ctx, saved.q_norm, c_q, ctx.type, q_rank_, saved.down, ctx.type,
                   {ctx.rows(), 1, down_width_});
}

void LatentAttention::compress_keys(const Context& ctx, const LatentSaved& saved, void* c_kv) const {
  kv_norm_.forward(ctx, saved.kv_norm, c_kv, ctx.type, kv_rank_, advance(saved.down, q_rank_, ctx.type),
                   ctx.type, {ctx.rows(), 1, down_width_});
}

void LatentAttention::project_queries(const Context& ctx, const LatentSaved& saved, const float* cos_sin,
                                      void* q, const void* x) const {
  RegionScope scope(*ctx.workspace);
  if (q_norm_) {
    void* const c_q = ctx.take(ctx.rows() * q_rank_);
    compress_queries(ctx, saved, c_q);
    x = c_q;
  }
  q_.forward(ctx, q, ctx.type, q_width_, x, ctx.rows());
  rotate(ctx, cos_sin, advance(q, own_, ctx.type), model_.heads, q_width_, false);
}

/// Computes keys and values of `rows` positions from their compressed rows and the shared keys, which are
/// already rotated.
void LatentAttention::make_keys(const Context& ctx, void* kv, const void* c_kv, const void* shared,
                                int64_t shared_stride, int64_t rows) const {
  RegionScope scope(*ctx.workspace);
  kernels::LatentKeys k;
  k.s = shape(ctx, rows, shared_stride);
  void* const up = ctx.take(rows * kv_up_.out());
  kv_up_.forward(ctx, up, ctx.type, kv_up_.out(), c_kv, rows);
  k.k = kv, k.v = advance(kv, key_width_, ctx.type);
  k.up = up, k.shared = shared;
  ctx.kernels->latent_keys(k, *ctx.stream);
}

void LatentAttention::forward(const Context& ctx, const LatentSaved& saved, const float* cos_sin,
                              const BranchSum& y, GatheredRows* x) const {
  RegionScope scope(*ctx.workspace);
  const LatentSaved all = moved(ctx, saved, &SavedRows::full);
  recompute(ctx, all, cos_sin, x, true);
  y.compute_forward(ctx, out_, all.core.o);
  saved_rows(ctx, down_width_).encode(ctx, saved.down, all.down);
  saved_rows(ctx, q_width_).encode(ctx, saved.q, all.q);
  saved_rows(ctx, kv_width_).encode(ctx, saved.kv, all.kv);
  core_.output(ctx).encode(ctx, saved.core.o, all.core.o);
}

void LatentAttention::recompute(const Context& ctx, LatentSaved saved, const float* cos_sin, GatheredRows* x,
                                bool attends) const {
  const int64_t rows = ctx.rows();
  RegionScope scope(*ctx.workspace);
  if (saved.q == nullptr) {
    saved.q = ctx.take(rows * q_width_);
    saved.kv = ctx.take(rows * kv_width_);
  }
  if (x != nullptr) {
    RegionScope of_rows(*ctx.workspace);
    x->compute(ctx, [&](const Context& part, int64_t first, const void* rows_of_x) {
      down_.forward(part, advance(saved.down, first * down_width_, ctx.type), ctx.type, down_width_,
                    rows_of_x, part.rows());
    });
    void* const shared = advance(saved.down, q_rank_ + kv_rank_, ctx.type);
    rotate(ctx, cos_sin, shared, 1, down_width_, false);
    void* const c_kv = ctx.take(rows * kv_rank_);
    compress_keys(ctx, saved, c_kv);
    make_keys(ctx, saved.kv, c_kv, shared, down_width_, rows);
    project_queries(ctx, saved, cos_sin, saved.q, x->all(ctx));
  }
  if (attends) core_.forward(ctx, saved.core, ring_inputs(ctx, saved));
}

LatentMade LatentAttention::take_weight_pass_inputs(const Context& ctx, Region& region) const {
  const auto take = [&](int64_t width) { return region.take(ctx.rows() * width * dtype_bytes(ctx.type)); };
  LatentMade made;
  made.dq = take(q_width_);
  made.d_down = take(down_width_);
  if (q_norm_) made.c_q = take(q_rank_);
  if (in_ring(ctx)) return made;
  made.d_up = take(kv_up_.out());
  made.c_kv = take(kv_rank_);
  return made;
}

/// Runs the backward of the output projection and the core, as far as the heads' queries and the sources of
/// their keys and values.
void LatentAttention::backward_core(const Context& ctx, const LatentSaved& saved, const float* cos_sin,
                                    const LatentMade& made, GatheredRows* dy, DType dy_type) const {
  const int64_t rows = ctx.rows();
  RegionScope scope(*ctx.workspace);
  void* const dkv = in_ring(ctx) ? nullptr : ctx.take(rows * kv_width_);
  {
    RegionScope of_output(*ctx.workspace);
    void* const d_o = ctx.take(rows * out_.in());
    dy->compute_input_gradient(ctx, out_, d_o, dy_type);
    if (in_ring(ctx)) return backward_ring(ctx, saved, cos_sin, made, d_o);
    core_.backward(ctx, saved.core, core_inputs(ctx, saved.q, saved.kv),
                   {made.dq, dkv, advance(dkv, key_width_, ctx.type)}, d_o);
  }
  rotate(ctx, cos_sin, advance(made.dq, own_, ctx.type), model_.heads, q_width_, true);
  kernels::LatentKeysBackward k;
  k.s = shape(ctx, rows, down_width_);
  k.d_up = made.d_up, k.d_shared = advance(made.d_down, q_rank_ + kv_rank_, ctx.type);
  k.dk = dkv, k.dv = advance(dkv, key_width_, ctx.type);
  ctx.kernels->latent_keys_backward(k, *ctx.stream);
  rotate(ctx, cos_sin, k.d_shared, 1, down_width_, true);
}

/// As backward_core, for a ring that returns the gradients of the local compressed rows and shared keys; also
/// runs the backward of their norm.
void LatentAttention::backward_ring(const Context& ctx, const LatentSaved& saved, const float* cos_sin,
                                    const LatentMade& made, const void* d_o) const {
  const int64_t rows = ctx.rows();
  auto* const d_source = ctx.workspace->take_as<float>(rows * width());
  core_.backward(ctx, saved.core, ring_inputs(ctx, saved), {made.dq, nullptr, nullptr, d_source}, d_o);
  rotate(ctx, cos_sin, advance(made.dq, own_, ctx.type), model_.heads, q_width_, true);
  void* const d_shared = advance(made.d_down, q_rank_ + kv_rank_, ctx.type);
  copy_rows(ctx, d_shared, ctx.type, down_width_, d_source + rows * kv_rank_, DType::kF32, rope_dim_,
            rope_dim_);
  rotate(ctx, cos_sin, d_shared, 1, down_width_, true);
  kv_norm_.backward(ctx, saved.kv_norm, advance(made.d_down, q_rank_, ctx.type), ctx.type, down_width_,
                    d_source, DType::kF32, kv_rank_, advance(saved.down, q_rank_, ctx.type), ctx.type,
                    {rows, 1, down_width_});
}

void LatentAttention::backward_input(const Context& ctx, const LatentSaved& kept, const float* cos_sin,
                                     const LatentMade& made, const BranchSum& dx, GatheredRows* dy,
                                     DType dy_type) const {
  const int64_t rows = ctx.rows();
  RegionScope of_saved(*ctx.workspace);
  const LatentSaved saved = moved(ctx, kept, &SavedRows::decode);
  const NormRows of_down{rows, 1, down_width_};
  backward_core(ctx, saved, cos_sin, made, dy, dy_type);
  if (!in_ring(ctx)) {
    RegionScope scope(*ctx.workspace);
    void* const d_c = ctx.take(rows * kv_rank_);
    compress_keys(ctx, saved, made.c_kv);
    kv_up_.backward_input(ctx, d_c, ctx.type, made.d_up, ctx.type, rows);
    kv_norm_.backward(ctx, saved.kv_norm, advance(made.d_down, q_rank_, ctx.type), ctx.type, down_width_, d_c,
                      ctx.type, kv_rank_, advance(saved.down, q_rank_, ctx.type), ctx.type, of_down);
  }
  if (q_norm_) {
    RegionScope scope(*ctx.workspace);
    void* const d_c = ctx.take(rows * q_rank_);
    compress_queries(ctx, saved, made.c_q);
    q_.backward_input(ctx, d_c, ctx.type, made.dq, ctx.type, rows);
    q_norm_->backward(ctx, saved.q_norm, made.d_down, ctx.type, down_width_, d_c, ctx.type, q_rank_,
                      saved.down, ctx.type, of_down);
  }
  dx.compute(ctx, [&](const Context& part, int64_t first, void* to) {
    const auto add = [&](const Linear& linear, const void* dy_of, int64_t width, bool adds) {
      linear.backward_input(part, to, dx.type(), advance(dy_of, first * width, ctx.type), ctx.type,
                            part.rows(), adds);
    };
    add(down_, made.d_down, down_width_, false);
    if (!q_norm_) add(q_, made.dq, q_width_, true);
  });
}

void LatentAttention::backward_out_weight(const Context& ctx, const LatentSaved& saved, const void* dy,
                                          DType dy_type) const {
  RegionScope scope(*ctx.workspace);
  out_.backward_weight(ctx, dy, dy_type, core_.output(ctx).decode(ctx, saved.core.o), ctx.rows());
}

void LatentAttention::backward_in_weight(const Context& ctx, const LatentMade& made, const void* x) const {
  const int64_t rows = ctx.rows();
  down_.backward_weight(ctx, made.d_down, ctx.type, x, rows);
  q_.backward_weight(ctx, made.dq, ctx.type, q_norm_ ? made.c_q : x, rows);
  if (!in_ring(ctx)) kv_up_.backward_weight(ctx, made.d_up, ctx.type, made.c_kv, rows);
}

void LatentAttention::forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin,
                                     const BranchSum& y, const void* x) const {
  const int64_t rows = ctx.rows(), all = cache.length + rows;
  RegionScope scope(*ctx.workspace);
  LatentSaved here;
  here.core = core_.take_saved(ctx, *ctx.workspace, *ctx.workspace);
  here.down = ctx.take(rows * down_width_);
  if (q_norm_) here.q_norm = q_norm_->take_saved(*ctx.workspace, rows);
  here.kv_norm = kv_norm_.take_saved(*ctx.workspace, rows);
  void* const q = ctx.take(rows * q_width_);
  void* const kv = ctx.take(all * kv_width_);
  void* const turned = static_cast<char*>(cache.rows) + cache.bytes / (kv_rank_ + rope_dim_) * kv_rank_;
  down_.forward(ctx, here.down, ctx.type, down_width_, x, rows);
  void* const shared = advance(here.down, q_rank_ + kv_rank_, ctx.type);
  rotate(ctx, cos_sin, shared, 1, down_width_, false);
  copy_rows(ctx, advance(turned, cache.length * rope_dim_, ctx.type), ctx.type, rope_dim_, shared, ctx.type,
            down_width_, rope_dim_);
  compress_keys(ctx, here, advance(cache.rows, cache.length * kv_rank_, ctx.type));
  make_keys(ctx, kv, cache.rows, turned, rope_dim_, all);
  project_queries(ctx, here, cos_sin, q, x);
  core_.forward_cached(ctx, here.core, core_inputs(ctx, q, kv), cache.length);
  y.compute_forward(ctx, out_, here.core.o);
}

}  // namespace hawser::nn
