// Parallel rules: refuse contradictions in the sections mesh, zero and comm. Fields that only describe how
// ranks share work are accepted for one rank. A setting that would change results but cannot take effect is
// refused.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "engine/config/rules.h"
#include "engine/config/rules_batch.h"

namespace hawser::config {
namespace {

bool is_power_of_two(int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); }

/// Returns the nearest powers of two below and above n.
std::string nearest_powers(int64_t n) {
  const int64_t below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
  return fmt::format("{} or {}", below, 2 * below);
}

/// Returns the divisor of n, at least `least`, that is nearest to `wish`; the smaller of two equally near
/// ones.
int64_t nearest_divisor(int64_t n, int64_t wish, int64_t least) {
  int64_t best = n;
  for (int64_t d = n; d >= least; --d) {
    if (n % d == 0 && std::abs(d - wish) <= std::abs(best - wish)) best = d;
  }
  return best;
}

/// True if there are more data-parallel ranks than possible; a separate check refuses them.
bool has_too_many_ranks(const Effective& c) {
  return c.integer("/mesh/dp_replicate") * c.integer("/mesh/dp_shard") > kMostRanks;
}

bool sums_in_chunks(const Effective& c) { return c.integer("/mesh/tp_chunks") > 1; }

/// Returns the ranks over which gradients are summed: each has different rows, or different tokens of the
/// same rows.
int64_t summed_ranks(const Effective& c) { return data_parallel_ranks(c) * c.integer("/mesh/cp"); }

bool quantizes_gradients(const Effective& c) { return !c.is("/zero/quantized_gradients", "off"); }

bool quantizes_weights(const Effective& c) {
  return c.integer("/zero/stage") == 3 && !c.is("/zero/quantized_weights", "off");
}

/// Returns the heads of one tensor-parallel rank.
int64_t local_heads(const Effective& c, const char* heads) {
  return std::max<int64_t>(1, c.integer(heads) / c.integer("/mesh/tp"));
}

/// True if ulysses can divide the heads of a tensor-parallel rank among `cp` ranks.
bool divides_heads(const Effective& c, int64_t cp) {
  const int64_t kv_heads = local_heads(c, "/model/kv_heads");
  return local_heads(c, "/model/heads") % cp == 0 && (kv_heads % cp == 0 || cp % kv_heads == 0);
}

std::string nearest_cp(const Effective& c) {
  const int64_t wish = c.integer("/mesh/cp");
  int64_t best = 1;
  for (int64_t cp = 1; cp <= local_heads(c, "/model/heads"); ++cp)
    if (divides_heads(c, cp) && std::abs(cp - wish) < std::abs(best - wish)) best = cp;
  return fmt::format("{}", best);
}

/// Returns the nearest tensor-parallel degree that divides `count`.
std::string nearest_tp(const Effective& c, const char* count) {
  return fmt::format("{}", nearest_divisor(c.integer(count), c.integer("/mesh/tp"), 1));
}

/// True if key/value heads can be divided among ranks, or ranks among key/value heads.
bool divides_kv_heads(const Effective& c, int64_t tp) {
  const int64_t kv_heads = c.integer("/model/kv_heads");
  return kv_heads % tp == 0 || tp % kv_heads == 0;
}

std::string nearest_tp_of_kv_heads(const Effective& c) {
  const int64_t heads = c.integer("/model/heads"), wish = c.integer("/mesh/tp");
  int64_t best = 1;
  for (int64_t tp = 1; tp <= heads; ++tp)
    if (heads % tp == 0 && divides_kv_heads(c, tp) && std::abs(tp - wish) < std::abs(best - wish)) best = tp;
  return fmt::format("{}", best);
}

bool sums_by_tree(const Effective& c) { return c.is("/zero/sum_order", "tree"); }

constexpr Check kParallelChecks[] = {
    {"/mesh/dp_replicate",
     {"/mesh/dp_replicate", "/mesh/dp_shard"},
     has_too_many_ranks,
     "dp_replicate {/mesh/dp_replicate} x dp_shard {/mesh/dp_shard} are more than 1048576 ranks",
     "use {} or less",
     [](const Effective& c) { return fmt::format("{}", kMostRanks / c.integer("/mesh/dp_shard")); }},
    {"/mesh/cp",
     {"/mesh/cp", "/mesh/dp_replicate", "/mesh/dp_shard"},
     [](const Effective& c) { return !has_too_many_ranks(c) && summed_ranks(c) > kMostRanks; },
     "dp_replicate {/mesh/dp_replicate} x dp_shard {/mesh/dp_shard} x cp {/mesh/cp} are more than 1048576 "
     "ranks",
     "use {} or less",
     [](const Effective& c) { return fmt::format("{}", kMostRanks / data_parallel_ranks(c)); }},
    {"/mesh/tp",
     {"/mesh/tp", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) {
       return !has_too_many_ranks(c) && summed_ranks(c) <= kMostRanks &&
              summed_ranks(c) * c.integer("/mesh/tp") > kMostRanks;
     },
     "dp_replicate {/mesh/dp_replicate} x dp_shard {/mesh/dp_shard} x cp {/mesh/cp} x tp {/mesh/tp} are more "
     "than 1048576 ranks",
     "use {} or less",
     [](const Effective& c) { return fmt::format("{}", kMostRanks / summed_ranks(c)); }},
    {"/mesh/cp",
     {"/mesh/cp", "/batch/sequence"},
     [](const Effective& c) {
       return c.integer("/mesh/cp") > 1 && 2 * c.integer("/mesh/cp") > c.integer("/batch/sequence");
     },
     "rows of {/batch/sequence} tokens are too short for {/mesh/cp} context-parallel ranks, which take two "
     "chunks each",
     "use {} or less",
     [](const Effective& c) {
       return fmt::format("{}", std::max<int64_t>(1, c.integer("/batch/sequence") / 2));
     }},
    {"/mesh/cp",
     {"/mesh/cp", "/mesh/cp_mode", "/mesh/tp", "/model/heads", "/model/kv_heads"},
     [](const Effective& c) {
       return c.is("/mesh/cp_mode", "ulysses") && !divides_heads(c, c.integer("/mesh/cp"));
     },
     "cp_mode \"ulysses\": {/mesh/cp} ranks cannot share {/model/heads} heads and {/model/kv_heads} "
     "key/value heads over tp {/mesh/tp} equally",
     "use {}, or set cp_mode to \"ring\"",
     nearest_cp},
    {"/mesh/tp",
     {"/mesh/tp", "/model/heads"},
     [](const Effective& c) { return c.integer("/model/heads") % c.integer("/mesh/tp") != 0; },
     "{/mesh/tp} tensor-parallel ranks cannot share {/model/heads} heads equally",
     "use {}",
     [](const Effective& c) { return nearest_tp(c, "/model/heads"); }},
    {"/mesh/tp",
     {"/mesh/tp", "/model/mlp_width"},
     [](const Effective& c) { return c.integer("/model/mlp_width") % c.integer("/mesh/tp") != 0; },
     "{/mesh/tp} tensor-parallel ranks cannot share an mlp_width of {/model/mlp_width} equally",
     "use {}",
     [](const Effective& c) { return nearest_tp(c, "/model/mlp_width"); }},
    {"/mesh/tp",
     {"/mesh/tp", "/model/heads", "/model/kv_heads"},
     [](const Effective& c) {
       const int64_t tp = c.integer("/mesh/tp");
       return c.integer("/model/heads") % tp == 0 && !divides_kv_heads(c, tp);
     },
     "{/mesh/tp} tensor-parallel ranks and {/model/kv_heads} key/value heads: neither divides the other",
     "use {}",
     nearest_tp_of_kv_heads},
    {"/mesh/sequence_parallel",
     {"/mesh/sequence_parallel", "/mesh/tp"},
     [](const Effective& c) { return c.flag("/mesh/sequence_parallel") && c.integer("/mesh/tp") == 1; },
     "has no effect: mesh.tp is 1, and sequence parallelism divides rows among tensor-parallel ranks",
     "remove it, or set /mesh/tp to 2 or more"},
    {"/mesh/tp_chunks",
     {"/mesh/tp_chunks", "/mesh/tp"},
     [](const Effective& c) { return sums_in_chunks(c) && c.integer("/mesh/tp") == 1; },
     "{/mesh/tp_chunks} chunks have no effect: mesh.tp is 1, so no products are summed over ranks",
     "remove it, or set /mesh/tp to 2 or more"},
    {"/mesh/tp_chunks",
     {"/mesh/tp_chunks", "/recompute/rows"},
     [](const Effective& c) { return sums_in_chunks(c) && c.integer("/recompute/rows") > 0; },
     "{/mesh/tp_chunks} chunks cannot be combined with tiles of rows: recompute.rows is {/recompute/rows}, "
     "so the MLP computes that many rows at a time",
     "use 1, or set /recompute/rows to 0"},
    {"/mesh/tp_chunks",
     {"/mesh/tp_chunks", "/adapter/dora"},
     [](const Effective& c) { return sums_in_chunks(c) && c.flag("/adapter/dora"); },
     "is {/mesh/tp_chunks}, but with DoRA each product also sums weight norms over ranks, and that sum would "
     "wait for the previous chunk",
     "use 1, or turn adapter.dora off"},

    {"/zero/stage",
     {"/zero/stage", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) {
       return c.integer("/zero/stage") > 0 && c.integer("/mesh/dp_shard") * c.integer("/mesh/cp") == 1;
     },
     "stage {/zero/stage} has nothing to shard over: mesh.dp_shard is 1",
     "set /mesh/dp_shard to 2 or more, or stage to 0"},
    {"/zero/reshard_group",
     {"/zero/reshard_after_forward"},
     [](const Effective& c) {
       return c.is("/zero/reshard_after_forward", "group") && !c.is_given("/zero/reshard_group");
     },
     "is missing: reshard_after_forward is \"group\"",
     "give the number of ranks that hold a secondary shard, such as those of one host; it must divide "
     "mesh.dp_shard"},
    {"/zero/reshard_group",
     {"/zero/reshard_group", "/mesh/dp_shard"},
     [](const Effective& c) {
       return c.integer("/mesh/dp_shard") > 1 && has_effect(c, "/zero/reshard_group") &&
              c.integer("/mesh/dp_shard") % c.integer("/zero/reshard_group") != 0;
     },
     "a group of {/zero/reshard_group} ranks does not divide mesh.dp_shard {/mesh/dp_shard}",
     "use {}",
     [](const Effective& c) {
       return fmt::format("{}",
                          nearest_divisor(c.integer("/mesh/dp_shard"), c.integer("/zero/reshard_group"), 2));
     }},
    {"/zero/reshard_group",
     {"/zero/reshard_group", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) {
       return c.integer("/mesh/dp_shard") == 1 && c.integer("/mesh/cp") > 1 &&
              has_effect(c, "/zero/reshard_group");
     },
     "groups of {/zero/reshard_group} ranks must divide mesh.dp_shard, which is 1; context-parallel ranks do "
     "not count",
     "set /mesh/dp_shard to 2 or more, or /zero/reshard_after_forward to \"full\" or \"keep\""},
    {"/zero/first_bucket_bytes",
     {"/zero/first_bucket_bytes", "/zero/bucket_bytes"},
     [](const Effective& c) {
       return c.integer("/zero/first_bucket_bytes") > c.integer("/zero/bucket_bytes");
     },
     "the first bucket of {/zero/first_bucket_bytes} bytes is larger than the others, "
     "{/zero/bucket_bytes}",
     "use {/zero/bucket_bytes} or less"},
    {"/zero/gradient_type",
     {"/zero/gradient_type", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) { return !c.is("/zero/gradient_type", "fp32") && summed_ranks(c) == 1; },
     "{/zero/gradient_type} has no effect: one data-parallel rank sends no gradients",
     "remove it, or set /mesh/dp_replicate or /mesh/dp_shard to 2 or more"},
    {"/zero/gradient_type",
     {"/zero/gradient_type", "/zero/sum_order"},
     [](const Effective& c) { return sums_by_tree(c) && !c.is("/zero/gradient_type", "fp32"); },
     "gradients sent as {/zero/gradient_type} depend on the number of ranks, but sum_order \"tree\" promises "
     "equal results",
     "use \"fp32\", or set zero.sum_order to \"ranks\""},
    {"/zero/gradient_type",
     {"/zero/gradient_type", "/precision", "/zero/sum_order", "/mesh/dp_replicate", "/mesh/dp_shard",
      "/mesh/cp"},
     [](const Effective& c) {
       return c.is("/precision", "bf16_pure") && c.is("/zero/gradient_type", "fp32") && !sums_by_tree(c) &&
              summed_ranks(c) > 1;
     },
     "precision \"bf16_pure\" keeps gradients as bf16, so they cannot be sent as fp32",
     "use \"bf16\", or leave it out"},
    {"/zero/quantized_gradients",
     {"/zero/quantized_gradients", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) { return quantizes_gradients(c) && summed_ranks(c) == 1; },
     "{/zero/quantized_gradients} has no effect: one data-parallel rank sends no gradients",
     "remove it, or set /mesh/dp_replicate or /mesh/dp_shard to 2 or more"},
    {"/zero/quantized_gradients",
     {"/zero/quantized_gradients", "/zero/sum_order"},
     [](const Effective& c) { return sums_by_tree(c) && quantizes_gradients(c); },
     "gradients sent as {/zero/quantized_gradients} depend on the number of ranks, but sum_order \"tree\" "
     "promises equal results",
     "use \"off\", or set zero.sum_order to \"ranks\""},
    {"/zero/quantized_gradients",
     {"/zero/quantized_gradients", "/precision"},
     [](const Effective& c) { return c.is("/precision", "bf16_pure") && quantizes_gradients(c); },
     "precision \"bf16_pure\" rounds gradients to bf16 before they are sent, and "
     "{/zero/quantized_gradients} needs them as fp32",
     "use \"off\", or set precision to \"bf16\""},
    {"/zero/quantized_weights",
     {"/zero/quantized_weights", "/zero/sum_order", "/zero/stage"},
     [](const Effective& c) { return sums_by_tree(c) && quantizes_weights(c); },
     "weights gathered as {/zero/quantized_weights} differ from those of other stages, but sum_order "
     "\"tree\" "
     "promises equal results",
     "use \"off\", or set zero.sum_order to \"ranks\""},
    {"/zero/quantized_weights",
     {"/zero/quantized_weights", "/precision", "/zero/stage"},
     [](const Effective& c) { return c.is("/precision", "bf16_pure") && quantizes_weights(c); },
     "precision \"bf16_pure\" keeps no fp32 masters, from which {/zero/quantized_weights} is rounded",
     "use \"off\", or set precision to \"bf16\""},
    {"/zero/quantized_weights",
     {"/zero/quantized_weights", "/adapter/rank", "/zero/stage"},
     [](const Effective& c) { return quantizes_weights(c) && c.integer("/adapter/rank") > 0; },
     "{/zero/quantized_weights} is for weights that are trained, and an adapter freezes them",
     "use \"off\", or set adapter.base to \"nf4\", which is gathered in fewer bytes"},
    {"/zero/sum_order",
     {"/precision", "/zero/sum_order"},
     [](const Effective& c) { return c.is("/precision", "bf16_pure") && sums_by_tree(c); },
     "precision \"bf16_pure\" rounds the gradients of each micro-batch, so results depend on the number of "
     "ranks, but sum_order \"tree\" promises equal results",
     "use \"ranks\", or set precision to \"bf16\""},
    {"/zero/reduce",
     {"/zero/reduce", "/zero/sum_order"},
     [](const Effective& c) { return sums_by_tree(c) && c.is("/zero/reduce", "per_micro_batch"); },
     "reduce \"per_micro_batch\" sums over ranks before micro-batches, but sum_order \"tree\" sums over "
     "micro-batches first",
     "use \"per_step\", or set zero.sum_order to \"ranks\""},

    {"/mesh/dp_replicate",
     {"/mesh/dp_replicate", "/zero/sum_order"},
     [](const Effective& c) { return sums_by_tree(c) && !is_power_of_two(c.integer("/mesh/dp_replicate")); },
     "sum_order \"tree\" needs powers of two, and dp_replicate {/mesh/dp_replicate} is not one",
     "use {}, or set zero.sum_order to \"ranks\"",
     [](const Effective& c) { return nearest_powers(c.integer("/mesh/dp_replicate")); }},
    {"/mesh/dp_shard",
     {"/mesh/dp_shard", "/zero/sum_order"},
     [](const Effective& c) { return sums_by_tree(c) && !is_power_of_two(c.integer("/mesh/dp_shard")); },
     "sum_order \"tree\" needs powers of two, and dp_shard {/mesh/dp_shard} is not one",
     "use {}, or set zero.sum_order to \"ranks\"",
     [](const Effective& c) { return nearest_powers(c.integer("/mesh/dp_shard")); }},
    {"/mesh/cp",
     {"/mesh/cp", "/zero/sum_order"},
     [](const Effective& c) { return sums_by_tree(c) && !is_power_of_two(c.integer("/mesh/cp")); },
     "sum_order \"tree\" needs powers of two, and cp {/mesh/cp} is not one",
     "use {}, or set zero.sum_order to \"ranks\"",
     [](const Effective& c) { return nearest_powers(c.integer("/mesh/cp")); }},
    {"/batch/grad_accum_steps",
     {"/batch/grad_accum_steps", "/zero/sum_order"},
     [](const Effective& c) {
       return sums_by_tree(c) && !is_power_of_two(c.integer("/batch/grad_accum_steps"));
     },
     "sum_order \"tree\" needs powers of two, and grad_accum_steps {/batch/grad_accum_steps} is not one",
     "use {}, or set zero.sum_order to \"ranks\"",
     [](const Effective& c) { return nearest_powers(c.integer("/batch/grad_accum_steps")); }},

    {"/comm/sum_group",
     {"/comm/sum_group", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) {
       return !has_too_many_ranks(c) && summed_ranks(c) % c.integer("/comm/sum_group") != 0;
     },
     "a group of {/comm/sum_group} ranks does not divide the ranks whose gradients are summed, dp_replicate "
     "{/mesh/dp_replicate} x dp_shard {/mesh/dp_shard} x cp {/mesh/cp}",
     "use {}",
     [](const Effective& c) {
       return fmt::format("{}", nearest_divisor(summed_ranks(c), c.integer("/comm/sum_group"), 1));
     }},
    {"/comm/sum_group",
     {"/comm/sum_group", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp", "/zero/stage"},
     [](const Effective& c) {
       const int64_t shard = c.integer("/mesh/dp_shard") * c.integer("/mesh/cp"),
                     group = c.integer("/comm/sum_group");
       return c.integer("/zero/stage") > 0 && c.integer("/mesh/dp_replicate") > 1 && shard > 1 &&
              group != shard && summed_ranks(c) % group == 0;
     },
     "with replicas of shards, sum_group must be the ranks of one replica, dp_shard {/mesh/dp_shard} x cp "
     "{/mesh/cp}, not {/comm/sum_group}",
     "use {}, or leave it out",
     [](const Effective& c) {
       return fmt::format("{}", c.integer("/mesh/dp_shard") * c.integer("/mesh/cp"));
     }},
};

}  // namespace

std::span<const Check> parallel_checks() { return kParallelChecks; }

}  // namespace hawser::config
