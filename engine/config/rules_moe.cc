// Mixture rules: refuse contradictions in the structure and in the training of a mixture of experts.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/saturating.h"
#include "engine/config/rules.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

bool is_mixture(const Effective& c) { return c.integer("/model/moe/experts") > 1; }

bool has_expert_biases(const Effective& c) {
  return is_mixture(c) &&
         (c.flag("/model/bias/gate") || c.flag("/model/bias/up") || c.flag("/model/bias/down"));
}

/// Returns the number of experts among which a token may choose.
int64_t eligible(const Effective& c) {
  return c.integer("/model/moe/experts") / c.integer("/model/moe/groups") *
         c.integer("/model/moe/top_groups");
}

bool divides_experts(const Effective& c) {
  return c.integer("/model/moe/experts") % c.integer("/model/moe/groups") == 0;
}

std::vector<int64_t> named_layers(const Effective& c) {
  std::vector<int64_t> layers;
  if (const Value* list = c.find("/model/moe/layers"))
    for (const Value& item : list->items) layers.push_back(item.integer);
  std::sort(layers.begin(), layers.end());
  return layers;
}

std::string nearest_groups(const Effective& c) {
  const int64_t experts = c.integer("/model/moe/experts"), wish = c.integer("/model/moe/groups");
  int64_t best = 1;
  for (int64_t d = 1; d <= experts; ++d)
    if (experts % d == 0 && std::abs(d - wish) < std::abs(best - wish)) best = d;
  return fmt::format("{}", best);
}

bool divides_by_ep(const Effective& c) { return is_mixture(c) && c.integer("/mesh/ep") > 1; }

/// Returns the ranks of a stage: the product of all mesh axes except pp.
int64_t stage_ranks(const Effective& c) {
  int64_t ranks = 1;
  for (const char* axis : {"/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp", "/mesh/tp"})
    ranks = saturating_product(ranks, c.integer(axis));
  return ranks;
}

/// Returns the ep nearest to the given one that divides the experts, a stage's ranks, and one replica's
/// ranks.
std::string nearest_ep(const Effective& c) {
  const int64_t wish = c.integer("/mesh/ep"), ranks = stage_ranks(c) / c.integer("/mesh/dp_replicate");
  int64_t best = 1;
  for (int64_t d = 1; d <= c.integer("/model/moe/experts"); ++d)
    if (c.integer("/model/moe/experts") % d == 0 && ranks % d == 0 &&
        std::abs(d - wish) < std::abs(best - wish))
      best = d;
  return fmt::format("{}", best);
}

constexpr Check kMoeChecks[] = {
    {"/model/moe/experts",
     {"/model/moe/experts"},
     [](const Effective& c) { return c.integer("/model/moe/experts") == 1; },
     "a mixture of 1 expert routes every token to it, which is a plain MLP",
     "use 2 or more, or leave it out and set model.mlp_width"},
    {"/model/moe/groups",
     {"/model/moe/experts", "/model/moe/groups"},
     [](const Effective& c) { return is_mixture(c) && !divides_experts(c); },
     "{/model/moe/groups} groups do not divide the {/model/moe/experts} experts",
     "use {}",
     nearest_groups},
    {"/model/moe/top_groups",
     {"/model/moe/experts", "/model/moe/groups", "/model/moe/top_groups"},
     [](const Effective& c) {
       return is_mixture(c) && c.integer("/model/moe/top_groups") > c.integer("/model/moe/groups");
     },
     "a token cannot choose {/model/moe/top_groups} of {/model/moe/groups} groups",
     "use {/model/moe/groups} or less"},
    {"/model/moe/top_k",
     {"/model/moe/experts", "/model/moe/groups", "/model/moe/top_groups", "/model/moe/top_k"},
     [](const Effective& c) {
       return is_mixture(c) && divides_experts(c) &&
              c.integer("/model/moe/top_groups") <= c.integer("/model/moe/groups") &&
              c.integer("/model/moe/top_k") > eligible(c);
     },
     "top_k {/model/moe/top_k} is more than the experts in {/model/moe/top_groups} of {/model/moe/groups} "
     "groups, with {/model/moe/experts} experts in all",
     "use {} or less",
     [](const Effective& c) { return fmt::format("{}", eligible(c)); }},
    {"/model/moe/layers",
     {"/model/moe/experts", "/model/moe/layers", "/model/layers"},
     [](const Effective& c) {
       const std::vector<int64_t> layers = named_layers(c);
       return is_mixture(c) && !layers.empty() && layers.back() >= c.integer("/model/layers");
     },
     "{/model/moe/layers} names a layer that the model of {/model/layers} layers does not have",
     "use layers from 0 to {}",
     [](const Effective& c) { return fmt::format("{}", c.integer("/model/layers") - 1); }},
    {"/model/moe/layers",
     {"/model/moe/experts", "/model/moe/layers"},
     [](const Effective& c) {
       const std::vector<int64_t> layers = named_layers(c);
       return is_mixture(c) && std::adjacent_find(layers.begin(), layers.end()) != layers.end();
     },
     "{/model/moe/layers} names a layer twice",
     "name each layer once"},
    {"/model/moe/layers",
     {"/model/moe/experts", "/model/moe/layers"},
     [](const Effective& c) { return is_mixture(c) && c.count("/model/moe/layers") == 0; },
     "is empty: no layer has the {/model/moe/experts} experts",
     "name layers, or leave it out for all"},
    {"/model/moe/shared_width",
     {"/model/moe/experts", "/model/moe/shared_width", "/model/bias/gate", "/model/bias/up",
      "/model/bias/down"},
     [](const Effective& c) { return has_expert_biases(c) && c.integer("/model/moe/shared_width") > 0; },
     "a shared expert cannot have biases, but model.bias sets some in the MLP",
     "use 0, or set model.bias.gate, up and down to false"},
    {"/device",
     {"/device", "/model/moe/experts", "/model/bias/gate", "/model/bias/up", "/model/bias/down"},
     [](const Effective& c) { return has_expert_biases(c) && c.is("/device", "cuda"); },
     "biases of experts are not supported on device \"cuda\" yet",
     "use \"cpu\", or set model.bias.gate, up and down to false"},
    {"/model/moe/shared_gate",
     {"/model/moe/shared_width", "/model/moe/shared_gate"},
     [](const Effective& c) {
       return c.flag("/model/moe/shared_gate") && c.integer("/model/moe/shared_width") == 0;
     },
     "there is no shared expert for a gate: shared_width is 0",
     "use false, or give model.moe.shared_width"},
    {"/moe/balance_rate",
     {"/model/moe/experts", "/model/moe/score", "/moe/balance_rate"},
     [](const Effective& c) {
       return is_mixture(c) && c.number("/moe/balance_rate") > 0 && !c.is("/model/moe/score", "sigmoid");
     },
     "balance_rate needs a balance bias, which score {/model/moe/score} does not have",
     "use 0 and moe.aux_loss, or set model.moe.score to \"sigmoid\""},
    {"/mesh/sequence_parallel",
     {"/mesh/tp", "/mesh/sequence_parallel", "/model/moe/experts"},
     [](const Effective& c) {
       return is_mixture(c) && c.integer("/mesh/tp") > 1 && !c.flag("/mesh/sequence_parallel");
     },
     "must be true with experts: otherwise all {/mesh/tp} tensor-parallel ranks route the same rows",
     "use true, or leave it out"},
    {"/mesh/cp",
     {"/mesh/cp", "/batch/sequence", "/model/moe/experts"},
     [](const Effective& c) {
       return is_mixture(c) && c.integer("/mesh/cp") > 1 &&
              c.integer("/batch/sequence") % (2 * c.integer("/mesh/cp")) != 0;
     },
     "{/mesh/cp} context-parallel ranks cannot divide rows of {/batch/sequence} tokens without padding, "
     "which routers would count",
     "set batch.sequence to {}",
     [](const Effective& c) {
       const int64_t chunks = 2 * c.integer("/mesh/cp");
       return fmt::format("{}", std::max<int64_t>(1, c.integer("/batch/sequence") / chunks) * chunks);
     }},
    {"/moe/dispatch",
     {"/moe/dispatch", "/zero/sum_order", "/model/moe/experts"},
     [](const Effective& c) {
       return is_mixture(c) && c.is("/moe/dispatch", "capacity") && c.is("/zero/sum_order", "tree");
     },
     "dispatch \"capacity\" drops different tokens on another number of ranks, but sum_order \"tree\" "
     "promises equal results",
     "use \"dropless\", or set zero.sum_order to \"ranks\""},
    {"/recompute/rows",
     {"/recompute/rows", "/moe/dispatch", "/model/moe/experts"},
     [](const Effective& c) {
       return is_mixture(c) && c.is("/moe/dispatch", "capacity") && c.integer("/recompute/rows") > 0;
     },
     "is {/recompute/rows}, but dispatch \"capacity\" takes the rows of a whole micro-batch together, "
     "because "
     "an expert's capacity is a share of them",
     "use 0, or set moe.dispatch to \"dropless\""},
    {"/recompute/rows",
     {"/recompute/rows", "/model/moe/experts", "/model/layers"},
     [](const Effective& c) {
       const size_t named = named_layers(c).size();  // 0: all layers are mixtures
       return is_mixture(c) && c.integer("/recompute/rows") > 0 &&
              (named == 0 || named == static_cast<size_t>(c.integer("/model/layers")));
     },
     "has no effect: every layer is a mixture, and experts work in rounds of bounded rows",
     "use 0, or leave layers out of model.moe.layers"},
    {"/mesh/ep",
     {"/mesh/ep", "/model/moe/experts"},
     [](const Effective& c) {
       return divides_by_ep(c) && c.integer("/model/moe/experts") % c.integer("/mesh/ep") != 0;
     },
     "{/mesh/ep} ranks cannot share {/model/moe/experts} experts equally",
     "use {}",
     nearest_ep},
    {"/mesh/ep",
     {"/mesh/ep", "/model/moe/experts", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp", "/mesh/tp"},
     [](const Effective& c) { return divides_by_ep(c) && stage_ranks(c) % c.integer("/mesh/ep") != 0; },
     "ep {/mesh/ep} does not divide the ranks of a stage, dp_replicate {/mesh/dp_replicate} x dp_shard "
     "{/mesh/dp_shard} x cp {/mesh/cp} x tp {/mesh/tp}",
     "use {}, or raise another axis",
     nearest_ep},
    {"/mesh/dp_replicate",
     {"/mesh/ep", "/model/moe/experts", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp", "/mesh/tp"},
     [](const Effective& c) {
       const int64_t ep = c.integer("/mesh/ep"), ranks = stage_ranks(c);
       return divides_by_ep(c) && ranks % ep == 0 && ranks / ep % c.integer("/mesh/dp_replicate") != 0;
     },
     "with {/mesh/dp_replicate} replicas, ep {/mesh/ep} must divide the ranks of one, dp_shard "
     "{/mesh/dp_shard} x cp {/mesh/cp} x tp {/mesh/tp}",
     "set /mesh/ep to {}",
     nearest_ep},
    {"/zero/sum_order",
     {"/mesh/ep", "/zero/sum_order", "/model/moe/experts"},
     [](const Effective& c) { return divides_by_ep(c) && c.is("/zero/sum_order", "tree"); },
     "sum_order \"tree\" is not supported with ep {/mesh/ep}, because a rank sums the gradients of its "
     "experts over several ranks at once",
     "use \"ranks\", or set mesh.ep to 1"},
    {"/zero/reshard_after_forward",
     {"/mesh/ep", "/zero/reshard_after_forward", "/model/moe/experts"},
     [](const Effective& c) { return divides_by_ep(c) && c.is("/zero/reshard_after_forward", "group"); },
     "\"group\" with experts over ep {/mesh/ep} ranks is not supported",
     "use \"full\" or \"keep\""},
};

}  // namespace

std::span<const Check> moe_checks() { return kMoeChecks; }

}  // namespace hawser::config
