#include "tests/harness/exchange_forms.h"

#include <algorithm>

#include "engine/nn/latent_attention.h"

namespace hawser::testing {
namespace {

using plan::Op;

int64_t divided(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

class BlockForms {
 public:
  explicit BlockForms(const ExchangeShape& shape) : s_(shape) {}

  std::vector<ClosedForm> take() {
    const int64_t blocks = s_.local.layers, trained = blocks - std::max(0, s_.first_trainable - 1);
    const bool embedding = s_.first_trainable == 0;
    add(Op::kForward, blocks * (branch(1) + attention(false)) - sparse(0) * branch(1) / 2 +
                          sparse(0) * (statistics() + experts(false)) + norms(0) + rows_of_embedding(false));
    add(Op::kLoss, loss());
    add(Op::kBackward, trained * (branch(2) + attention(true)) -
                           sparse(s_.first_trainable) * (branch(2) / 2 - experts(true)) +
                           2 * norms(s_.first_trainable) + (embedding ? rows_of_embedding(true) : 0));
    return std::move(forms_);
  }

 private:
  bool whole_rows() const { return !s_.mesh.sequence_parallel; }
  int64_t e() const { return s_.element_bytes; }
  /// Bytes of (t-1)/t of the residual stream in elements of `bytes`.
  int64_t part(int64_t bytes) const {
    const int64_t t = s_.mesh.tp, c = s_.local.width;
    return (t - 1) * (whole_rows() ? divided(s_.rows * c, t) : divided(s_.rows, t) * c) * bytes;
  }
  /// Bytes of a sum of all rows in chunks, each padded to a multiple of t elements.
  int64_t sum_in_chunks() const {
    const int64_t t = s_.mesh.tp, n = s_.mesh.tp_chunks;
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; ++i)
      bytes += 2 * (t - 1) * divided((s_.rows * (i + 1) / n - s_.rows * i / n) * s_.local.width, t) * 4;
    return bytes;
  }
  /// Two branches: entered and left once. Backward gathers what is entered again.
  int64_t branch(int64_t enters) const {
    return whole_rows() ? 2 * sum_in_chunks() : 2 * (enters * part(e()) + part(4));
  }
  /// Sparse layers in blocks from `block` on.
  int64_t sparse(int64_t block) const {
    int64_t count = 0;
    for (int64_t layer = std::max<int64_t>(0, block - 1); layer < s_.local.layers; ++layer)
      count += s_.local.is_sparse(layer) ? 1 : 0;
    return count;
  }
  /// Of outputs of blocks from `block` on whose inputs are divided, where they have magnitudes.
  int64_t norms(int64_t block) const {
    const nn::AdapterConfig& adapter = s_.local.adapter;
    const int64_t t = s_.mesh.tp;
    int64_t count = 0;
    for (int64_t layer = std::max<int64_t>(0, block - 1); layer < s_.local.layers && adapter.dora; ++layer)
      for (const char* module : {"attention.o", "mlp.down"})
        if ((*module == 'a' || !s_.local.is_sparse(layer)) &&
            nn::adapter_of(adapter, "blocks." + std::to_string(layer) + "." + module).rank > 0)
          ++count;
    return count * 2 * (t - 1) * divided(s_.local.width, t) * 4;
  }
  int64_t statistics() const {
    const int64_t n = s_.batch * (2 * s_.local.moe.experts + 1), t = s_.mesh.tp, c = s_.mesh.cp;
    return 2 * 4 * ((t - 1) * divided(n, t) + (c - 1) * divided(n, c));
  }
  /// Counts of rows, rows with their weights, and what experts make of them; later rounds' rows again in
  /// backward.
  int64_t experts(bool backward) const {
    const int64_t p = s_.mesh.ep, a = e(), c = s_.local.width, k = s_.local.moe.top_k;
    const int64_t each = divided(s_.rows, s_.mesh.tp) * k / p;
    const int64_t later = std::max<int64_t>(0, each - s_.round_rows);
    return (p - 1) * (each * (2 * c * a + 4) + (backward ? later * (c * a + 4) : 4 * s_.local.moe.experts));
  }
  int64_t rows_of_embedding(bool backward) const {
    if (backward) return whole_rows() ? 0 : part(4);
    return whole_rows() ? 2 * part(4) : part(4);
  }
  int64_t loss() const {
    const int64_t statistics = (s_.mesh.tp - 1) * s_.rows * (s_.teacher ? 5 : 3) * 4, t = s_.mesh.tp;
    const int64_t sum = 2 * (t - 1) * divided(s_.rows * s_.local.width, t) * 4;
    return statistics + sum + (whole_rows() ? 0 : part(4));
  }
  int64_t attention(bool backward) const {
    const int64_t c = s_.mesh.cp, both = s_.local.head_dim + s_.local.value_dim(), k = s_.local.kv_heads;
    if (s_.mesh.cp_mode != mesh::ContextMode::kUlysses)
      return (c - 1) * s_.rows *
             (compressed() ? s_.local.latent.kv_rank + s_.local.latent.rope_dim : k * both) *
             (backward ? e() + 4 : e());
    return (c - 1) * s_.rows * (s_.local.heads / c + std::max<int64_t>(1, k / c)) * both * e();
  }

  /// What a ring carries of latent attention.
  bool compressed() const {
    return s_.mesh.cp_mode == mesh::ContextMode::kRing && nn::sends_compressed(s_.local, e());
  }

  void add(Op op, int64_t bytes) {
    if (bytes > 0) forms_.push_back({op, s_.micro_batches * bytes});
  }

  const ExchangeShape& s_;
  std::vector<ClosedForm> forms_;
};

}  // namespace

std::vector<ClosedForm> exchange_forms(const ExchangeShape& shape) { return BlockForms(shape).take(); }

}  // namespace hawser::testing
