// Derivation rules: derive values that were not given. Rows run top to bottom, so a row may use values
// derived above it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/divisor.h"
#include "engine/config/rules.h"
#include "engine/config/rules_batch.h"
#include "engine/config/rules_ramp.h"
#include "engine/config/schema_view.h"
#include "engine/config/tree.h"
#include "engine/nn/rope_table.h"

namespace hawser::config {
namespace {

constexpr int64_t kUsualFirstBucket = 1 << 20;
constexpr double kUsualSecondsBetweenSaves = 300;
/// Up to this many ranks are summed in one step, more in two steps, so that a rank need not communicate with
/// all others.
constexpr int64_t kMostSummedAtOnce = 64;

bool is_gated(const Effective& c) { return !c.is("/model/mlp", "gelu") && !c.is("/model/mlp", "gelu_tanh"); }

/// A rank communicates with its group and with one member of each other group. It has the fewest partners if
/// the group's size is the square root of the degree, or the next divisor below it.
int64_t usual_sum_group(const Effective& c) {
  const int64_t cp = c.integer("/mesh/cp"), shard = c.integer("/mesh/dp_shard") * cp,
                ranks = data_parallel_ranks(c) * cp;
  if (shard > 1 && c.integer("/mesh/dp_replicate") > 1) return shard;
  if (ranks <= kMostSummedAtOnce) return ranks;
  const int64_t group = divisor_at_root(ranks);
  return group > 1 ? group : ranks;
}

/// Makes one source from data.path, unless sources were given later than (or with) it.
Value sources_of_path(const Effective& c) {
  if (c.is_given("/data/sources") && c.origin("/data/sources") >= c.origin("/data/path")) return Value();
  const FieldView& field = *schema().find("data")->table->find("sources");
  Value array;
  array.kind = Value::Kind::kArray;
  Value source = Value::table(field.element->table->fields.size());
  source.fields[static_cast<size_t>(field.element->table->find("path")->id)] =
      Value::of_string(c.text("/data/path"));
  array.items.push_back(std::move(source));
  return array;
}

/// Returns 4 times the width. Gated forms have a third matrix, so 8/3 of the width, rounded up to full
/// vectors, gives the same size.
Value usual_mlp_width(const Effective& c) {
  const int64_t width = c.integer("/model/width");
  if (!is_gated(c)) return Value::of_int(4 * width);
  return Value::of_int((8 * width / 3 + 63) / 64 * 64);
}

bool has_biases(const Effective& c) {
  return c.has("/model/bias/all") ? c.flag("/model/bias/all") : c.is("/model/norm", "layer_norm");
}
Value usual_bias(const Effective& c) { return Value::of_bool(has_biases(c)); }

bool has_experts(const Effective& c) { return c.integer("/model/moe/experts") > 0; }

/// Converts epochs to a number of steps, unless steps were given later than (or with) epochs.
Value steps_of_epochs(const Effective& c) {
  if (c.is_given("/train/steps") && c.origin("/train/steps") >= c.origin("/train/epochs")) return Value();
  const double rows = c.number("/train/epochs") * c.number("/train/epoch_samples");
  if (const std::vector<RampSize> ramp = ramp_of(c); !ramp.empty()) {
    constexpr double kMostRows = 1e15;
    const auto whole = static_cast<int64_t>(std::min(kMostRows, std::ceil(rows * (1 - 1e-12))));
    return Value::of_int(std::max<int64_t>(1, steps_of_rows(ramp, whole)));
  }
  const double steps = std::ceil(rows / c.number("/batch/global_batch") * (1 - 1e-12));
  return Value::of_int(static_cast<int64_t>(std::clamp(steps, 1.0, 1e12)));
}

/// True if training starts from trained weights. Settings that suit random weights would undo them.
bool fine_tunes(const Effective& c) { return !c.text("/init/from").empty(); }
bool fine_tunes_with_adam(const Effective& c) { return fine_tunes(c) && c.is("/optimizer/kind", "adamw"); }

/// True if a router with such scores is still untrained. Without balancing, it would send all tokens to few
/// experts.
bool routes_anew(const Effective& c, const char* score) {
  return has_experts(c) && c.is("/model/moe/score", score) && !(c.has("/init/from") && fine_tunes(c));
}

Value usual_warmup(const Effective& c) {
  if (!fine_tunes(c)) return Value();
  const int64_t steps = std::min(c.integer("/train/steps"), c.integer("/schedule/decay_steps"));
  return Value::of_int((3 * steps + 99) / 100);
}

/// Returns at most an eighth of the run as the warm-up of a preset, whose author expected a longer run.
Value shorter_warmup(const Effective& c) {
  if (c.origin("/schedule/warmup_steps") != Origin::kPreset) return Value();
  const int64_t steps = std::min(c.integer("/train/steps"), c.integer("/schedule/decay_steps"));
  if (c.integer("/schedule/warmup_steps") <= steps / 8) return Value();
  return Value::of_int(steps / 8);
}

Value usual_attention_scale(const Effective& c) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(c.integer("/model/head_dim")));
  const double all = c.number("/model/rope/mscale_all_dim");
  if (c.integer("/model/latent/kv_rank") == 0 || !c.is("/model/rope/scaling", "yarn") || all == 0)
    return Value::of_double(scale);
  const double mscale = nn::yarn_mscale(c.number("/model/rope/factor"), all);
  return Value::of_double(scale * mscale * mscale);
}

constexpr Derivation kDerivations[] = {
    {"objective.kind = reward, because the model ends in a score",
     "/objective/kind",
     {"/model/head"},
     [](const Effective& c) { return c.is("/model/head", "score") ? Value::of_string("reward") : Value(); }},
    {"model.head = score, because the objective is a reward",
     "/model/head",
     {"/objective/kind"},
     [](const Effective& c) {
       return c.is("/objective/kind", "reward") ? Value::of_string("score") : Value();
     }},
    {"model.tied_head = false: a score head has no row per token",
     "/model/tied_head",
     {"/model/head"},
     [](const Effective& c) {
       const bool chosen = c.origin("/model/tied_head") >= Origin::kFile;
       return c.is("/model/head", "score") && !chosen ? Value::of_bool(false) : Value();
     },
     true},
    {"mesh.sequence_parallel = true if tp is above 1",
     "/mesh/sequence_parallel",
     {"/mesh/tp"},
     [](const Effective& c) { return Value::of_bool(c.integer("/mesh/tp") > 1); }},
    {"data.sources = [data.path]", "/data/sources", {"/data/path"}, sources_of_path, true},
    {"data.format = text, because a vocabulary is given",
     "/data/format",
     {"/data/vocabulary"},
     [](const Effective&) { return Value::of_string("text"); }},
    {"data.packing = true, because prepared rows may hold several documents, unless they are pairs",
     "/data/packing",
     {"/data/format", "/objective/kind"},
     [](const Effective& c) {
       return c.is("/data/format", "prepared") && !learns_from_pairs(c) ? Value::of_bool(true) : Value();
     }},
    {"model.vocab_size = 256, the number of bytes",
     "/model/vocab_size",
     {"/data/vocabulary", "/data/format"},
     [](const Effective& c) {
       return c.is("/data/vocabulary", "bytes") && c.is("/data/format", "text") ? Value::of_int(256)
                                                                                : Value();
     }},
    {"model.vocab_size = data.vocab_size, the tokens to be learned",
     "/model/vocab_size",
     {"/data/vocabulary", "/data/format", "/data/vocab_size"},
     [](const Effective& c) {
       return c.is("/data/vocabulary", "bpe") && c.is("/data/format", "text")
                  ? Value::of_int(c.integer("/data/vocab_size"))
                  : Value();
     }},
    {"model.position = rotary with rms_norm, learned with layer_norm",
     "/model/position",
     {"/model/norm"},
     [](const Effective& c) {
       return Value::of_string(c.is("/model/norm", "rms_norm") ? "rotary" : "learned");
     }},
    {"model.kv_heads = heads",
     "/model/kv_heads",
     {"/model/heads"},
     [](const Effective& c) { return Value::of_int(c.integer("/model/heads")); }},
    {"model.head_dim = width / heads",
     "/model/head_dim",
     {"/model/width", "/model/heads"},
     [](const Effective& c) {
       const int64_t width = c.integer("/model/width"), heads = c.integer("/model/heads");
       return width % heads == 0 ? Value::of_int(width / heads) : Value();
     }},
    {"model.rope.dim = head_dim, if positions are rotary and attention is not latent",
     "/model/rope/dim",
     {"/model/head_dim", "/model/position", "/model/latent/kv_rank"},
     [](const Effective& c) {
       const bool rotates = c.is("/model/position", "rotary") && c.integer("/model/latent/kv_rank") == 0;
       const int64_t head_dim = c.integer("/model/head_dim");
       return rotates && head_dim % 2 == 0 ? Value::of_int(head_dim) : Value();
     }},
    {"model.mlp_width = 4 width, gated forms 8/3 width rounded up to 64",
     "/model/mlp_width",
     {"/model/width", "/model/mlp"},
     usual_mlp_width},
    {"model.moe.width = mlp_width",
     "/model/moe/width",
     {"/model/moe/experts", "/model/mlp_width"},
     [](const Effective& c) {
       return has_experts(c) ? Value::of_int(c.integer("/model/mlp_width")) : Value();
     }},
    {"model.moe.top_groups = model.moe.groups",
     "/model/moe/top_groups",
     {"/model/moe/groups"},
     [](const Effective& c) { return Value::of_int(c.integer("/model/moe/groups")); }},
    {"model.latent.value_dim = head_dim - rope_dim",
     "/model/latent/value_dim",
     {"/model/latent/kv_rank", "/model/head_dim", "/model/latent/rope_dim"},
     [](const Effective& c) {
       const int64_t own = c.integer("/model/head_dim") - c.integer("/model/latent/rope_dim");
       return c.integer("/model/latent/kv_rank") > 0 && own > 0 ? Value::of_int(own) : Value();
     }},
    {"model.attention_scale = head_dim^-0.5, with latent attention and yarn times the square of 0.1 "
     "mscale_all_dim "
     "ln(factor) + 1",
     "/model/attention_scale",
     {"/model/head_dim", "/model/latent/kv_rank", "/model/rope/scaling", "/model/rope/factor",
      "/model/rope/mscale_all_dim"},
     usual_attention_scale},
    {"model.rope.original_context = context (yarn)",
     "/model/rope/original_context",
     {"/model/context"},
     [](const Effective& c) {
       return c.is("/model/rope/scaling", "yarn") ? Value::of_int(c.integer("/model/context")) : Value();
     }},

    {"model.bias.q = bias.all, else true with layer_norm", "/model/bias/q", {"/model/norm"}, usual_bias},
    {"model.bias.k = bias.all, else true with layer_norm", "/model/bias/k", {"/model/norm"}, usual_bias},
    {"model.bias.v = bias.all, else true with layer_norm", "/model/bias/v", {"/model/norm"}, usual_bias},
    {"model.bias.o = bias.all, else true with layer_norm", "/model/bias/o", {"/model/norm"}, usual_bias},
    {"model.bias.up = bias.all, else true with layer_norm", "/model/bias/up", {"/model/norm"}, usual_bias},
    {"model.bias.down = bias.all, else true with layer_norm",
     "/model/bias/down",
     {"/model/norm"},
     usual_bias},
    {"model.bias.gate = like the other biases if the mlp has a gate",
     "/model/bias/gate",
     {"/model/norm"},
     [](const Effective& c) { return Value::of_bool(is_gated(c) && has_biases(c)); }},
    {"model.bias.norm = like the other biases with layer_norm, false with rms_norm",
     "/model/bias/norm",
     {"/model/norm"},
     [](const Effective& c) { return Value::of_bool(c.is("/model/norm", "layer_norm") && has_biases(c)); }},

    {"moe.aux_loss = 0.01 for random weights and score softmax, else 0",
     "/moe/aux_loss",
     {"/model/moe/experts"},
     [](const Effective& c) { return Value::of_double(routes_anew(c, "softmax") ? 0.01 : 0); }},
    {"moe.balance_rate = 0.001 for random weights and score sigmoid, else 0",
     "/moe/balance_rate",
     {"/model/moe/experts"},
     [](const Effective& c) { return Value::of_double(routes_anew(c, "sigmoid") ? 0.001 : 0); }},
    {"adapter.alpha = 2 adapter.rank",
     "/adapter/alpha",
     {"/adapter/rank"},
     [](const Effective& c) {
       const int64_t rank = c.integer("/adapter/rank");
       return rank > 0 ? Value::of_double(2.0 * static_cast<double>(rank)) : Value();
     }},
    {"objective.beta = 0.1, as in TRL; simpo: 2",
     "/objective/beta",
     {"/objective/kind"},
     [](const Effective& c) {
       if (!learns_from_pairs(c) || c.is("/objective/kind", "reward")) return Value();
       return Value::of_double(c.is("/objective/kind", "simpo") ? 2 : 0.1);
     }},
    {"teacher.top = 64, at most model.vocab_size, with teacher.from; else 0",
     "/teacher/top",
     {"/model/vocab_size"},
     [](const Effective& c) {
       const int64_t most = std::min<int64_t>(64, c.integer("/model/vocab_size"));
       return Value::of_int(c.is_given("/teacher/from") ? most : 0);
     }},
    {"batch.sequence = model.context",
     "/batch/sequence",
     {"/model/context"},
     [](const Effective& c) { return Value::of_int(c.integer("/model/context")); }},
    {"batch.global_batch = the largest size of batch.ramp",
     "/batch/global_batch",
     {"/batch/ramp"},
     largest_of_ramp,
     true},
    {"batch.micro_batch = global_batch / grad_accum_steps / dp; 8 or the next divisor below if they are not "
     "given",
     "/batch/micro_batch",
     {"/mesh/dp_replicate", "/mesh/dp_shard"},
     usual_micro_batch,
     true},
    {"batch.grad_accum_steps = global_batch / micro_batch / dp; 1 if global_batch is not given",
     "/batch/grad_accum_steps",
     {"/batch/micro_batch", "/mesh/dp_replicate", "/mesh/dp_shard"},
     usual_grad_accum_steps,
     true},
    {"batch.global_batch = micro_batch * grad_accum_steps * dp_replicate * dp_shard",
     "/batch/global_batch",
     {"/batch/micro_batch", "/batch/grad_accum_steps", "/mesh/dp_replicate", "/mesh/dp_shard"},
     product_of_batch},
    {"zero.gradient_type = bf16, because precision bf16_pure keeps no other",
     "/zero/gradient_type",
     {"/precision", "/zero/sum_order", "/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) {
       return c.is("/precision", "bf16_pure") && c.is("/zero/sum_order", "ranks") &&
                      data_parallel_ranks(c) * c.integer("/mesh/cp") > 1
                  ? Value::of_string("bf16")
                  : Value();
     }},
    {"zero.first_bucket_bytes = 1 MiB, at most bucket_bytes",
     "/zero/first_bucket_bytes",
     {"/zero/bucket_bytes"},
     [](const Effective& c) {
       return Value::of_int(std::min(kUsualFirstBucket, c.integer("/zero/bucket_bytes")));
     }},
    {"comm.sum_group = dp_shard x cp with replicas of shards; else all ranks of dp x cp up to 64, and of "
     "more "
     "their largest divisor that is at most the square root (of a prime: all)",
     "/comm/sum_group",
     {"/mesh/dp_replicate", "/mesh/dp_shard", "/mesh/cp"},
     [](const Effective& c) { return Value::of_int(usual_sum_group(c)); }},
    {"checkpoint.every_seconds = 300 if checkpoint.every is 0, else 0",
     "/checkpoint/every_seconds",
     {"/checkpoint/every"},
     [](const Effective& c) {
       return Value::of_double(c.integer("/checkpoint/every") == 0 ? kUsualSecondsBetweenSaves : 0.0);
     }},
    {"train.steps = train.epochs * train.epoch_samples / batch.global_batch, rounded up; with a "
     "batch.ramp, the fewest steps that consume as many rows",
     "/train/steps",
     {"/train/epochs", "/train/epoch_samples", "/batch/global_batch"},
     steps_of_epochs,
     true},
    {"schedule.decay_steps = train.steps",
     "/schedule/decay_steps",
     {"/train/steps"},
     [](const Effective& c) { return Value::of_int(c.integer("/train/steps")); }},

    // Fine-tuning defaults follow instruction tuning of full models (Alpaca, Vicuna, TRL's trainers).
    {"schedule.warmup_steps = 3 % of train.steps with init.from: the optimizer's averages start at 0, and "
     "the "
     "first steps must not move trained weights far",
     "/schedule/warmup_steps",
     {"/init/from", "/train/steps", "/schedule/decay_steps"},
     usual_warmup},
    {"schedule.warmup_steps = the preset's, at most an eighth of the run",
     "/schedule/warmup_steps",
     {"/schedule/warmup_steps", "/train/steps", "/schedule/decay_steps"},
     shorter_warmup,
     true},
    {"optimizer.learning_rate = 1e-6 with an objective over pairs, 1e-5 for an adapter: as in TRL's "
     "trainers; ten "
     "times that for a reward, whose head is new",
     "/optimizer/learning_rate",
     {"/objective/kind", "/optimizer/kind", "/adapter/rank"},
     [](const Effective& c) {
       if (!learns_from_pairs(c) || !c.is("/optimizer/kind", "adamw")) return Value();
       const double usual = c.is("/objective/kind", "reward") ? 1e-5 : 1e-6;
       return Value::of_double(c.integer("/adapter/rank") > 0 ? 10 * usual : usual);
     }},
    {"optimizer.learning_rate = 2e-5 with init.from: small enough to keep what the model knows",
     "/optimizer/learning_rate",
     {"/init/from", "/optimizer/kind"},
     [](const Effective& c) { return fine_tunes_with_adam(c) ? Value::of_double(2e-5) : Value(); }},
    {"optimizer.weight_decay = 0 with init.from: decay pulls trained weights to 0, not to where they were",
     "/optimizer/weight_decay",
     {"/init/from"},
     [](const Effective& c) { return fine_tunes(c) ? Value::of_double(0) : Value(); }},
    {"optimizer.beta2 = 0.999 with init.from: batches are small and gradients noisy, so their squares are "
     "averaged longer",
     "/optimizer/beta2",
     {"/init/from", "/optimizer/kind"},
     [](const Effective& c) { return fine_tunes_with_adam(c) ? Value::of_double(0.999) : Value(); }},
};

constexpr Alternative kAlternatives[] = {{"/train/steps", "/train/epochs"}};

}  // namespace

std::span<const Derivation> derivations() { return kDerivations; }
std::span<const Alternative> alternatives() { return kAlternatives; }

}  // namespace hawser::config
