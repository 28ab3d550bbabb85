#include "engine/nn/column_exchange.h"

#include "engine/nn/context.h"

namespace hawser::nn {

void ColumnExchange::forward(const Context& ctx, const kernels::AttentionShape& shape,
                             const AttentionCoreSaved& saved, const AttentionInputs& in) const {
  kernels::AttentionForward a;
  a.s = shape;
  a.q = in.q, a.k = in.k, a.v = in.v;
  a.o = saved.o;
  a.lse = saved.lse;
  ctx.attend(a);
  in.sinks.join(ctx, a.s, a.o, a.s.type, a.lse);
}

void ColumnExchange::backward(const Context& ctx, const kernels::AttentionShape& shape,
                              const AttentionCoreSaved& saved, const AttentionInputs& in,
                              const AttentionGradients& gradients, const void* d_o) const {
  kernels::AttentionBackward a;
  a.s = shape;
  a.dq = gradients.dq, a.dk = gradients.dk, a.dv = gradients.dv;
  a.dout = d_o;
  a.o = saved.o;
  a.lse = saved.lse;
  a.q = in.q, a.k = in.k, a.v = in.v;
  ctx.attend(a);
  in.sinks.backward(ctx, a.s, a.o, a.lse, a.dout);
}

}  // namespace hawser::nn
