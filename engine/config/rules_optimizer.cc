// Optimizer rules: what an optimizer of whole matrices, one with state in 8 bits, the average of weights, and
// a limit of attention scores do not support.
#include <fmt/format.h>

#include "engine/config/rules.h"

namespace hawser::config {
namespace {

bool uses_muon(const Effective& c) { return uses_optimizer(c, "muon"); }
bool uses_adamw8(const Effective& c) { return uses_optimizer(c, "adamw8"); }

constexpr const char* kOtherKind =
    "use \"adamw\", \"lion\" or \"sgd\" in /optimizer/kind and /optimizer/rules";

constexpr Check kOptimizerChecks[] = {
    {"/precision",
     {"/precision", "/optimizer/kind"},
     [](const Effective& c) { return uses_muon(c) && c.is("/precision", "bf16_pure"); },
     "precision \"bf16_pure\" keeps gradients and moments as bf16, and optimizer \"muon\" needs both in fp32",
     "use \"bf16\", which keeps fp32 masters, or another optimizer"},
    {"/device",
     {"/device", "/optimizer/kind"},
     [](const Effective& c) { return uses_muon(c) && c.is("/device", "cuda"); },
     "optimizer \"muon\" is not supported on device \"cuda\" yet",
     kOtherKind},
    {"/precision",
     {"/precision", "/optimizer/kind"},
     [](const Effective& c) { return uses_adamw8(c) && c.is("/precision", "bf16_pure"); },
     "precision \"bf16_pure\" keeps gradients and moments as bf16, and optimizer \"adamw8\" has fp32 "
     "gradients "
     "and moments in 8 bits",
     "use \"bf16\", which keeps fp32 masters, or optimizer \"adamw\""},
    {"/device",
     {"/device", "/optimizer/kind"},
     [](const Effective& c) { return uses_adamw8(c) && c.is("/device", "cuda"); },
     "optimizer \"adamw8\" is not supported on device \"cuda\" yet",
     kOtherKind},
    {"/optimizer/average",
     {"/optimizer/average", "/precision"},
     [](const Effective& c) { return c.is("/precision", "bf16_pure"); },
     "an average with decay {/optimizer/average} needs fp32 weights, and precision \"bf16_pure\" keeps none",
     "leave it out, or use precision \"bf16\""},
    {"/optimizer/qk_clip",
     {"/optimizer/qk_clip", "/model/qk_norm"},
     [](const Effective& c) { return c.flag("/model/qk_norm"); },
     "{/optimizer/qk_clip} has no effect: model.qk_norm normalises queries and keys, so smaller weights "
     "would "
     "not lower any attention score",
     "remove it"},
    {"/optimizer/qk_clip",
     {"/optimizer/qk_clip", "/model/attention_softcap"},
     [](const Effective& c) { return c.number("/model/attention_softcap") > 0; },
     "model.attention_softcap {/model/attention_softcap} already limits attention scores; a second limit of "
     "{/optimizer/qk_clip} is not supported",
     "remove it"},
    {"/optimizer/qk_clip",
     {"/optimizer/qk_clip", "/adapter/rank"},
     [](const Effective& c) { return c.integer("/adapter/rank") > 0; },
     "qk_clip {/optimizer/qk_clip} scales the weights of queries and keys, which are frozen under an adapter",
     "remove it"},
    {"/optimizer/qk_clip",
     {"/optimizer/qk_clip", "/precision"},
     [](const Effective& c) { return c.is("/precision", "bf16_pure"); },
     "qk_clip {/optimizer/qk_clip} needs fp32 weights, and precision \"bf16_pure\" keeps none",
     "remove it, or use precision \"bf16\""},
    {"/device",
     {"/device", "/optimizer/qk_clip"},
     [](const Effective& c) { return c.is("/device", "cuda"); },
     "/optimizer/qk_clip {/optimizer/qk_clip} is not supported on device \"cuda\" yet",
     "use device \"cpu\", or remove /optimizer/qk_clip"},
    {"/init/average",
     {"/init/average"},
     [](const Effective& c) { return c.flag("/init/average") && !c.is_given("/init/from"); },
     "has no effect: there is no checkpoint to take averages from",
     "give the checkpoint in /init/from, or remove it"},
};

}  // namespace

bool uses_optimizer(const Effective& c, std::string_view kind) {
  if (c.is("/optimizer/kind", kind)) return true;
  for (size_t i = 0; i < c.count("/optimizer/rules"); ++i)
    if (const std::string at = fmt::format("/optimizer/rules/{}/kind", i); c.has(at) && c.is(at, kind))
      return true;
  return false;
}

std::span<const Check> optimizer_checks() { return kOptimizerChecks; }

}  // namespace hawser::config
