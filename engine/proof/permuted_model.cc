#include "engine/proof/permuted_model.h"

#include <numeric>
#include <utility>

#include "engine/base/philox.h"

namespace hawser::train {
namespace {

/// Returns the numbers below `count` in a random order (Fisher and Yates).
std::vector<int64_t> shuffled(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[philox(seed, i, 0).v[0] % static_cast<uint32_t>(i)]);
  return order;
}

}  // namespace

PermutedModel::PermutedModel(const nn::ModelConfig& model, uint64_t seed)
    : kv_heads_(shuffled(model.kv_heads, seed)),
      features_(shuffled(model.mlp_width, seed + 1)),
      words_(shuffled(model.vocab_size, seed + 2)) {
  const int64_t group = model.heads / model.kv_heads;  // heads that read the same keys stay together
  const std::vector<int64_t> within = shuffled(group, seed + 3);
  for (int64_t h = 0; h < model.heads; ++h)
    heads_.push_back(kv_heads_[static_cast<size_t>(h / group)] * group +
                     within[static_cast<size_t>(h % group)]);
  if (model.padding_token < 0 || model.padding_token >= model.vocab_size) return;
  for (int64_t& word : words_)
    if (word == model.padding_token) std::swap(word, words_[static_cast<size_t>(model.padding_token)]);
}

/// Returns the order of what the tensor-parallel cut divides (nn/parameter.h); null if it divides nothing.
const std::vector<int64_t>* PermutedModel::order_of(const nn::Parameter& p) const {
  if (p.cut.dim < 0) return nullptr;
  if (p.cut.may_share) return &kv_heads_;
  if (p.name.find(".mlp.") != std::string::npos) return &features_;
  return p.name.find(".attention.") != std::string::npos ? &heads_ : &words_;
}

int64_t PermutedModel::place(const nn::Parameter& p, int64_t i) const {
  const std::vector<int64_t>* const order = order_of(p);
  if (order == nullptr) return i;
  const int64_t extent = p.shape[static_cast<size_t>(p.cut.dim)];
  const int64_t stride =
      p.cut.dim == 0 ? p.size / extent : 1;  // elements from one index of the dim to the next
  const int64_t piece = extent / p.cut.pieces, index = i / stride % extent;
  const int64_t moved = (*order)[static_cast<size_t>(index / piece)] * piece + index % piece;
  return i + (moved - index) * stride;
}

}  // namespace hawser::train
