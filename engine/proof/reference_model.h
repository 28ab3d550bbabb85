// ReferenceModel: a complete model and its loss as the papers write them, in plain loops over numbers of type
// T, one row of the batch at a time. It shares nothing with the engine except the parameter table and the
// table of rotary angles (which has its own test). With double it computes the loss. Two other types give
// derivatives, so that no backward is written twice: TapedNumber gives all of them (f64_gradients.h), and
// std::complex<double>, with a tiny imaginary part in some weights, gives the derivative along that direction
// (complex step, in tests).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/proof/reference_batch.h"
#include "engine/proof/reference_layers.h"
#include "engine/proof/reference_loss.h"

namespace hawser::train {

template <class T>
class ReferenceModel : public ReferenceLayers<T> {
 public:
  using Layers = ReferenceLayers<T>;
  using Rows = typename Layers::Rows;

  /// `flat` has the layout of FlatLayout. `frozen` has the same weights without perturbation, for look-ups of
  /// the padding token and norms of magnitudes, which pass no gradient on. `seed` is the seed of dropout.
  /// `moe` configures the losses of routers, which are part of the loss.
  ReferenceModel(const nn::ModelConfig& model, const nn::ParameterTable& table, const std::vector<T>& flat,
                 const std::vector<double>& frozen, uint64_t seed, const nn::MoeTraining& moe = {})
      : Layers(model, table, flat, frozen, seed, moe) {}

  /// Returns the mean loss over the targets that are not -100, in training (with dropout), plus the losses of
  /// routers and of prediction depths. Samples are numbered from 0.
  T loss(const ReferenceBatch& batch) {
    T sum = T(0);
    for (int64_t row = 0; row < batch.rows; ++row) sum += row_loss(batch, row);
    return sum / batch.count();
  }
  /// Returns the contribution of row `row` to the sum of losses.
  T row_loss(const ReferenceBatch& batch, int64_t row) {
    const auto first = static_cast<size_t>(row * batch.seq), seq = static_cast<size_t>(batch.seq);
    const Rows z = row_logits(batch, row);
    T sum = T(0);
    for (size_t t = 0; t < seq; ++t) {
      const int32_t target = batch.targets[first + t];
      if (target != -100) sum += reference_loss(batch, first + t, z[t]);
    }
    sum += batch.count() / static_cast<double>(batch.rows) * of_routers_;
    for (int64_t depth = 1; depth <= m_.ahead; ++depth) {
      of_routers_ = T(0);
      const T ahead = loss_ahead(batch, row, depth);
      const double count = batch.count_ahead(depth),
                   share = batch.ahead_weight / static_cast<double>(m_.ahead);
      sum += batch.count() / static_cast<double>(batch.rows) * share * of_routers_;
      if (count > 0) sum += batch.count() * share / count * ahead;
    }
    return sum;
  }

  /// Returns the head's outputs for each token of a row: logits, or one number if the model ends in a score.
  Rows row_logits(const ReferenceBatch& batch, int64_t row) {
    this->sample_ = row;
    of_routers_ = T(0);
    const auto first = static_cast<size_t>(row * batch.seq), seq = static_cast<size_t>(batch.seq);
    begin_.assign(seq, 0);
    for (size_t t = 0; t < seq && !batch.document_begin.empty(); ++t)
      begin_[t] = batch.document_begin[first + t];
    return logits({batch.tokens.begin() + static_cast<int64_t>(first),
                   batch.tokens.begin() + static_cast<int64_t>(first + seq)});
  }

 private:
  using Layers::begin_;
  using Layers::drop;
  using Layers::flat_;
  using Layers::frozen_;
  using Layers::layer_;
  using Layers::layout_;
  using Layers::m_;
  using Layers::norm;
  using Layers::of_routers_;
  using Layers::product;
  using Layers::table_;

  Rows logits(const std::vector<int32_t>& tokens) {
    Rows x = embed(tokens);
    drop(x, -1, 0, m_.dropout_embedding);
    for (layer_ = 0; layer_ < m_.layers; ++layer_) this->block(x);
    before_head_ = norm(x, "final_norm");
    return head();
  }

  Rows head() const {
    if (m_.has_score()) return product(before_head_, "score", 1);
    Rows z = product(before_head_, m_.tied_head ? "embedding.tokens" : "head", m_.vocab_size);
    for (auto& row : z)
      for (T& value : row) value = this->cap(value, m_.logit_softcap);
    return z;
  }

  /// Returns the sum of the losses of a row's targets `depth` columns ahead. The depths before have run.
  T loss_ahead(const ReferenceBatch& batch, int64_t row, int64_t depth) {
    layer_ = m_.layers + depth - 1;
    const std::string p = fmt::format("blocks.{}.", layer_);
    const int64_t table = layout_.at(table_.at("embedding.tokens.weight"));
    Rows e(before_head_.size(), std::vector<T>(static_cast<size_t>(m_.width), T(0)));
    const auto ahead = [&](size_t t) { return row * batch.seq + static_cast<int64_t>(t); };
    for (size_t t = 0; t < e.size(); ++t) {
      if (!batch.reaches(ahead(t), depth)) continue;
      const int32_t token = batch.tokens[static_cast<size_t>(ahead(t) + depth)];
      for (size_t c = 0; c < e[t].size(); ++c) {
        const size_t at = static_cast<size_t>(table + token * m_.width) + c;
        e[t][c] = m_.embedding_scale * (token == m_.padding_token ? T(frozen_[at]) : flat_[at]);
      }
    }
    Rows both = norm(e, p + "embedding_norm");
    const Rows n = norm(before_head_, p + "hidden_norm");
    for (size_t t = 0; t < both.size(); ++t) both[t].insert(both[t].end(), n[t].begin(), n[t].end());
    Rows x = product(both, p + "join", m_.width);
    this->block(x);
    before_head_ = norm(x, p + "final_norm");
    const Rows z = head();
    T sum = T(0);
    for (size_t t = 0; t < z.size(); ++t) {
      if (!batch.reaches(ahead(t), depth)) continue;
      const int32_t target = batch.targets[static_cast<size_t>(ahead(t) + depth)];
      if (target != -100) sum += log_sum_exp(z[t]) - z[t][static_cast<size_t>(target)];
    }
    return sum;
  }

  Rows embed(const std::vector<int32_t>& tokens) const {
    const int64_t token_table = layout_.at(table_.at("embedding.tokens.weight"));
    const T* positions = this->find("embedding.positions.weight");
    Rows x(tokens.size(), std::vector<T>(static_cast<size_t>(m_.width)));
    for (size_t t = 0; t < tokens.size(); ++t) {
      for (size_t c = 0; c < x[t].size(); ++c) {
        const size_t at = static_cast<size_t>(token_table + tokens[t] * m_.width) + c;
        x[t][c] = m_.embedding_scale * (tokens[t] == m_.padding_token ? T(frozen_[at]) : flat_[at]);
        if (positions != nullptr)
          x[t][c] += positions[this->position(t) * m_.width + static_cast<int64_t>(c)];
      }
    }
    return x;
  }

  Rows before_head_;  // what the head multiplied last
};

}  // namespace hawser::train
