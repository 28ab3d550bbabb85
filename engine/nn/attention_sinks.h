// AttentionSinks: a learned number for each query head of a layer, which joins the denominator of the head's
// softmax (kernels/include/attention_sinks.h). Under context parallelism, the exchange of columns
// (column_exchange.h) adds it once a query has seen all of its keys.
#pragma once

#include <cstdint>

#include "engine/nn/parameter.h"
#include "kernels/include/attention.h"

namespace hawser::nn {

struct Context;

class AttentionSinks {
 public:
  /// No sinks: the calls do nothing.
  AttentionSinks() = default;
  AttentionSinks(const ParameterTable& table, int64_t layer);

  /// Adds the sinks to o (of type o_type) and lse, the results of attention over all keys. The heads of `s`
  /// may be some of the local ones.
  void join(const Context& ctx, const kernels::AttentionShape& s, void* o, DType o_type, float* lse) const;
  /// Computes the gradient of the sinks (0 for local heads that are not in `s`) from dout and from the
  /// results of join, o in the activation type.
  void backward(const Context& ctx, const kernels::AttentionShape& s, const void* o, const float* lse,
                const void* dout) const;

 private:
  int64_t first_head(const Context& ctx, const kernels::AttentionShape& s) const;

  Place place_;
  int64_t heads_ = 0;  ///< local ones
};

}  // namespace hawser::nn
