// ReferenceLayers: the layers of the reference model (reference_model.h), each as its paper writes it, on one
// row of the batch at a time.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"
#include "engine/nn/rope_table.h"
#include "engine/proof/log_sum_exp.h"
#include "engine/proof/reference_activation.h"
#include "engine/proof/reference_batch.h"
#include "engine/proof/reference_magnitude.h"
#include "engine/proof/reference_router.h"
#include "kernels/cpu/reference_number.h"

namespace hawser::train {

template <class T>
class ReferenceLayers {
 public:
  /// One row of the batch: [seq][features].
  using Rows = std::vector<std::vector<T>>;

  /// As the constructor of ReferenceModel.
  ReferenceLayers(const nn::ModelConfig& model, const nn::ParameterTable& table, const std::vector<T>& flat,
                  const std::vector<double>& frozen, uint64_t seed, const nn::MoeTraining& moe)
      : m_(model), table_(table), layout_(table), flat_(flat), frozen_(frozen), seed_(seed), moe_(moe) {
    angles_.resize(static_cast<size_t>(nn::rope_table_size(model, model.context)));
    if (!angles_.empty()) nn::fill_rope_table(angles_.data(), model, model.context);
  }

  /// Returns ReferenceRoute::margin of the closest choice so far; infinite if there was none.
  double least_margin() const { return least_margin_; }

 protected:
  const T* find(const std::string& name) const {
    const nn::Parameter* p = table_.find(name);
    return p == nullptr ? nullptr : flat_.data() + layout_.at(*p);
  }

  /// Applies block number layer_ to x.
  void block(Rows& x) {
    const std::string p = fmt::format("blocks.{}.", layer_);
    add_branch(x, attention(norm(x, p + "attention_norm"), p + "attention."), p + "attention_post_norm", 2);
    const Rows n = norm(x, p + "mlp_norm");
    add_branch(x, m_.is_sparse(layer_) ? mixture(n, p + "moe.") : mlp(n, p + "mlp."), p + "mlp_post_norm", 3);
  }

  int64_t position(size_t t) const { return static_cast<int64_t>(t) - begin_[t]; }

  /// Multiplies x by 0 or 1 / (1 - p), as random words decide. They depend on layer, site, sample, position
  /// and feature.
  void drop(Rows& x, int64_t layer, uint64_t site, double p) const {
    const uint64_t key = philox_derive(seed_, static_cast<uint64_t>(layer), site);
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t c = 0; c < x[t].size(); ++c) x[t][c] *= keep(key, t, c, p);
  }
  double keep(uint64_t key, uint64_t position, uint64_t feature, double p) const {
    if (p == 0) return 1;
    const uint64_t sample_key = key ^ (static_cast<uint64_t>(sample_) * 0x9E3779B97F4A7C15ull);
    const PhiloxBlock words = philox(sample_key, position, feature / 4);
    return philox_uniform(words.v[feature % 4]) < static_cast<float>(p) ? 0 : 1 / (1 - p);
  }

  static T cap(const T& value, double softcap) {
    using std::tanh;
    return softcap > 0 ? softcap * tanh(value / softcap) : value;
  }

  void add_branch(Rows& x, Rows branch, const std::string& post_norm, uint64_t site) const {
    if (m_.post_norm) branch = norm(branch, post_norm);
    drop(branch, layer_, site, m_.dropout_residual);
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t c = 0; c < x[t].size(); ++c) x[t][c] += branch[t][c];
  }

  Rows norm(const Rows& x, const std::string& name) const {
    Rows y = x;
    const bool centred = m_.norm == nn::Norm::kLayerNorm;
    for (auto& row : y)
      normalise(row.data(), m_.width, find(name + ".weight"), find(name + ".bias"), centred);
    return y;
  }
  void normalise(T* x, int64_t n, const T* weight, const T* bias, bool centred) const {
    normalise(x, n, weight, bias, centred, m_.norm_eps);
  }
  void normalise(T* x, int64_t n, const T* weight, const T* bias, bool centred, double eps) const {
    using std::sqrt;
    T mean = T(0), variance = T(0);
    for (int64_t j = 0; j < n && centred; ++j) mean += x[j] / static_cast<double>(n);
    for (int64_t j = 0; j < n; ++j) variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(n);
    for (int64_t j = 0; j < n; ++j) {
      x[j] = (x[j] - mean) / sqrt(variance + eps) * (m_.norm_weight_offset + weight[j]);
      if (bias != nullptr) x[j] += bias[j];
    }
  }

  /// Returns y = x W^T + b with W = name.weight [out, in] and b = name.bias, if there is one, plus what an
  /// adapter adds. It skips a router's bias, which only affects the choice of experts.
  Rows product(const Rows& x, const std::string& name, int64_t out) const {
    Rows y = plain_product(x, name, out);
    const bool own = find(name + ".adapter_a.weight") != nullptr;
    const std::string module = own ? name : name.substr(0, name.rfind('.') + 1) + "qkv";
    const nn::Parameter *a = table_.find(module + ".adapter_a.weight"),
                        *b = table_.find(name + ".adapter_b.weight");
    if (a == nullptr || b == nullptr) return y;
    const nn::AdapterConfig& adapter = m_.adapter;
    Rows kept = x;
    drop(kept, layer_, static_cast<uint64_t>(nn::adapter_site(module)), adapter.dropout);
    const Rows u = plain_product(kept, module + ".adapter_a", a->shape[0]),
               low = plain_product(u, name + ".adapter_b", out);
    const double scale = nn::adapter_of(adapter, module).scale;
    for (size_t t = 0; t < y.size(); ++t)
      for (size_t o = 0; o < y[t].size(); ++o) y[t][o] += scale * low[t][o];
    const auto frozen = [&](const nn::Parameter& p) { return frozen_.data() + layout_.at(p); };
    if (adapter.dora)
      scale_rows(
          y, find(name + ".adapter_m.weight"), find(name + ".bias"),
          row_norms(frozen(table_.at(name + ".weight")), frozen(*a), frozen(*b), scale, out, a->shape));
    return y;
  }
  Rows plain_product(const Rows& x, const std::string& name, int64_t out) const {
    const T* weight = find(name + ".weight");
    const T* bias = name.ends_with(".router") ? nullptr : find(name + ".bias");
    Rows y(x.size(), std::vector<T>(static_cast<size_t>(out)));
    for (size_t t = 0; t < x.size(); ++t) {
      const T* row = x[t].data();
      const size_t in = x[t].size();
      for (size_t o = 0; o < y[t].size(); ++o) {
        T sum = bias != nullptr ? bias[o] : T(0);
        for (size_t i = 0; i < in; ++i) sum += row[i] * weight[o * in + i];
        y[t][o] = sum;
      }
    }
    return y;
  }

  /// Applies QK-norm and rotates pairs (j, j + R/2) of the first R features of each head, if the model does.
  void prepare_heads(Rows& x, const std::string& norm_name) const {
    for (size_t t = 0; t < x.size(); ++t) {
      for (T* head = x[t].data(); head < x[t].data() + x[t].size(); head += m_.head_dim) {
        if (m_.qk_norm) normalise(head, m_.head_dim, find(norm_name + ".weight"), nullptr, false);
        if (m_.position == nn::Position::kRotary) turn(head, t, m_.rope.dim, false);
      }
    }
  }

  Rows attention(const Rows& x, const std::string& p) const {
    if (m_.is_latent()) return latent_attention(x, p);
    Rows q = product(x, p + "q", m_.heads * m_.head_dim), k = product(x, p + "k", m_.kv_heads * m_.head_dim);
    const Rows v = product(x, p + "v", m_.kv_heads * m_.head_dim);
    prepare_heads(q, p + "q_norm");
    prepare_heads(k, p + "k_norm");
    Rows o(x.size(), std::vector<T>(static_cast<size_t>(m_.heads * m_.head_dim)));
    for (size_t t = 0; t < x.size(); ++t)
      for (int64_t h = 0; h < m_.heads; ++h)
        attend(o[t].data() + h * m_.head_dim, q, k, v, t, h, find(p + "sinks"));
    return product(o, p + "o", m_.width);
  }

  /// Computes keys and values of all heads from the first kv_rank features of one product. The other
  /// features, rotated, are the end of every key.
  Rows latent_attention(const Rows& x, const std::string& p) const {
    const nn::LatentConfig& l = m_.latent;
    const int64_t own = m_.head_dim - l.rope_dim, up = own + l.value_dim, keys = m_.heads * m_.head_dim;
    const Rows down = product(x, p + "kv_a", l.kv_rank + l.rope_dim);
    Rows q = l.q_rank > 0 ? compressed(product(x, p + "q_a", l.q_rank), p + "q_a_norm.weight", l.q_rank) : x;
    q = product(q, p + (l.q_rank > 0 ? "q_b" : "q"), keys);
    const Rows both = product(compressed(down, p + "kv_a_norm.weight", l.kv_rank), p + "kv_b", m_.heads * up);
    Rows k(x.size(), std::vector<T>(static_cast<size_t>(keys))), v = both, o = both;
    for (size_t t = 0; t < x.size(); ++t) {
      for (int64_t h = 0; h < m_.heads; ++h) {
        const T *const head = both[t].data() + h * up, *const shared = down[t].data() + l.kv_rank;
        T* const key = k[t].data() + h * m_.head_dim;
        for (int64_t j = 0; j < m_.head_dim; ++j) key[j] = j < own ? head[j] : shared[j - own];
        for (int64_t j = 0; j < l.value_dim; ++j)
          v[t][static_cast<size_t>(h * l.value_dim + j)] = head[own + j];
        turn(key + own, t, l.rope_dim, l.interleaved);
        turn(q[t].data() + h * m_.head_dim + own, t, l.rope_dim, l.interleaved);
      }
      o[t].assign(static_cast<size_t>(m_.heads * l.value_dim), T(0));
    }
    for (size_t t = 0; t < x.size(); ++t)
      for (int64_t h = 0; h < m_.heads; ++h) attend(o[t].data() + h * l.value_dim, q, k, v, t, h, nullptr);
    return product(o, p + "o", m_.width);
  }
  /// Returns the first `rank` features of each row, normalised.
  Rows compressed(Rows rows, const std::string& weight, int64_t rank) const {
    for (auto& row : rows) {
      row.resize(static_cast<size_t>(rank));
      normalise(row.data(), rank, find(weight), nullptr, false, m_.latent.norm_eps);
    }
    return rows;
  }
  /// Rotates x for position t: pairs of neighbours, or pairs (j, j + size / 2).
  void turn(T* x, size_t t, int64_t size, bool neighbours) const {
    const int64_t half = size / 2;
    for (int64_t j = 0; j < half; ++j) {
      const float* angle =
          angles_.data() + nn::rope_table_begin(m_, layer_, m_.context) + (position(t) * half + j) * 2;
      const double cosine = static_cast<double>(angle[0]), sine = static_cast<double>(angle[1]);
      T &first = x[neighbours ? 2 * j : j], &second = x[neighbours ? 2 * j + 1 : half + j];
      const T low = first, high = second;
      first = low * cosine - high * sine;
      second = high * cosine + low * sine;
    }
  }

  /// A sink is one more score of the softmax, without a key.
  void attend(T* o, const Rows& q, const Rows& k, const Rows& v, size_t t, int64_t h, const T* sinks) const {
    const int64_t kv_head = h / (m_.heads / m_.kv_heads), of_key = kv_head * m_.head_dim,
                  of_value = kv_head * m_.value_dim(), window = m_.window_of(layer_);
    std::vector<T> scores;
    std::vector<size_t> keys;
    for (size_t key = static_cast<size_t>(begin_[t]); key <= t; ++key) {
      if (window > 0 && static_cast<int64_t>(t - key) >= window) continue;
      T dot = T(0);
      for (int64_t j = 0; j < m_.head_dim; ++j)
        dot += q[t][static_cast<size_t>(h * m_.head_dim + j)] * k[key][static_cast<size_t>(of_key + j)];
      scores.push_back(cap(m_.attention_scale * dot, m_.attention_softcap));
      keys.push_back(key);
    }
    using std::exp;
    if (sinks != nullptr) scores.push_back(sinks[h]);
    const T total = log_sum_exp(scores);
    const uint64_t site = philox_derive(seed_, static_cast<uint64_t>(layer_), 1);
    const uint64_t query = (static_cast<uint64_t>(h) << 32) + t;
    for (size_t i = 0; i < keys.size(); ++i) {
      const T probability = exp(scores[i] - total) * keep(site, query, keys[i], m_.dropout_attention);
      for (int64_t j = 0; j < m_.value_dim(); ++j)
        o[j] += probability * v[keys[i]][static_cast<size_t>(of_value + j)];
    }
  }

  Rows mlp(const Rows& x, const std::string& p) const { return mlp(x, p, m_.mlp_width); }
  Rows mlp(const Rows& x, const std::string& p, int64_t width) const {
    Rows h = product(x, p + "up", width);
    const bool gated = nn::is_gated(m_.mlp);
    const Rows gate = gated ? product(x, p + "gate", width) : Rows();
    for (size_t t = 0; t < h.size(); ++t)
      for (size_t j = 0; j < h[t].size(); ++j)
        h[t][j] = gated ? reference_activation(m_.mlp, gate[t][j]) * reference_factor(m_.mlp, h[t][j])
                        : reference_activation(m_.mlp, h[t][j]);
    return product(h, p + "down", m_.width);
  }

  /// Loops over tokens and their experts. Adds the router's losses to of_routers_.
  Rows mixture(const Rows& x, const std::string& p) {
    const nn::MoeConfig& moe = m_.moe;
    const auto experts = static_cast<size_t>(moe.experts);
    Rows logits = product(x, p + "router", moe.experts);
    if (const T* const bias = find(p + "router.logit_bias"); bias != nullptr)
      for (auto& row : logits)
        for (size_t e = 0; e < experts; ++e) row[e] += bias[e];
    Rows y = moe.shared_width > 0 ? shared_expert(x, p) : Rows(x.size(), std::vector<T>(x[0].size(), T(0)));
    std::vector<double> counts(experts);
    std::vector<T> shares(experts, T(0));
    T squares = T(0);
    for (size_t t = 0; t < x.size(); ++t) {
      const ReferenceRoute<T> route = reference_route(logits[t], find(p + "router.bias"), moe);
      least_margin_ = std::min(least_margin_, route.margin);
      for (size_t j = 0; j < route.chosen.size(); ++j) {
        const std::vector<T> out = expert(x[t], p + "experts.", static_cast<int64_t>(route.chosen[j]));
        for (size_t c = 0; c < out.size(); ++c) y[t][c] += route.weights[j] * out[c];
        counts[route.chosen[j]] += 1;
      }
      for (size_t e = 0; e < experts; ++e) shares[e] += route.shares[e];
      squares += route.log_sum_exp * route.log_sum_exp;
    }
    const auto positions = static_cast<double>(x.size());
    for (size_t e = 0; e < experts; ++e)
      of_routers_ +=
          moe_.aux_loss *
          (static_cast<double>(moe.experts) * counts[e] / (static_cast<double>(moe.top_k) * positions)) *
          (shares[e] / positions);
    of_routers_ += moe_.z_loss / positions * squares;
    return y;
  }

  /// Applies expert number e to one token.
  std::vector<T> expert(const std::vector<T>& x, const std::string& p, int64_t e) const {
    const int64_t size = m_.moe.width * m_.width;
    const T *gate = find(p + "gate.weight"), *up = find(p + "up.weight") + e * size,
            *down = find(p + "down.weight") + e * size;
    std::vector<T> h(static_cast<size_t>(m_.moe.width)), y(x.size(), T(0));
    const auto bias = [&](const char* part, size_t size_of_one, size_t i) {
      const T* const all = find(p + part + ".bias");
      return all != nullptr ? all[static_cast<size_t>(e) * size_of_one + i] : T(0);
    };
    for (size_t c = 0; c < y.size(); ++c) y[c] = bias("down", y.size(), c);
    for (size_t f = 0; f < h.size(); ++f) {
      T a = bias("gate", h.size(), f), b = bias("up", h.size(), f);
      for (size_t c = 0; c < x.size(); ++c) {
        if (gate != nullptr) a += gate[static_cast<size_t>(e * size) + f * x.size() + c] * x[c];
        b += up[f * x.size() + c] * x[c];
      }
      h[f] = gate != nullptr ? reference_activation(m_.mlp, a) * reference_factor(m_.mlp, b)
                             : reference_activation(m_.mlp, b);
      for (size_t c = 0; c < y.size(); ++c) y[c] += down[c * h.size() + f] * h[f];
    }
    return y;
  }

  Rows shared_expert(const Rows& x, const std::string& p) const {
    using std::exp;
    Rows y = mlp(x, p + "shared.", m_.moe.shared_width);
    if (!m_.moe.shared_gate) return y;
    const Rows gate = product(x, p + "shared_gate", 1);
    for (size_t t = 0; t < y.size(); ++t)
      for (T& value : y[t]) value = value / (1.0 + exp(-gate[t][0]));
    return y;
  }

  const nn::ModelConfig& m_;
  const nn::ParameterTable& table_;
  const FlatLayout layout_;
  const std::vector<T>& flat_;
  const std::vector<double>& frozen_;
  const uint64_t seed_;
  const nn::MoeTraining moe_;
  T of_routers_ = T(0);  // router losses of this row
  double least_margin_ = std::numeric_limits<double>::infinity();
  std::vector<float> angles_;
  int64_t sample_ = 0, layer_ = 0;
  std::vector<int64_t> begin_;  // first position of each position's document
};

}  // namespace hawser::train
