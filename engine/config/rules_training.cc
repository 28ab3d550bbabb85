// Training rules: refuse contradictions in the sections on data, optimizer, schedule and training, and list
// the fields that have an effect only together with another.
#include <fmt/format.h>

#include "engine/config/rules.h"
#include "engine/config/rules_batch.h"
#include "engine/config/tree.h"
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::config {
namespace {

bool decays(const Effective& c) {
  return c.is("/schedule/kind", "linear") || c.is("/schedule/kind", "cosine") ||
         c.is("/schedule/kind", "wsd");
}

bool has_teacher(const Effective& c, std::string_view) {
  return c.has("/teacher/top") && c.integer("/teacher/top") > 0;
}

bool looks_ahead(const Effective& c) { return c.integer("/model/ahead") > 0; }
bool has_depths(const Effective& c, std::string_view) { return looks_ahead(c); }

constexpr Check kTrainingChecks[] = {
    {"/data/sources",
     {"/data/path", "/data/sources"},
     [](const Effective& c) {
       return c.origin("/data/path") == c.origin("/data/sources");
     },  // given at different levels, the later one counts
     "both data.path and data.sources are given",
     "keep one of them: path is short for one source"},
    {"/data/format",
     {"/data/sources"},
     [](const Effective& c) { return c.count("/data/sources") > 0 && !c.has("/data/format"); },
     "data has sources, but no format",
     "use \"text\", \"tokens\", \"megatron\" or \"prepared\" (rows of `hawser prepare`)"},
    {"/data/sources",
     {"/data/validation_sources"},
     [](const Effective& c) {
       return c.count("/data/validation_sources") > 0 && c.count("/data/sources") == 0;
     },
     "there are validation_sources, but nothing to train on",
     "give data.path or data.sources"},
    {"/data/vocabulary",
     {"/data/format"},
     [](const Effective& c) { return c.is("/data/format", "text") && !c.has("/data/vocabulary"); },
     "text needs a vocabulary",
     "use \"bytes\", \"characters\" or \"bpe\""},
    {"/data/token_type",
     {"/data/format"},
     [](const Effective& c) { return c.is("/data/format", "tokens") && !c.has("/data/token_type"); },
     "format \"tokens\" needs the type of a token id",
     "use \"u16\" or \"u32\""},
    {"/data/packing",
     {"/data/packing"},
     [](const Effective& c) {
       return c.flag("/data/packing") && c.count("/data/sources") > 0 && c.is("/data/format", "tokens") &&
              c.integer("/data/separator") < 0;
     },
     "packing needs to know where documents end in raw token files",
     "give data.separator, the token that ends a document"},
    {"/data/separator",
     {"/data/separator", "/model/vocab_size"},
     [](const Effective& c) { return c.integer("/data/separator") >= c.integer("/model/vocab_size"); },
     "separator {/data/separator} is not a token id of a vocabulary of {/model/vocab_size}",
     "use an id from 0 to {}",
     [](const Effective& c) { return fmt::format("{}", c.integer("/model/vocab_size") - 1); }},
    {"/data/validation_fraction",
     {"/train/eval_every", "/data/validation_fraction", "/data/sources"},
     [](const Effective& c) {
       return c.integer("/train/eval_every") > 0 && c.count("/data/sources") > 0 &&
              c.count("/data/validation_sources") == 0 && c.number("/data/validation_fraction") == 0;
     },
     "train.eval_every is set, but there is no validation data",
     "use 0.1, or give validation_sources, or set eval_every to 0"},

    {"/train/epochs",
     {"/train/epochs", "/train/steps"},
     [](const Effective& c) { return c.origin("/train/epochs") == c.origin("/train/steps"); },
     "both train.epochs and train.steps are given",
     "keep one of them: steps follow from epochs"},
    {"/train/epochs",
     {"/train/epochs"},
     [](const Effective& c) { return c.count("/data/sources") == 0 && !c.has("/train/epoch_samples"); },
     "train.epochs counts passes over the data, but the config names no data",
     "give data.path; if the program provides rows, give train.epoch_samples or train.steps"},
    {"/train/patience",
     {"/train/patience", "/train/eval_every"},
     [](const Effective& c) {
       return c.integer("/train/patience") > 0 && c.integer("/train/eval_every") == 0;
     },
     "train.patience counts validations, and there are none: train.eval_every is 0",
     "give train.eval_every, or leave patience out"},

    {"/guard/outlier",
     {"/guard/outlier"},
     [](const Effective& c) {
       return c.is("/guard/outlier", "rewind") &&
              (!c.has("/checkpoint/path") || c.text("/checkpoint/path").empty());
     },
     "outlier \"rewind\" goes back to a checkpoint of the run, but checkpoint.path is not set",
     "set checkpoint.path, or use \"skip\""},
    {"/guard/outlier",
     {"/guard/outlier", "/checkpoint/every", "/checkpoint/every_seconds"},
     [](const Effective& c) {
       return c.is("/guard/outlier", "rewind") && c.integer("/checkpoint/every") == 0 &&
              c.number("/checkpoint/every_seconds") == 0;
     },
     "outlier \"rewind\" goes back to a checkpoint of the run, but checkpoint.every and "
     "checkpoint.every_seconds are 0",
     "set checkpoint.every, or use \"skip\""},

    {"/batch/micro_batch",
     {"/objective/kind", "/batch/micro_batch"},
     [](const Effective& c) {  // a score model needs pairs only for training (Trainer::create)
       const bool asked = c.origin("/objective/kind") != Origin::kRule;
       return asked && learns_from_pairs(c) && c.integer("/batch/micro_batch") % 2 != 0;
     },
     "both answers of a pair must be in one micro-batch, but micro_batch {/batch/micro_batch} is odd",
     "use an even number such as {}, or set objective.kind to \"cross_entropy\"",
     [](const Effective& c) { return fmt::format("{}", c.integer("/batch/micro_batch") + 1); }},
    {"/objective/kind",
     {"/objective/kind", "/data/sources", "/data/format"},
     [](const Effective& c) {
       return learns_from_pairs(c) && c.count("/data/sources") > 0 && !c.is("/data/format", "prepared");
     },
     "objective {/objective/kind} trains on pairs of answers, which data of format {/data/format} cannot "
     "hold",
     "prepare rows with \"chosen\" and \"rejected\" (hawser prepare), push pairs (hws_data_push), or use "
     "\"cross_entropy\""},
    {"/objective/kind",
     {"/objective/kind", "/model/head"},
     [](const Effective& c) { return c.is("/objective/kind", "reward") != c.is("/model/head", "score"); },
     "objective {/objective/kind} does not fit model.head {/model/head}: objective \"reward\" needs head "
     "\"score\", all others need \"language\"",
     "change one of the two, or leave one out"},
    {"/data/packing",
     {"/objective/kind", "/data/packing"},
     [](const Effective& c) { return learns_from_pairs(c) && c.flag("/data/packing"); },
     "objective {/objective/kind} puts each answer into its own row, so rows cannot be packed",
     "leave packing out"},

    {"/teacher/top",
     {"/teacher/top", "/model/vocab_size"},
     [](const Effective& c) { return c.integer("/teacher/top") > c.integer("/model/vocab_size"); },
     "a teacher cannot have {/teacher/top} different ids for a target in a vocabulary of {/model/vocab_size}",
     "use at most {}",
     [](const Effective& c) { return fmt::format("{}", c.integer("/model/vocab_size")); }},
    {"/teacher/top",
     {"/teacher/top", "/objective/kind"},
     [](const Effective& c) { return c.integer("/teacher/top") > 0 && learns_from_pairs(c); },
     "a teacher ({/teacher/top} ids for each target) needs objective \"cross_entropy\", but objective "
     "{/objective/kind} trains on pairs",
     "leave one of the two out"},
    {"/teacher/from",
     {"/teacher/top"},
     [](const Effective& c) { return c.is_given("/teacher/from") && c.integer("/teacher/top") == 0; },
     "has no effect: teacher.top is {/teacher/top}",
     "set teacher.top to 1 or more, or remove teacher.top for its default"},
    {"/teacher/from",
     {"/teacher/top"},
     [](const Effective& c) { return c.is_given("/teacher/from") && c.count("/data/sources") == 0; },
     "the engine has no data on which to run the teacher ({/teacher/top} ids for each target)",
     "set /data, or push the teacher's rows with each batch (hws_data_push) and leave teacher.from out"},
    {"/device",
     {"/device", "/teacher/top"},
     [](const Effective& c) { return c.is("/device", "cuda") && c.integer("/teacher/top") > 0; },
     "a teacher (/teacher/top {/teacher/top}) is not supported on device \"cuda\" yet",
     "use device \"cpu\", or remove /teacher"},

    {"/model/ahead",
     {"/model/ahead", "/batch/sequence"},
     [](const Effective& c) {
       return looks_ahead(c) && c.integer("/model/ahead") >= c.integer("/batch/sequence");
     },
     "depth {/model/ahead} has no targets, because rows have {/batch/sequence} tokens (/batch/sequence)",
     "use at most {}, or longer rows",
     [](const Effective& c) { return fmt::format("{}", c.integer("/batch/sequence") - 1); }},
    {"/model/ahead",
     {"/model/ahead", "/objective/kind"},
     [](const Effective& c) { return looks_ahead(c) && learns_from_pairs(c); },
     "multi-token prediction (/model/ahead {/model/ahead}) is not supported with objective "
     "{/objective/kind}",
     "use 0, which leaves out the folder's layers for multi-token prediction, or objective "
     "\"cross_entropy\""},
    {"/model/ahead",
     {"/model/ahead", "/teacher/top"},
     [](const Effective& c) { return looks_ahead(c) && c.integer("/teacher/top") > 0; },
     "multi-token prediction (/model/ahead {/model/ahead}) is not supported with a teacher "
     "(/teacher/top {/teacher/top})",
     "use 0, which leaves out the folder's layers for multi-token prediction, or remove /teacher"},
    {"/model/ahead",
     {"/model/ahead", "/optimizer/qk_clip"},
     [](const Effective& c) { return looks_ahead(c); },
     "multi-token prediction (/model/ahead {/model/ahead}) is not supported with qk_clip "
     "{/optimizer/qk_clip}",
     "use 0, or leave qk_clip out"},
    {"/model/ahead",
     {"/model/ahead", "/adapter/rank"},
     [](const Effective& c) { return looks_ahead(c) && c.integer("/adapter/rank") > 0; },
     "multi-token prediction (/model/ahead {/model/ahead}) is not supported with an adapter "
     "(/adapter/rank {/adapter/rank})",
     "use 0, which leaves out the folder's layers for multi-token prediction, or remove /adapter"},
    {"/device",
     {"/device", "/model/ahead"},
     [](const Effective& c) { return c.is("/device", "cuda") && looks_ahead(c); },
     "multi-token prediction (/model/ahead {/model/ahead}) is not supported on device \"cuda\" yet",
     "use device \"cpu\", or model.ahead 0"},

    {"/optimizer/momentum",
     {"/optimizer/nesterov", "/optimizer/momentum"},
     [](const Effective& c) {
       return c.is("/optimizer/kind", "sgd") && c.flag("/optimizer/nesterov") &&
              c.number("/optimizer/momentum") == 0;
     },
     "nesterov needs a momentum, and it is 0",
     "use 0.9, or nesterov false"},
    {"/schedule/min_learning_rate",
     {"/schedule/min_learning_rate", "/optimizer/learning_rate"},
     [](const Effective& c) {
       return c.number("/schedule/min_learning_rate") > c.number("/optimizer/learning_rate");
     },
     "min_learning_rate {/schedule/min_learning_rate} is above learning_rate {/optimizer/learning_rate}",
     "use {/optimizer/learning_rate} or less"},
    {"/schedule/warmup_steps",
     {"/schedule/warmup_steps", "/schedule/decay_steps"},
     [](const Effective& c) {
       return decays(c) && c.integer("/schedule/warmup_steps") > c.integer("/schedule/decay_steps");
     },
     "{/schedule/warmup_steps} warm-up steps do not fit before the end of the decay at step "
     "{/schedule/decay_steps}",
     "use {/schedule/decay_steps} or less, or a larger decay_steps"},
    {"/schedule/stable_steps",
     {"/schedule/warmup_steps", "/schedule/decay_steps", "/schedule/stable_steps"},
     [](const Effective& c) {
       const int64_t decay = c.integer("/schedule/decay_steps"), warmup = c.integer("/schedule/warmup_steps");
       return c.is("/schedule/kind", "wsd") && warmup <= decay &&
              c.integer("/schedule/stable_steps") > decay - warmup;
     },
     "{/schedule/warmup_steps} warm-up and {/schedule/stable_steps} stable steps do not fit before the end "
     "of the "
     "decay at step {/schedule/decay_steps}",
     "use {} or less",
     [](const Effective& c) {
       return fmt::format("{}", c.integer("/schedule/decay_steps") - c.integer("/schedule/warmup_steps"));
     }},
};

std::vector<Dependence> model_dependences() {
  return {
      {"/model/norm_weight_offset", "/model/norm", {"rms_norm"}},
      {"/model/rope/theta", "/model/position", {"rotary"}},
      {"/model/rope/scaling", "/model/position", {"rotary"}},
      {"/model/rope/factor", "/model/rope/scaling", {"linear", "llama3", "yarn"}},
      {"/model/rope/original_context", "/model/rope/scaling", {"llama3", "yarn"}},
      {"/model/rope/low_freq_factor", "/model/rope/scaling", {"llama3"}},
      {"/model/rope/high_freq_factor", "/model/rope/scaling", {"llama3"}},
      {"/model/rope/beta_fast", "/model/rope/scaling", {"yarn"}},
      {"/model/rope/beta_slow", "/model/rope/scaling", {"yarn"}},
      {"/model/rope/attention_factor", "/model/rope/scaling", {"yarn"}},
      {"/model/rope/mscale", "/model/rope/scaling", {"yarn"}},
      {"/model/rope/mscale_all_dim", "/model/rope/scaling", {"yarn"}},
      {"/model/rope/truncate", "/model/rope/scaling", {"yarn"}},
      {"/model/rope/window_theta", "/model/position", {"rotary"}},
      {"/model/rope/dim", "/model/position", {"rotary"}},
      {"/model/logit_softcap", "/model/head", {"language"}},
      {"/model/latent/q_rank", "/model/latent/kv_rank", {}},
      {"/model/latent/rope_dim", "/model/latent/kv_rank", {}},
      {"/model/latent/value_dim", "/model/latent/kv_rank", {}},
      {"/model/latent/norm_eps", "/model/latent/kv_rank", {}},
      {"/model/latent/interleaved", "/model/latent/kv_rank", {}},
      {"/model/moe/top_k", "/model/moe/experts", {}},
      {"/model/bias/router", "/model/moe/experts", {}},
      {"/model/moe/width", "/model/moe/experts", {}},
      {"/model/moe/layers", "/model/moe/experts", {}},
      {"/model/moe/score", "/model/moe/experts", {}},
      {"/model/moe/normalize", "/model/moe/experts", {}},
      {"/model/moe/scale", "/model/moe/experts", {}},
      {"/model/moe/groups", "/model/moe/experts", {}},
      {"/model/moe/shared_width", "/model/moe/experts", {}},
      {"/model/moe/shared_gate", "/model/moe/experts", {}},
      {"/model/moe/top_groups", "/model/moe/groups", {}},
      {"/moe/aux_loss", "/model/moe/experts", {}},
      {"/moe/z_loss", "/model/moe/experts", {}},
      {"/moe/balance_rate", "/model/moe/experts", {}},
      {"/moe/dispatch", "/model/moe/experts", {}},
      {"/moe/capacity_factor", "/moe/dispatch", {"capacity"}},
      {"/moe/rows_factor", "/mesh/ep", {}},
      {"/mesh/ep", "/model/moe/experts", {}},
  };
}

std::vector<Dependence> precision_dependences() {
  std::vector<Dependence> rows;
  for (const char* field : {"/loss_scale/initial", "/loss_scale/growth_every", "/loss_scale/backoff",
                            "/loss_scale/patience", "/loss_scale/minimum", "/loss_scale/fixed"})
    rows.push_back({field, "/precision", {"fp16"}});
  for (const char* field : {"/fp8/recipe", "/fp8/margin"}) rows.push_back({field, "/precision", {"fp8"}});
  rows.push_back({"/fp8/history", "/fp8/recipe", {"delayed"}});
  return rows;
}

std::vector<Dependence> training_dependences() {
  return {
      {"/cuda/algorithm_cache", "/device", {"cuda", "auto"}},
      {"/cuda/graphs", "/device", {"cuda", "auto"}},
      {"/cuda/residual", "/device", {"cuda"}},
      {"/data/vocabulary", "/data/format", {"text"}},
      {"/data/vocab_size", "/data/vocabulary", {"bpe"}},
      {"/data/as_is", "/data/format", {"text"}},
      {"/data/token_type", "/data/format", {"tokens"}},
      {"/data/separator", "/data/format", {"tokens"}},
      {"/objective/beta", "/objective/kind", {"dpo", "ipo", "hinge", "dpo_sft", "simpo", "orpo"}},
      {"/objective/gamma", "/objective/kind", {"simpo"}},
      {"/objective/sft_weight", "/objective/kind", {"dpo_sft"}},
      {"/objective/label_smoothing", "/objective/kind", {"dpo", "dpo_sft"}},
      {"/objective/reference", "/objective/kind", {"dpo", "ipo", "hinge", "dpo_sft"}},
      {"/train/ahead_weight", "/model/ahead", {"1 or more"}, has_depths},
      {"/teacher/temperature", "/teacher/top", {"1 or more"}, has_teacher},
      {"/teacher/weight", "/teacher/top", {"1 or more"}, has_teacher},
      {"/optimizer/beta1", "/optimizer/kind", {"adamw", "adamw8", "lion", "muon"}, uses_optimizer},
      {"/optimizer/beta2", "/optimizer/kind", {"adamw", "adamw8", "lion", "muon"}, uses_optimizer},
      {"/optimizer/eps", "/optimizer/kind", {"adamw", "adamw8", "muon"}, uses_optimizer},
      {"/optimizer/momentum", "/optimizer/kind", {"sgd"}, uses_optimizer},
      {"/optimizer/nesterov", "/optimizer/kind", {"sgd"}, uses_optimizer},
      {"/optimizer/muon_momentum", "/optimizer/kind", {"muon"}, uses_optimizer},
      {"/optimizer/muon_scale", "/optimizer/kind", {"muon"}, uses_optimizer},
      {"/optimizer/muon_heads", "/optimizer/kind", {"muon"}, uses_optimizer},
      {"/schedule/stable_steps", "/schedule/kind", {"wsd"}},
      {"/schedule/decay_shape", "/schedule/kind", {"wsd"}},
      {"/guard/outlier_z", "/guard/outlier", {"skip", "rewind"}},
      {"/guard/max_rewinds", "/guard/outlier", {"rewind"}},
      {"/recompute/arrays", "/recompute/policy", {"selective"}},
      {"/recompute/every", "/recompute/policy", {"every"}},
      {"/offload/folder", "/offload/activations", {"disk"}},
      {"/offload/folder", "/offload/optimizer", {"disk"}},
      {"/offload/folder", "/offload/parameters", {"disk"}},
      {"/offload/prefetch", "/offload/activations", {"host", "disk"}},
      {"/offload/prefetch", "/offload/optimizer", {"host", "disk"}},
      {"/offload/prefetch", "/offload/parameters", {"host", "disk"}},
      {"/offload/prefetch", "/offload/gradients", {"host"}},
      {"/zero/reshard_after_forward", "/zero/stage", {"3"}},
      {"/zero/reshard_group", "/zero/reshard_after_forward", {"group"}},
      {"/zero/prefetch", "/zero/stage", {"3"}},
      {"/zero/quantized_weights", "/zero/stage", {"3"}},
      {"/zero/bucket_bytes", "/zero/stage", {"0", "1", "2"}},
      {"/zero/first_bucket_bytes", "/zero/stage", {"0", "1", "2"}},
      {"/comm/sum_group", "/zero/sum_order", {"ranks"}},
      {"/comm/device_transport", "/device", {"cuda", "auto"}},
      {"/mesh/cp_mode", "/mesh/cp", {}},
      {"/pipeline/schedule", "/mesh/pp", {}},
      {"/pipeline/layers", "/mesh/pp", {}},
      {"/pipeline/chunks", "/pipeline/schedule",
       parallel::pipeline::schedule_names(parallel::pipeline::has_chunks)},
      {"/pipeline/group", "/pipeline/schedule",
       parallel::pipeline::schedule_names(parallel::pipeline::has_configured_chunks)},
  };
}

const std::vector<Dependence>& dependence_table() {
  static const auto* const table = [] {
    auto* const all = new std::vector<Dependence>(model_dependences());
    for (const Dependence& row : training_dependences()) all->push_back(row);
    for (const Dependence& row : precision_dependences()) all->push_back(row);
    return all;
  }();
  return *table;
}

}  // namespace

std::span<const Check> training_checks() { return kTrainingChecks; }
std::span<const Dependence> dependences() { return dependence_table(); }

}  // namespace hawser::config
