// Attention scores by their definition, in double: for each layer and head the largest scaled product of a
// query and a key that it sees. Every layer's input is the embedding, so the blocks below must add nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/nn/model_config.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {

class ScoreReference {
 public:
  using Weights = std::map<std::string, std::vector<float>>;

  ScoreReference(const nn::ModelConfig& model, const Weights& weights) : m_(model), w_(weights) {}

  /// Returns the largest score of each head of the layer over all rows; 0 if none is above 0.
  std::vector<double> largest(int64_t layer, const Rows& rows) const {
    std::vector<double> largest(static_cast<size_t>(m_.heads));
    for (int64_t row = 0; row < rows.rows; ++row) {
      std::vector<Row> q, k;
      for (int64_t t = 0; t < rows.cols; ++t) {
        const Row x = input(layer, rows, row * rows.cols + t, position(rows, row, t));
        q.push_back(queries(layer, x, position(rows, row, t)));
        k.push_back(keys(layer, x, position(rows, row, t)));
      }
      for (int64_t t = 0; t < rows.cols; ++t)
        for (int64_t s = 0; s <= t; ++s) {
          const int64_t window = m_.window[static_cast<size_t>(layer)];
          if (s < t - position(rows, row, t) || (window > 0 && t - s >= window)) continue;
          for (int64_t h = 0; h < m_.heads; ++h) {
            const int64_t of = m_.is_latent() ? h : h / (m_.heads / m_.kv_heads);
            double dot = 0;
            for (int64_t j = 0; j < m_.head_dim; ++j)
              dot += at(q[size(t)], h * m_.head_dim + j) * at(k[size(s)], of * m_.head_dim + j);
            double& most = largest[size(h)];
            most = std::max(most, dot * m_.attention_scale);
          }
        }
    }
    return largest;
  }

 private:
  using Row = std::vector<double>;
  static size_t size(int64_t i) { return static_cast<size_t>(i); }
  static double at(const Row& row, int64_t i) { return row[size(i)]; }

  static int64_t position(const Rows& rows, int64_t row, int64_t t) {
    return rows.document_begin.empty() ? t : t - rows.document_begin[size(row * rows.cols + t)];
  }
  const std::vector<float>& weight(const std::string& name) const { return w_.at(name); }
  static std::string name(int64_t layer, const char* part) {
    return "blocks." + std::to_string(layer) + "." + part;
  }

  Row input(int64_t layer, const Rows& rows, int64_t token, int64_t position) const {
    Row x(size(m_.width));
    for (int64_t i = 0; i < m_.width; ++i) {
      x[size(i)] = static_cast<double>(
          weight("embedding.tokens.weight")[size(rows.tokens[size(token)] * m_.width + i)]);
      if (m_.embedding_scale > 0) x[size(i)] *= m_.embedding_scale;
      if (m_.position == nn::Position::kLearned)
        x[size(i)] +=
            static_cast<double>(weight("embedding.positions.weight")[size(position * m_.width + i)]);
    }
    return norm(x, name(layer, "attention_norm"), m_.norm == nn::Norm::kLayerNorm, m_.norm_eps);
  }

  Row norm(Row x, const std::string& of, bool centres, double eps) const {
    double mean = 0, squares = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (double& v : x) v -= centres ? mean : 0, squares += v * v / static_cast<double>(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] *= static_cast<double>(weight(of + ".weight")[i]) / std::sqrt(squares + eps);
      if (w_.contains(of + ".bias")) x[i] += static_cast<double>(weight(of + ".bias")[i]);
    }
    return x;
  }

  Row linear(const Row& x, const std::string& of) const {
    const std::vector<float>& w = weight(of + ".weight");
    Row y(w.size() / x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (w_.contains(of + ".bias")) y[i] = static_cast<double>(weight(of + ".bias")[i]);
      for (size_t j = 0; j < x.size(); ++j) y[i] += static_cast<double>(w[i * x.size() + j]) * x[j];
    }
    return y;
  }

  /// Rotates d elements from `first` on: element j and element j + d / 2 together, or adjacent elements.
  void rotate(Row* x, int64_t first, int64_t d, int64_t position) const {
    const bool adjacent = m_.is_latent() && m_.latent.interleaved;
    for (int64_t j = 0; j < d / 2; ++j) {
      const double angle = static_cast<double>(position) *
                           std::pow(m_.rope.theta, -2.0 * static_cast<double>(j) / static_cast<double>(d));
      double& low = (*x)[size(first + (adjacent ? 2 * j : j))];
      double& high = (*x)[size(first + (adjacent ? 2 * j + 1 : d / 2 + j))];
      const double a = low, b = high;
      low = a * std::cos(angle) - b * std::sin(angle), high = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  Row queries(int64_t layer, const Row& x, int64_t position) const {
    const std::string attention = name(layer, "attention.");
    Row q;
    if (m_.latent.q_rank > 0)
      q = linear(norm(linear(x, attention + "q_a"), attention + "q_a_norm", false, m_.latent.norm_eps),
                 attention + "q_b");
    else
      q = linear(x, attention + "q");
    const int64_t turned = m_.is_latent() ? m_.latent.rope_dim : m_.rope.dim;
    const int64_t first = m_.is_latent() ? m_.head_dim - turned : 0;
    for (int64_t h = 0; m_.position == nn::Position::kRotary && h < m_.heads; ++h)
      rotate(&q, h * m_.head_dim + first, turned, position);
    return q;
  }

  Row keys(int64_t layer, const Row& x, int64_t position) const {
    const std::string attention = name(layer, "attention.");
    if (!m_.is_latent()) {
      Row k = linear(x, attention + "k");
      for (int64_t h = 0; m_.position == nn::Position::kRotary && h < m_.kv_heads; ++h)
        rotate(&k, h * m_.head_dim, m_.rope.dim, position);
      return k;
    }
    const nn::LatentConfig& l = m_.latent;
    const int64_t nope = m_.head_dim - l.rope_dim;
    Row down = linear(x, attention + "kv_a");
    const Row compressed(down.begin(), down.begin() + l.kv_rank);
    const Row up = linear(norm(compressed, attention + "kv_a_norm", false, l.norm_eps), attention + "kv_b");
    rotate(&down, l.kv_rank, l.rope_dim, position);
    Row k;
    for (int64_t h = 0; h < m_.heads; ++h) {
      k.insert(k.end(), up.begin() + h * (nope + l.value_dim), up.begin() + h * (nope + l.value_dim) + nope);
      k.insert(k.end(), down.begin() + l.kv_rank, down.end());
    }
    return k;
  }

  const nn::ModelConfig& m_;
  const Weights& w_;
};

}  // namespace hawser::testing
