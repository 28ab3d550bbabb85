// OwnWords: the words of a vocabulary that one of several ranks has. Ranks have equal runs of words, the last ones
// with padding: the vocabulary need not divide.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/nn/context.h"

namespace hawser::nn {

struct OwnWords {
  int64_t vocab = 0;
  int64_t room = 0;  ///< words of every rank, with padding

  /// Of the embedding or the head, from its parameter.
  static OwnWords of(const Parameter& p) { return {p.shape[0], p.local_shape[0]}; }

  int64_t first(const Context& ctx) const { return ctx.exchange->rank() * room; }
  /// Without padding; may be 0.
  int64_t count(const Context& ctx) const { return std::clamp<int64_t>(vocab - first(ctx), 0, room); }
};

}  // namespace hawser::nn
