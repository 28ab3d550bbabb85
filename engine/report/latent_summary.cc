#include "engine/report/latent_summary.h"

#include <fmt/format.h>

#include "engine/nn/latent_attention.h"

namespace hawser::train {

std::string latent_summary(const nn::ModelConfig& local, const nn::ColumnExchange& columns, DType compute) {
  if (!local.is_latent()) return "";
  const int64_t own = local.latent.kv_rank + local.latent.rope_dim,
                all = local.heads * (local.head_dim + local.latent.value_dim);
  std::string text = fmt::format(
      "cache           {:>14} bytes of a token and layer in generation: a compressed row of {} features, and "
      "the {} "
      "of the key that all heads share\n",
      nn::cached_bytes(local, compute), local.latent.kv_rank, local.latent.rope_dim);
  if (columns.own().ranks == 1) return text;
  const bool compressed = columns.is_ring() && nn::sends_compressed(local, dtype_bytes(compute));
  if (compressed)
    return text + fmt::format(
                      "exchange        a ring carries {} compressed features of a row; its {} of keys and "
                      "values are "
                      "made anew\n",
                      own, all);
  return text +
         fmt::format("exchange        keys and values of a row, {} features, not its {} compressed ones\n",
                     all, own);
}

}  // namespace hawser::train
