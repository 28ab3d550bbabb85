#include "engine/nn/feed_forward.h"

namespace hawser::nn {

FeedForward::FeedForward(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training,
                         int64_t layer) {
  if (model.is_sparse(layer)) {
    sparse_.emplace(table, model, training, layer);
  } else {
    dense_.emplace(table, model, layer);
  }
}

Context FeedForward::context(const Context& ctx) const {
  Context own = ctx;
  if (!sparse_ || ctx.exchange->ranks() == 1) return own;
  const LocalRows rows = ctx.own_rows();
  own.first_row = rows.first, own.only_rows = rows.count;
  own.row_peers = ctx.exchange;
  own.exchange = &kAlone;
  return own;
}

FeedForwardSaved FeedForward::take_saved(const Context& ctx, Region& region, Region& kept) const {
  if (sparse_) return {{}, sparse_->take_saved(ctx, region, kept)};
  return {dense_->take_saved(ctx, region, kept), {}};
}

/// Experts compute with local rows, so there is nothing to sum.
void FeedForward::forward(const Context& ctx, const FeedForwardSaved& saved, const BranchSum* y,
                          GatheredRows* x) const {
  if (sparse_)
    return sparse_->forward(ctx, saved.sparse, y == nullptr ? nullptr : static_cast<float*>(y->all_rows()),
                            x->all(ctx));
  dense_->forward(ctx, saved.dense, y, x);
}

void FeedForward::take_weight_pass_inputs(const Context& ctx, Region& region, FeedForwardMade* made) const {
  if (sparse_) return sparse_->take_weight_pass_inputs(ctx, region, &made->sparse);
  made->dh = dense_->take_dh(ctx, region);
}

void FeedForward::take_activation(const Context& ctx, const FeedForwardSaved& saved, Region& region,
                                  FeedForwardMade* made) const {
  if (sparse_) return sparse_->take_activation(ctx, region, &made->sparse);
  made->a = dense_->take_activation(ctx, saved.dense, region);
}

void FeedForward::backward_input(const Context& ctx, const FeedForwardSaved& saved,
                                 const FeedForwardMade& made, const BranchSum& dx, GatheredRows* dy,
                                 DType dy_type) const {
  if (sparse_)
    return sparse_->backward_input(ctx, saved.sparse, made.sparse, static_cast<float*>(dx.all_rows()),
                                   dy->all(ctx), dy_type);
  dense_->backward_input(ctx, saved.dense, made.dh, made.a, dx, dy, dy_type);
}

void FeedForward::backward_in_tiles(const Context& ctx, const FeedForwardSaved& saved,
                                    const FeedForwardMade& made, const BranchSum& dx, const void* dy,
                                    DType dy_type, const void* x, bool weights) const {
  dense_->backward_in_tiles(ctx, saved.dense, made.dh, made.a, dx, dy, dy_type, x, weights);
}

void FeedForward::backward_down_weight(const Context& ctx, const FeedForwardSaved& saved,
                                       const FeedForwardMade& made, const void* dy, DType dy_type) const {
  if (sparse_) return sparse_->backward_down_weight(ctx, saved.sparse, made.sparse, dy, dy_type);
  dense_->backward_down_weight(ctx, made.a, dy, dy_type);
}

void FeedForward::backward_up_weight(const Context& ctx, const FeedForwardSaved& saved,
                                     const FeedForwardMade& made, const void* x) const {
  if (sparse_) return sparse_->backward_up_weight(ctx, saved.sparse, made.sparse, x);
  dense_->backward_up_weight(ctx, made.dh, x);
}

}  // namespace hawser::nn
