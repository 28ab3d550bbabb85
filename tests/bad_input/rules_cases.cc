// Rule cases: configs that parse but are contradictory or impossible to train. They are planned, never run.
#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace rules_cases {

Case alone(const std::string& json, std::vector<std::string> words) {
  return {"nothing but `" + json + "`", HWS_CONFIG_INVALID, std::move(words),
          [json](Site&) { return plan(Json::parse(json)); }};
}

std::vector<Case> ranges() {
  return {
      bad(R"({"model": {"layers": 0}})", {"/model/layers", "0 is less than the minimum 1", "use 1 or more"}),
      bad(R"({"model": {"layers": 20000}})", {"/model/layers", "more than the maximum 10000"}),
      bad(R"({"model": {"vocab_size": -5}})", {"/model/vocab_size", "-5", "minimum 1 tokens"}),
      bad(R"({"model": {"vocab_size": 9223372036854775807}})", {"/model/vocab_size", "maximum 2147483647"}),
      bad(R"({"model": {"width": 9223372036854775807, "heads": 1}})", {"/model/width", "1048576"}),
      bad(R"({"model": {"norm_eps": 0}})", {"/model/norm_eps", "not greater than 0"}),
      bad(R"({"model": {"dropout": {"residual": 1}}})", {"/model/dropout/residual", "not less than 1"}),
      bad(R"({"optimizer": {"learning_rate": -1}})", {"/optimizer/learning_rate", "-1", "minimum 0"}),
      bad(R"({"optimizer": {"beta1": 1.5}})", {"/optimizer/beta1", "1.5"}),
      bad(R"({"batch": {"micro_batch": 0}})", {"/batch/micro_batch", "minimum 1 rows"}),
      bad(R"({"train": {"steps": 0}})", {"/train/steps", "minimum 1"}),
      bad(R"({"cpu": {"threads": 5000}})", {"/cpu/threads", "5000", "4096"}),
      bad(R"({"cpu": {"max_isa": "avx2"}})", {"/cpu/max_isa", "\"avx2\" is not one of", "x86-64-v3"}),
      bad(R"({"cpu": {"max_isa": "armv8-a"}})", {"/cpu/max_isa", "\"armv8-a\" is for aarch64 processors",
                                                 "x86-64; use \"generic\"", "leave it out"}),
      bad(R"({"cpu": {"max_isa": "armv8.2-a+bf16"}})",
          {"/cpu/max_isa", "\"armv8.2-a+bf16\" is for aarch64 processors", "or \"x86-64-v4+bf16\""}),
      bad(R"({"cuda": {"algorithm_cache": "a"}})",
          {"/cuda/algorithm_cache", "no effect: device is \"cpu\"", "\"cuda\""}),
      bad(R"({"cuda": {"graphs": false}})", {"/cuda/graphs", "no effect: device is \"cpu\"", "\"cuda\""}),
      bad(R"({"precision": "bf16", "cuda": {"residual": "bf16"}})",
          {"/cuda/residual", "no effect: device is \"cpu\"", "set device to \"cuda\""}),
      bad(R"({"precision": "bf16", "device": "auto", "cuda": {"residual": "bf16"}})",
          {"/cuda/residual", "no effect: device is \"auto\"", "set device to \"cuda\""}),
      bad(R"({"device": "cuda", "cuda": {"residual": "bf16"}})",
          {"/cuda/residual", "products with precision \"fp32\"",
           "use \"f32\", or set /precision to \"bf16\""}),
      bad(R"({"precision": "bf16", "device": "cuda", "cuda": {"residual": "fp8"}})",
          {"/cuda/residual", "\"fp8\"", "use one of them"}),
      bad(R"({"train": {"epochs": 0}})", {"/train/epochs", "not greater than 0"}),
      bad(R"({"train": {"epochs": 2, "steps": 5, "epoch_samples": 9}})",
          {"/train/epochs", "both train.epochs and train.steps", "keep one"}),
      bad(R"({"train": {"patience": 2}})", {"/train/patience", "eval_every is 0", "give train.eval_every"}),
      bad(R"({"zero": {"stage": 4}})", {"/zero/stage", "4 is more than the maximum 3"}),
      bad(R"({"comm": {"timeout_seconds": 0}})", {"/comm/timeout_seconds", "not greater than 0"}),
      bad(R"({"data": {"format": "text", "vocabulary": "bytes", "path": "a", "validation_fraction": 1}})",
          {"/data/validation_fraction", "not less than 1"}),
  };
}

std::vector<Case> model() {
  return {
      alone("{}", {"/model", "describes no model", "preset"}),
      alone(R"({"model": {"layers": 2}})",
            {"/model/vocab_size: is missing", "/model/context", "/model/width", "/model/heads"}),
      alone(R"({"preset": "gpt2-small"})", {"/preset", "\"gpt2-small\"", "gpt2"}),
      bad(R"({"model": {"heads": 3}})", {"/model/heads", "3 heads do not divide the width 16", "use 2"}),
      bad(R"({"model": {"heads": 4, "kv_heads": 3}})", {"/model/kv_heads", "3 key/value heads", "use 2"}),
      bad(R"({"model": {"head_dim": 5, "position": "rotary"}})", {"/model/head_dim", "5 is odd", "use 6"}),
      bad(R"({"model": {"position": "rotary", "rope": {"dim": 5}}})",
          {"/model/rope/dim", "5 must be even", "head_dim 8", "such as 4"}),
      bad(R"({"model": {"position": "rotary", "rope": {"dim": 10}}})",
          {"/model/rope/dim", "10 must be even and at most head_dim 8", "such as 4"}),
      bad(R"({"model": {"position": "learned", "rope": {"dim": 4}}})",
          {"/model/rope/dim", "no effect", "rotary"}),
      bad(R"({"model": {"norm": "rms_norm", "bias": {"norm": true}}})",
          {"/model/bias/norm", "rms_norm has no bias"}),
      bad(R"({"model": {"bias": {"gate": true}}})", {"/model/bias/gate", "gelu_tanh", "no gate"}),
      bad(R"({"model": {"sinks": true, "attention_softcap": 30}})",
          {"/model/sinks", "soft caps", "attention_softcap is 30", "use false"}),
      bad(R"({"model": {"window": 4, "window_layers": [1]}})",
          {"/model/window_layers", "1 layers", "use layers from 0 to 0"}),
      bad(R"({"model": {"window": 4, "window_layers": [0, 0]}})", {"/model/window_layers", "twice", "once"}),
      bad(R"({"model": {"window_layers": [0]}})", {"/model/window", "no window"}),
      bad(R"({"model": {"position": "rotary", "rope": {"scaling": "yarn"}}})",
          {"/model/rope/factor", "yarn", "such as 8"}),
      bad(R"({"model": {"position": "rotary", "rope": {"scaling": "llama3", "factor": 8}}})",
          {"/model/rope/original_context", "llama3", "8192"}),
      bad(R"({"model": {"position": "rotary", "rope": {"scaling": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 2}}})",
          {"/model/rope/beta_fast", "1", "2", "such as 32"}),
      bad(R"({"model": {"position": "learned", "rope": {"theta": 500000}}})",
          {"/model/rope/theta", "500000", "no effect", "rotary"}),
      bad(R"({"model": {"padding_token": 61}})", {"/model/padding_token", "61", "0 to 60"}),
      bad(R"({"batch": {"sequence": 32}})", {"/batch/sequence", "32", "context 16", "use 16 or less"}),
      bad(R"({"batch": {"global_batch": 3}})", {"/batch/global_batch", "3", "micro_batch 2", "use 2 or 4"}),
      bad(R"({"batch": {"global_batch": 12, "grad_accum_steps": 2}})",
          {"/batch/global_batch", "12", "use 4"}),
      bad(R"({"model": {"context": 16777216}, "batch": {"micro_batch": 1048576, "sequence": 16777216}})",
          {"/batch/micro_batch", "2147483647 tokens", "use 127 rows"}),
  };
}

std::vector<Case> training() {
  return {
      bad(R"({"data": {"path": "a"}})", {"/data/format", "no format", "megatron"}),
      bad(R"({"data": {"format": "text", "path": "a"}})",
          {"/data/vocabulary", "needs a vocabulary", "bytes"}),
      bad(R"({"data": {"format": "tokens", "path": "a"}})",
          {"/data/token_type", "type of a token id", "u16"}),
      bad(R"({"data": {"format": "tokens", "token_type": "u16", "path": "a", "packing": true}})",
          {"/data/packing", "documents end", "data.separator"}),
      bad(R"({"data": {"format": "tokens", "token_type": "u16", "path": "a", "separator": 61}})",
          {"/data/separator", "61", "0 to 60"}),
      bad(R"({"data": {"format": "text", "vocabulary": "bytes", "path": "a"}})",
          {"/model/vocab_size", "vocab_size 61", "256"}),
      bad(R"({"data": {"format": "text", "vocabulary": "bpe", "vocab_size": 300, "path": "a"}})",
          {"/model/vocab_size", "vocab_size 61", "300 tokens", "/data/vocab_size"}),
      bad(R"({"data": {"format": "tokens", "token_type": "u16", "sources": [{"weight": 1}]}})",
          {"/data/sources/0/path", "is missing"}),
      bad(R"({"data": {"format": "tokens", "token_type": "u16", "sources": [{"path": "a", "weight": 0}]}})",
          {"/data/sources/0/weight", "not greater than 0"}),
      bad(R"({"data": {"format": "tokens", "token_type": "u16", "path": "a", "sources": [{"path": "b"}]}})",
          {"/data/sources", "both", "keep one"}),
      bad(R"({"data": {"format": "megatron", "validation_sources": [{"path": "b"}]}})",
          {"/data/sources", "nothing to train on"}),
      bad(R"({"telemetry": {"samples": [{"text": "a", "messages": [{"role": "user", "content": "a"}]}]}})",
          {"/telemetry/samples/0", "a text and messages", "one of them"}),
      bad(R"({"telemetry": {"samples": [{}]}})", {"/telemetry/samples/0", "neither a text nor messages"}),
      bad(R"({"telemetry": {"samples": [{"messages": []}]}})", {"/telemetry/samples/0", "empty prompt"}),
      bad(R"({"telemetry": {"samples": [{"messages": [{"role": "user"}]}]}})",
          {"/telemetry/samples/0/messages/0/content", "is missing", "a role and a content"}),
      bad(R"({"telemetry": {"sample_tokens": 9}})",
          {"/telemetry/sample_tokens", "no effect", "telemetry.samples"}),
      bad(R"({"telemetry": {"samples": [{"text": "a"}]}, "model": {"head": "score"}, "batch": {"micro_batch": 2}})",
          {"/telemetry/samples", "ends in a score", "leave samples out"}),
      bad(R"({"optimizer": {"momentum": 0.9}})", {"/optimizer/momentum", "no effect", "\"sgd\""}),
      bad(R"({"optimizer": {"kind": "sgd", "nesterov": true}})",
          {"/optimizer/momentum", "it is 0", "use 0.9"}),
      bad(R"({"optimizer": {"frozen": [""]}})", {"/optimizer/frozen/0", "is empty", "remove it"}),
      bad(R"({"optimizer": {"frozen": ["blocks.[01]"]}})", {"/optimizer/frozen/0", "'['", "blocks.0.*"}),
      bad(R"({"optimizer": {"frozen": ["block.0.*"]}})", {"/optimizer/frozen", "block.0.*"}),
      bad(R"({"schedule": {"decay_shape": "sqrt"}})", {"/schedule/decay_shape", "no effect", "\"wsd\""}),
      bad(R"({"schedule": {"min_learning_rate": 1}})",
          {"/schedule/min_learning_rate", "above learning_rate"}),
      bad(R"({"schedule": {"warmup_steps": 9, "decay_steps": 4}})",
          {"/schedule/warmup_steps", "9 warm-up", "step 4"}),
      bad(R"({"schedule": {"kind": "wsd", "warmup_steps": 1, "stable_steps": 9, "decay_steps": 4}})",
          {"/schedule/stable_steps", "use 3 or less"}),
      bad(R"({"guard": {"outlier_z": 3}})", {"/guard/outlier_z", "no effect", "\"skip\""}),
      bad(R"({"guard": {"outlier": "skip", "max_rewinds": 2}})",
          {"/guard/max_rewinds", "no effect", "\"rewind\""}),
      bad(R"({"guard": {"outlier": "rewind"}})",
          {"/guard/outlier", "checkpoint.path is not set", "\"skip\""}),
      bad(R"({"guard": {"outlier": "rewind"}, "checkpoint": {"path": "run", "every": 0, "every_seconds": 0}})",
          {"/guard/outlier", "checkpoint.every_seconds are 0", "set checkpoint.every"}),
  };
}

std::vector<Case> tensor_parallel() {
  return {
      bad(R"({"mesh": {"dp_shard": 1024, "tp": 2048}, "model": {"width": 4096, "heads": 4096, "mlp_width": 4096}})",
          {"/mesh/tp", "1048576 ranks", "use 1024 or less"}),
      bad(R"({"mesh": {"tp": 5}, "model": {"width": 24, "heads": 6, "mlp_width": 20}})",
          {"/mesh/tp", "5 tensor-parallel ranks", "6 heads", "use 6"}),
      bad(R"({"mesh": {"tp": 3}, "model": {"width": 24, "heads": 6, "mlp_width": 20}})",
          {"/mesh/tp", "mlp_width of 20", "use 2"}),
      bad(R"({"mesh": {"tp": 6}, "model": {"width": 24, "heads": 12, "kv_heads": 4, "mlp_width": 24}})",
          {"/mesh/tp", "4 key/value heads", "neither divides", "use 4"}),
      bad(R"({"mesh": {"sequence_parallel": true}})",
          {"/mesh/sequence_parallel", "no effect", "set /mesh/tp to 2 or more"}),
      bad(R"({"mesh": {"tp_chunks": 4}})", {"/mesh/tp_chunks", "no effect", "set /mesh/tp to 2 or more"}),
      bad(R"({"mesh": {"tp": 2, "tp_chunks": 65}})", {"/mesh/tp_chunks", "65", "64"}),
      bad(R"({"mesh": {"tp": 2, "tp_chunks": 4}, "recompute": {"rows": 16}})",
          {"/mesh/tp_chunks", "recompute.rows is 16", "use 1"}),
      bad(R"({"mesh": {"tp": 2, "tp_chunks": 4}, "adapter": {"rank": 2, "dora": true}})",
          {"/mesh/tp_chunks", "DoRA", "use 1"}),
  };
}

std::vector<Case> context_parallel() {
  return {
      bad(R"({"mesh": {"dp_shard": 1024, "cp": 2048}, "batch": {"sequence": 8192}, "model": {"context": 8192}})",
          {"/mesh/cp", "1048576 ranks", "use 1024 or less"}),
      bad(R"({"mesh": {"cp": 9}, "batch": {"sequence": 16}})",
          {"/mesh/cp", "two chunks", "16 tokens", "use 8"}),
      bad(R"({"mesh": {"cp": 4, "cp_mode": "ulysses"}, "model": {"width": 24, "heads": 6}})",
          {"/mesh/cp", "ulysses", "6 heads", "use 3"}),
      bad(R"({"mesh": {"cp": 2, "tp": 2, "cp_mode": "ulysses"}, "model": {"width": 24, "heads": 6, "mlp_width": 24}})",
          {"/mesh/cp", "over tp 2", "use 1"}),
      bad(R"({"mesh": {"cp_mode": "gather"}})", {"/mesh/cp_mode", "no effect", "set mesh.cp to 2 or more"}),
      bad(R"({"mesh": {"cp": 3}, "zero": {"sum_order": "tree"}})", {"/mesh/cp", "tree", "use 2 or 4"}),
  };
}

/// A row with `patch` merged into the valid config with six experts, whose MLP has no biases.
Case bad_mixture(const std::string& patch, std::vector<std::string> words) {
  return {"6 experts and `" + patch + "`", HWS_CONFIG_INVALID, std::move(words), [patch](Site&) {
            Json experts = Json::parse(
                R"({"model": {"bias": {"up": false, "down": false}, "moe": {"experts": 6, "width": 8}}})");
            experts.merge_patch(Json::parse(patch));
            return plan(sound_config(experts));
          }};
}

/// A row with `patch` merged into the valid config with latent attention and heads of 12 features.
Case with_latent(const std::string& patch, std::vector<std::string> words) {
  return {"latent attention and `" + patch + "`", HWS_CONFIG_INVALID, std::move(words), [patch](Site&) {
            Json latent = Json::parse(R"({"model": {"norm": "rms_norm", "head_dim": 12, "bias": {"v": false},
                                         "latent": {"kv_rank": 8, "rope_dim": 4}}})");
            latent.merge_patch(Json::parse(patch));
            return plan(sound_config(latent));
          }};
}

std::vector<Case> latent_attention() {
  return {
      bad(R"({"model": {"latent": {"q_rank": 8}}})", {"/model/latent/q_rank", "no effect", "kv_rank"}),
      bad(R"({"model": {"latent": {"interleaved": false}}})", {"/model/latent/interleaved", "no effect"}),
      with_latent(R"({"model": {"latent": {"kv_rank": 1}}})",
                  {"/model/latent/kv_rank", "its sign", "2 or more"}),
      with_latent(R"({"model": {"kv_heads": 1}})", {"/model/kv_heads", "heads, 2, not 1", "use 2"}),
      with_latent(R"({"model": {"position": "none"}})", {"/model/position", "none", "rotary"}),
      with_latent(R"({"model": {"latent": {"rope_dim": 12}}})",
                  {"/model/latent/rope_dim", "12", "such as 4"}),
      with_latent(R"({"model": {"latent": {"rope_dim": 3}}})",
                  {"/model/latent/rope_dim", "3 must be even", "such as 4"}),
      with_latent(R"({"model": {"rope": {"dim": 4}}})",
                  {"/model/rope/dim", "the end of each head", "/model/latent/rope_dim"}),
      with_latent(R"({"model": {"qk_norm": true}})", {"/model/qk_norm", "compressed rows", "false"}),
      with_latent(R"({"model": {"sinks": true}})", {"/model/sinks", "latent attention", "use false"}),
      with_latent(R"({"model": {"bias": {"v": true}}})", {"/model/bias/v", "no bias", "bias.k"}),
      with_latent(R"({"mesh": {"tp": 3}})", {"/mesh/tp", "3", "2 heads"}),
  };
}

std::vector<Case> experts() {
  return {
      bad(R"({"model": {"moe": {"experts": 1}}})", {"/model/moe/experts", "plain MLP", "2 or more"}),
      bad(R"({"model": {"moe": {"top_k": 3}}})", {"/model/moe/top_k", "no effect", "experts to 2 or more"}),
      bad(R"({"moe": {"z_loss": 0.1}})", {"/moe/z_loss", "no effect", "experts to 2 or more"}),
      bad(R"({"model": {"moe": {"experts": 4, "shared_width": 8}}})",
          {"/model/moe/shared_width", "cannot have biases", "up and down to false"}),
      bad(R"({"model": {"bias": {"router": true}}})",
          {"/model/bias/router", "no effect", "experts to 2 or more"}),
      bad(R"({"model": {"moe": {"experts": 4, "top_k": 2}}, "device": "cuda"})",
          {"/device", "biases of experts", "cuda", "up and down to false"}),
      bad_mixture(R"({"model": {"moe": {"top_k": 7}}})", {"/model/moe/top_k", "top_k 7", "use 6 or less"}),
      bad_mixture(R"({"model": {"moe": {"groups": 4}}})",
                  {"/model/moe/groups", "4 groups", "6 experts", "use 3"}),
      bad_mixture(R"({"model": {"moe": {"groups": 3, "top_groups": 4}}})",
                  {"/model/moe/top_groups", "4 of 3 groups", "use 3 or less"}),
      bad_mixture(R"({"model": {"moe": {"groups": 3, "top_groups": 1, "top_k": 3}}})",
                  {"/model/moe/top_k", "1 of 3 groups", "use 2 or less"}),
      bad_mixture(R"({"model": {"moe": {"top_groups": 1}}})", {"/model/moe/top_groups", "no effect"}),
      bad_mixture(R"({"model": {"moe": {"layers": [1]}}})", {"/model/moe/layers", "1 layers", "from 0 to 0"}),
      bad_mixture(R"({"model": {"moe": {"layers": [0, 0]}}})", {"/model/moe/layers", "twice", "once"}),
      bad_mixture(R"({"model": {"moe": {"layers": []}}})",
                  {"/model/moe/layers", "no layer has the 6 experts"}),
      bad_mixture(R"({"model": {"moe": {"shared_gate": true}}})",
                  {"/model/moe/shared_gate", "no shared expert"}),
      bad_mixture(R"({"model": {"moe": {"score": "tanh"}}})", {"/model/moe/score", "tanh", "sigmoid"}),
      bad_mixture(R"({"moe": {"balance_rate": 0.1}})", {"/moe/balance_rate", "does not have", "sigmoid"}),
      bad_mixture(R"({"moe": {"capacity_factor": 2}})", {"/moe/capacity_factor", "no effect", "capacity"}),
      bad_mixture(R"({"moe": {"dispatch": "capacity"}, "zero": {"sum_order": "tree"}})",
                  {"/moe/dispatch", "tree", "dropless"}),
      bad_mixture(R"({"mesh": {"ep": 4, "dp_shard": 4}})",
                  {"/mesh/ep", "4 ranks cannot share 6 experts", "use 2"}),
      bad_mixture(R"({"mesh": {"ep": 3, "dp_shard": 2}})",
                  {"/mesh/ep", "ep 3 does not divide the ranks", "dp_shard 2", "use 2"}),
      bad_mixture(R"({"mesh": {"ep": 6, "dp_shard": 2}})",
                  {"/mesh/ep", "does not divide the ranks of a stage"}),
      bad_mixture(R"({"mesh": {"ep": 2, "pp": 2}, "model": {"layers": 2}})",
                  {"/mesh/ep", "does not divide the ranks of a stage", "use 1"}),
      bad_mixture(R"({"mesh": {"ep": 6, "dp_replicate": 2, "dp_shard": 3}})",
                  {"/mesh/dp_replicate", "2 replicas", "ep 6 must divide", "set /mesh/ep to 3"}),
      bad_mixture(R"({"mesh": {"ep": 2, "dp_shard": 2}, "zero": {"sum_order": "tree"}})",
                  {"/zero/sum_order", "ep 2", "use \"ranks\""}),
      bad_mixture(R"({"mesh": {"ep": 2, "dp_shard": 4}, "zero": {"stage": 3, "reshard_after_forward": "group",
                      "reshard_group": 2}})",
                  {"/zero/reshard_after_forward", "not supported", "\"full\""}),
      bad_mixture(R"({"mesh": {"ep": 2, "tp": 2, "sequence_parallel": false}})",
                  {"/mesh/sequence_parallel", "route the same rows", "use true"}),
      bad_mixture(R"({"moe": {"rows_factor": 3}})", {"/moe/rows_factor", "no effect", "mesh.ep"}),
      bad_mixture(R"({"mesh": {"tp": 2, "sequence_parallel": false}})",
                  {"/mesh/sequence_parallel", "route the same rows", "use true"}),
      bad_mixture(R"({"mesh": {"cp": 3}, "batch": {"sequence": 16}})",
                  {"/mesh/cp", "16 tokens", "batch.sequence to 12"}),
  };
}

std::vector<Case> pipelines() {
  return {
      bad(R"({"mesh": {"pp": 3}, "model": {"layers": 2}})",
          {"/mesh/pp", "3 stages", "2 layers", "use 2 or less"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "pipeline": {"schedule": "interleaved"}})",
          {"/pipeline/chunks", "there is 1", "use 2 or more"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "pipeline": {"chunks": 2}})",
          {"/pipeline/chunks", "no effect", "interleaved"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "pipeline": {"schedule": "2f2b"}})",
          {"/pipeline/schedule", "2f2b", "or \"dualpipev\""}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 3}, "batch": {"grad_accum_steps": 4},
              "pipeline": {"schedule": "zbv"}})",
          {"/mesh/pp", "2 stages cannot share 3 layers", "gives each two chunks", "use 1 or less"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "batch": {"grad_accum_steps": 3},
              "pipeline": {"schedule": "dualpipev"}})",
          {"/pipeline/schedule", "two micro-batches for each of 2 stages", "grad_accum_steps to 4 or more"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 6}, "batch": {"grad_accum_steps": 4},
              "pipeline": {"schedule": "zbv", "chunks": 3}})",
          {"/pipeline/chunks", "exactly 2 chunks", "use 2"}),
      bad(R"({"model": {"position": "rotary", "rope": {"window_theta": 5000}}})",
          {"/model/rope/window_theta", "5000", "no layer has a window", "give /model/window"}),
      bad(R"({"pipeline": {"schedule": "gpipe"}})",
          {"/pipeline/schedule", "no effect", "set mesh.pp to 2 or more"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "batch": {"grad_accum_steps": 4},
              "pipeline": {"schedule": "interleaved", "chunks": 2, "group": 5}})",
          {"/pipeline/group", "group 5", "mesh.pp 2", "grad_accum_steps 4", "use 4"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "pipeline": {"layers": [1, 1, 2]}})",
          {"/pipeline/layers", "2 stages x 1 chunks", "give 2 numbers"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "pipeline": {"layers": [1, 2]}})",
          {"/pipeline/layers", "must add up to the 4 layers", "their sum is 3"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4}, "pipeline": {"layers": [4, 0]}})",
          {"/pipeline/layers", "without a layer", "give each 1 or more"}),
      bad(R"({"mesh": {"pp": 2}, "model": {"layers": 4, "tied_head": true}, "precision": "bf16_pure"})",
          {"/mesh/pp", "tied head", "set /precision to \"bf16\""}),
  };
}

std::vector<Case> parallel() {
  return {
      bad(R"({"zero": {"stage": 2}})", {"/zero/stage", "nothing to shard", "/mesh/dp_shard"}),
      bad(R"({"mesh": {"dp_shard": 3}, "batch": {"global_batch": 16, "micro_batch": 2}})",
          {"/batch/global_batch", "16", "dp_shard 3", "use 12 or 18"}),
      bad(R"({"mesh": {"dp_shard": 65536, "dp_replicate": 65536}})",
          {"/mesh/dp_replicate", "1048576 ranks", "use 16 or less"}),
      bad(R"({"mesh": {"dp_shard": 4}, "zero": {"stage": 3, "reshard_after_forward": "group"}})",
          {"/zero/reshard_group", "is missing"}),
      bad(R"({"mesh": {"dp_shard": 4}, "zero": {"stage": 3, "reshard_after_forward": "group", "reshard_group": 3}})",
          {"/zero/reshard_group", "3 ranks", "use 2"}),
      bad(R"({"mesh": {"cp": 2}, "zero": {"stage": 3, "reshard_after_forward": "group", "reshard_group": 2}})",
          {"/zero/reshard_group", "mesh.dp_shard, which is 1", "/mesh/dp_shard to 2"}),
      bad(R"({"mesh": {"dp_shard": 2}, "comm": {"device_transport": "nccl"}})",
          {"/comm/device_transport", "has no effect", "device is \"cpu\""}),
      bad(R"({"mesh": {"dp_shard": 2}, "zero": {"bucket_bytes": 100, "first_bucket_bytes": 200}})",
          {"/zero/first_bucket_bytes", "200", "use 100 or less"}),
      bad(R"({"zero": {"gradient_type": "bf16"}})",
          {"/zero/gradient_type", "no effect", "one data-parallel rank"}),
      bad(R"({"precision": "bf16_pure", "mesh": {"dp_shard": 2}, "zero": {"gradient_type": "fp32"}})",
          {"/zero/gradient_type", "keeps gradients as bf16", "leave it out"}),
      bad(R"({"precision": "bf16_pure", "batch": {"grad_accum_steps": 2}, "zero": {"sum_order": "tree"}})",
          {"/zero/sum_order", "rounds the gradients of each micro-batch", "use \"ranks\""}),
      bad(R"({"mesh": {"dp_shard": 3}, "zero": {"sum_order": "tree"}})",
          {"/mesh/dp_shard", "3 is not one", "use 2 or 4"}),
      bad(R"({"mesh": {"dp_shard": 4}, "comm": {"sum_group": 3}})", {"/comm/sum_group", "3 ranks", "use 2"}),
      bad(R"({"mesh": {"ep": 2}})", {"/mesh/ep", "no effect", "model.moe.experts"}),
      {"`{\"mesh\": {\"dp_shard\": 2}}` without a comm",
       HWS_CONFIG_INVALID,
       {"/mesh has 2 ranks", "make them equal"},
       [](Site&) { return create(sound_config(Json::parse(R"({"mesh": {"dp_shard": 2}})"))); }},
      {"a model that no machine holds: 60 layers of width 1,048,576",
       HWS_OUT_OF_MEMORY,
       {"out of memory: the plan needs", "GiB", "bytes), ", "are available",
        "/optimizer/kind sgd without momentum saves"},
       [](Site&) {
         return create(
             sound_config(Json::parse(R"({"model": {"layers": 60, "width": 1048576, "heads": 65536}})")));
       },
       true},
      {"10,000 layers of width 1,048,576, whose bytes no 64 bits count",
       HWS_OUT_OF_MEMORY,
       {"out of memory:", "parameters", "more than 2^62 bytes", "make /model"},
       [](Site&) {
         return create(sound_config(Json::parse(
             R"({"model": {"layers": 10000, "width": 1048576, "heads": 65536, "head_dim": 256,
                 "mlp_width": 4194304, "vocab_size": 2147483647}})")));
       },
       true},
      {"10,000 layers of width 1,024",
       HWS_OUT_OF_MEMORY,
       {"the plan needs", "GiB", "are available", "/optimizer/kind sgd without momentum saves"},
       [](Site&) {
         return create(sound_config(Json::parse(
             R"({"model": {"layers": 10000, "width": 1024, "heads": 16}, "batch": {"micro_batch": 64}})")));
       },
       true},
  };
}

}  // namespace rules_cases

Area rules_area() {
  using namespace rules_cases;
  Area area = {
      "Configs that contradict themselves",
      "Each row is merged into a valid config (one block of width 16 with 2 heads, 61 tokens, context 16, "
      "micro_batch 2) and planned.",
      ranges()};
  for (const auto& more : {model(), training(), optimizer_rules_cases(), precision_cases(), ramp_cases(),
                           parallel(), ahead_cases(), quantized_cases(), tensor_parallel(),
                           context_parallel(), experts(), latent_attention(), pipelines()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
