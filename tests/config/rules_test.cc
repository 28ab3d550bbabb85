// Config rules test: derivations, checks, and the meaning of short configs.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/config/problem_list.h"

namespace hawser::config {
namespace rules_test {

/// A valid small config with something changed: `edits` are pointer, JSON value pairs.
ConfigTree small(std::initializer_list<std::pair<const char*, const char*>> edits = {}) {
  ConfigTree tree = ConfigTree::from_json(
      R"({"model": {"vocab_size": 100, "context": 32, "layers": 2, "width": 48, "heads": 4}})");
  for (const auto& [pointer, value] : edits) tree.set(pointer, value);
  return tree;
}

TEST(ConfigRules, DefaultsOfTheSchemaArrive) {
  const ResolvedConfig resolved = resolve(small());
  EXPECT_EQ(resolved.device, "cpu");
  EXPECT_EQ(resolved.seed, 0u);
  EXPECT_TRUE(resolved.deterministic);
  EXPECT_EQ(resolved.precision, Precision::kFp32);
  EXPECT_EQ(resolved.init.std, 0.02);
  EXPECT_TRUE(resolved.init.scale_residual);
  EXPECT_EQ(resolved.data.format, DataFormat::kNone);
  EXPECT_EQ(resolved.data.validation_fraction, 0.1);
  EXPECT_TRUE(resolved.data.shuffle);
  EXPECT_EQ(resolved.batch.micro_batch, 8);
  EXPECT_EQ(resolved.batch.grad_accum_steps, 1);
  EXPECT_EQ(resolved.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(resolved.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(resolved.optimizer.beta1, 0.9);
  EXPECT_EQ(resolved.optimizer.beta2, 0.95);
  EXPECT_EQ(resolved.optimizer.eps, 1e-8);
  EXPECT_EQ(resolved.optimizer.weight_decay, 0.1);
  EXPECT_EQ(resolved.optimizer.momentum, 0);
  EXPECT_FALSE(resolved.optimizer.nesterov);
  EXPECT_EQ(resolved.optimizer.clip_norm, 1);
  EXPECT_EQ(resolved.schedule.kind, ScheduleKind::kCosine);
  EXPECT_TRUE(resolved.guard.skip_non_finite);
  EXPECT_EQ(resolved.guard.outlier, OutlierPolicy::kKeep);
  EXPECT_EQ(resolved.guard.outlier_z, 6);
  EXPECT_EQ(resolved.guard.max_consecutive_skips, 10);
  EXPECT_EQ(resolved.train.steps, 1000);
  EXPECT_EQ(resolved.train.log_every, 10);
  EXPECT_EQ(resolved.checkpoint.keep_last, 3);
  EXPECT_TRUE(resolved.checkpoint.keep_best);
  EXPECT_EQ(resolved.checkpoint.on_error, SaveFailure::kGoOn);
  EXPECT_TRUE(resolved.cuda.graphs);
  EXPECT_EQ(resolved.cuda.residual, DType::kF32);
}

TEST(ConfigRules, DerivesWhatFollows) {
  const ResolvedConfig plain = resolve(small());
  EXPECT_EQ(plain.model.kv_heads, 4);
  EXPECT_EQ(plain.model.head_dim, 12);
  EXPECT_EQ(plain.model.mlp_width, 192);
  EXPECT_EQ(plain.checkpoint.every_seconds, 300);
  ResolvedConfig by_steps = resolve(small({{"/checkpoint/every", "10"}}));
  EXPECT_EQ(by_steps.checkpoint.every_seconds, 0);
  by_steps = resolve(small({{"/checkpoint/every", "10"}, {"/checkpoint/every_seconds", "0.5"}}));
  EXPECT_EQ(by_steps.checkpoint.every_seconds, 0.5);
  EXPECT_DOUBLE_EQ(plain.model.attention_scale, 1 / std::sqrt(12.0));
  EXPECT_EQ(plain.model.window, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(plain.batch.sequence, 32);
  EXPECT_EQ(plain.batch.global_batch, 8);
  EXPECT_EQ(plain.schedule.decay_steps, 1000);
  EXPECT_FALSE(plain.model.bias.gate) << "plain MLPs have no gate";

  const ResolvedConfig llama =
      resolve(small({{"/model/norm", "rms_norm"}, {"/model/mlp", "swiglu"}, {"/train/steps", "50"}}));
  EXPECT_EQ(llama.model.position, Position::kRotary);
  EXPECT_EQ(llama.model.mlp_width, 128);
  EXPECT_FALSE(llama.model.bias.q);
  EXPECT_FALSE(llama.model.bias.norm);
  EXPECT_EQ(llama.schedule.decay_steps, 50);

  const ResolvedConfig unbiased = resolve(small({{"/model/bias/all", "false"}, {"/model/bias/o", "true"}}));
  EXPECT_FALSE(unbiased.model.bias.q);
  EXPECT_FALSE(unbiased.model.bias.norm);
  EXPECT_TRUE(unbiased.model.bias.o);

  const ResolvedConfig windows = resolve(small({{"/model/window", "8"}, {"/model/window_layers", "[1]"}}));
  EXPECT_EQ(windows.model.window, (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(resolve(small({{"/model/window", "8"}})).model.window, (std::vector<int64_t>{8, 8}));
}

TEST(ConfigRules, BatchFollowsInEveryDirection) {
  const struct {
    const char* json;
    int64_t micro, steps, global;
  } cases[] = {
      {R"({})", 8, 1, 8},
      {R"({"micro_batch": 3})", 3, 1, 3},
      {R"({"micro_batch": 3, "grad_accum_steps": 5})", 3, 5, 15},
      {R"({"global_batch": 24, "micro_batch": 4})", 4, 6, 24},
      {R"({"global_batch": 24, "grad_accum_steps": 4})", 6, 4, 24},
      {R"({"global_batch": 20})", 5, 4, 20},
      {R"({"global_batch": 4})", 4, 1, 4},
  };
  for (const auto& c : cases) {
    const BatchConfig batch = resolve(small({{"/batch", c.json}})).batch;
    EXPECT_EQ(batch.micro_batch, c.micro) << c.json;
    EXPECT_EQ(batch.grad_accum_steps, c.steps) << c.json;
    EXPECT_EQ(batch.global_batch, c.global) << c.json;
  }
}

TEST(ConfigRules, APresetsBatchGivesWayToAGlobalBatch) {
  const auto batch = [](const char* json) {
    return resolve(ConfigTree::from_json(std::string(R"({"preset": "gpt2-124m", "batch": )") + json + "}"))
        .batch;
  };
  EXPECT_EQ(batch("{}").global_batch, 32);
  EXPECT_EQ(batch(R"({"global_batch": 64})").grad_accum_steps, 16);
  EXPECT_EQ(batch(R"({"global_batch": 6})").micro_batch, 3);
  EXPECT_EQ(batch(R"({"global_batch": 6, "grad_accum_steps": 1})").micro_batch, 6);
  EXPECT_EQ(batch(R"({"micro_batch": 2})").global_batch, 16);
}

TEST(ConfigRules, TextByBytesNeedsNothingElse) {
  const ResolvedConfig resolved = resolve(ConfigTree::from_json(R"({
      "model": {"context": 32, "layers": 2, "width": 48, "heads": 4},
      "data": {"vocabulary": "bytes", "path": "a.txt"}})"));
  EXPECT_EQ(resolved.model.vocab_size, 256);
  EXPECT_EQ(resolved.data.format, DataFormat::kText);
  ASSERT_EQ(resolved.data.sources.size(), 1u);
  EXPECT_EQ(resolved.data.sources[0].path, "a.txt");
  EXPECT_EQ(resolved.data.sources[0].weight, 1.0);
}

TEST(ConfigRules, CharactersAreCountedLater) {
  ConfigTree tree = ConfigTree::from_json(R"({
      "model": {"context": 32, "layers": 2, "width": 48, "heads": 4},
      "data": {"vocabulary": "characters", "path": "a.txt"}})");
  EXPECT_EQ(resolve(tree).model.vocab_size, 0);
  tree.overlay(R"({"model": {"vocab_size": 65}})", Origin::kRule);
  EXPECT_EQ(resolve(tree).model.vocab_size, 65);
  const ConfigTree dataless = ConfigTree::from_json(R"({
      "model": {"context": 32, "layers": 2, "width": 48, "heads": 4}, "data": {"vocabulary": "characters"}})");
  EXPECT_EQ(listing(validate(dataless)), "") << "the data may come with --data";
  EXPECT_CONTAINS(error_of([&] { resolve(dataless); }).message(), "/data/path: is missing");
}

struct Refused {
  const char *pointer, *value;  // the edit
  const char *at, *says;        // the problem
};

TEST(ConfigRules, RefusesEachMistakeWithAFix) {
  const Refused cases[] = {
      {"/model/heads", "5", "/model/heads",
       "5 heads do not divide the width 48; use 4 heads, or give model.head_dim"},
      {"/model/heads", "0", "/model/heads", "0 is less than the minimum 1; use 1 or more"},
      {"/model/kv_heads", "3", "/model/kv_heads", "3 key/value heads do not divide the 4 heads; use 2"},
      {"/model", R"({"vocab_size":9,"context":8,"layers":1,"width":12,"heads":4,"position":"rotary"})",
       "/model/head_dim", "head_dim 3 is odd"},
      {"/model", R"({"vocab_size":9,"context":8,"layers":1,"width":1024,"heads":2})", "/model/head_dim",
       "512 is more than the maximum 256 (it follows from the rule: model.head_dim = width / heads)"},
      {"/model/layers", "10001", "/model/layers", "use 10000 or less"},
      {"/model/vocab_size", "2147483648", "/model/vocab_size", "more than the maximum 2147483647"},
      {"/model/norm_eps", "0", "/model/norm_eps", "0.0 is not greater than 0"},
      {"/model/dropout/attention", "1", "/model/dropout/attention", "1.0 is not less than 1"},
      {"/model/dropout/residual", "-0.1", "/model/dropout/residual", "less than the minimum 0"},
      {"/model/window", "-1", "/model/window", "less than the minimum 0"},
      {"/model/window_layers", "[0]", "/model/window", "window_layers is given, but no window"},
      {"/model",
       R"({"vocab_size":9,"context":8,"layers":2,"width":12,"heads":4,"window":4,"window_layers":[2]})",
       "/model/window_layers", "use layers from 0 to 1"},
      {"/model",
       R"({"vocab_size":9,"context":8,"layers":2,"width":12,"heads":4,"window":4,"window_layers":[1,1]})",
       "/model/window_layers", "names a layer twice"},
      {"/model/window_layers", "[-1]", "/model/window_layers/0", "less than the minimum 0"},
      {"/model/rope/theta", "5000", "/model/rope/theta",
       "5000.0 has no effect: model.position is \"learned\"; remove it, or "
       "set model.position to \"rotary\""},
      {"/model/rope", R"({"factor": 2})", "/model/rope/factor",
       "has no effect: model.rope.scaling is \"none\""},
      {"/model/norm_weight_offset", "1", "/model/norm_weight_offset", "set model.norm to \"rms_norm\""},
      {"/model/padding_token", "100", "/model/padding_token", "use an id from 0 to 99, or -1 for none"},
      {"/model/bias/gate", "true", "/model/bias/gate", "mlp \"gelu\" has no gate"},
      {"/batch/sequence", "33", "/batch/sequence",
       "rows of 33 tokens are longer than the model's context 32; use 32 or less"},
      {"/batch", R"({"global_batch": 10, "micro_batch": 4})", "/batch/global_batch",
       "not a multiple of micro_batch 4; use 8 or 12"},
      {"/batch", R"({"global_batch": 12, "micro_batch": 4, "grad_accum_steps": 2})", "/batch/global_batch",
       "use 8"},
      {"/batch", R"({"global_batch": 10, "grad_accum_steps": 4})", "/batch/global_batch",
       "not a multiple of grad_accum_steps 4; use 8 or 12"},
      {"/schedule/min_learning_rate", "0.5", "/schedule/min_learning_rate",
       "0.5 is above learning_rate 0.0003"},
      {"/schedule/warmup_steps", "1001", "/schedule/warmup_steps", "use 1000 or less"},
      {"/schedule", R"({"kind":"wsd","warmup_steps":10,"stable_steps":991})", "/schedule/stable_steps",
       "use 990 or less"},
      {"/schedule/stable_steps", "5", "/schedule/stable_steps", "has no effect: schedule.kind is \"cosine\""},
      {"/optimizer/beta1", "1", "/optimizer/beta1", "use a number below 1"},
      {"/optimizer/beta2", "-1", "/optimizer/beta2", "less than the minimum 0"},
      {"/optimizer/momentum", "0.9", "/optimizer/momentum", "has no effect: optimizer.kind is \"adamw\""},
      {"/optimizer", R"({"kind":"sgd","nesterov":true})", "/optimizer/momentum",
       "use 0.9, or nesterov false"},
      {"/optimizer/learning_rate", "-1", "/optimizer/learning_rate", "less than the minimum 0"},
      {"/train/steps", "0", "/train/steps", "0 is less than the minimum 1 steps; use 1 or more"},
      {"/guard", R"({"outlier":"skip","outlier_z":0})", "/guard/outlier_z", "not greater than 0"},
      {"/guard/outlier_z", "5", "/guard/outlier_z", "set guard.outlier to \"skip\""},
      {"/cpu/max_isa", "x86-64v4", "/cpu/max_isa", "did you mean \"x86-64-v4\"?"},
      {"/cpu/threads", "-2", "/cpu/threads", "less than the minimum 0"},
      {"/preset", "quikstart", "/preset", "there is no preset \"quikstart\"; did you mean \"quickstart\"?"},
      {"/data/path", "a.txt", "/data/format", "data has sources, but no format"},
      {"/data", R"({"path":"a","format":"text"})", "/data/vocabulary", "\"characters\" or \"bpe\""},
      {"/data", R"({"path":"a","format":"tokens"})", "/data/token_type", "use \"u16\" or \"u32\""},
      {"/data", R"({"path":"a","format":"tokens","token_type":"u16","vocabulary":"characters"})",
       "/data/vocabulary", "set data.format to \"text\""},
      {"/data", R"({"path":"a","format":"megatron","token_type":"u16"})", "/data/token_type",
       "has no effect"},
      {"/data", R"({"path":"a","format":"tokens","token_type":"u16","packing":true})", "/data/packing",
       "packing needs to know where documents end"},
      {"/data", R"({"path":"a","format":"tokens","token_type":"u16","separator":100})", "/data/separator",
       "use an id from 0 to 99"},
      {"/data", R"({"path":"a","vocabulary":"bytes"})", "/model/vocab_size", "too small for the 256 bytes"},
      {"/data", R"({"sources":[{"path":"a"},{"weight":2},{"path":""}],"format":"megatron"})",
       "/data/sources/1/path", "is missing"},
      {"/data", R"({"sources":[{"path":"a","weight":0}],"format":"megatron"})", "/data/sources/0/weight",
       "not greater than 0"},
      {"/data", R"({"validation_sources":[{"path":"a"}]})", "/data/sources", "nothing to train on"},
  };
  for (const Refused& refused : cases) {
    const std::vector<Problem> problems = validate(small({{refused.pointer, refused.value}}));
    const std::string text = problem_at(problems, refused.at);
    EXPECT_TRUE(contains(text, refused.says))
        << refused.pointer << " = " << refused.value << "\nproblems:\n"
        << listing(problems) << "lack at " << refused.at << ": " << refused.says;
  }
}

TEST(ConfigRules, TheRotatedPartOfAHeadIsEvenAndNotLonger) {
  const auto rotary = [](const char* rope) {
    return small({{"/model/position", "rotary"}, {"/model/rope", rope}});  // heads of 12 features
  };
  EXPECT_EQ(resolve(rotary("{}")).model.rope.dim, 12);
  EXPECT_EQ(resolve(rotary(R"({"dim": 4})")).model.rope.dim, 4);
  EXPECT_CONTAINS(problem_at(validate(rotary(R"({"dim": 3})")), "/model/rope/dim"),
                  "rope.dim 3 must be even and at most head_dim 12; use an even number such as 6");
  EXPECT_CONTAINS(problem_at(validate(rotary(R"({"dim": 14})")), "/model/rope/dim"),
                  "rope.dim 14 must be even and at most head_dim 12");
}

TEST(ConfigRules, RopeScalingWantsItsKeys) {
  const auto rope = [](const char* json) {
    return validate(small({{"/model/position", "rotary"}, {"/model/rope", json}}));
  };
  EXPECT_CONTAINS(problem_at(rope(R"({"scaling":"linear"})"), "/model/rope/factor"), "needs a factor");
  EXPECT_CONTAINS(problem_at(rope(R"({"scaling":"llama3","factor":8})"), "/model/rope/original_context"),
                  "needs");
  EXPECT_CONTAINS(
      problem_at(rope(R"({"scaling":"linear","factor":2,"beta_fast":16})"), "/model/rope/beta_fast"),
      "has no effect: model.rope.scaling is \"linear\"");
  EXPECT_CONTAINS(
      problem_at(rope(R"({"scaling":"llama3","factor":8,"original_context":8,"low_freq_factor":4})"),
                 "/model/rope/high_freq_factor"),
      "not above low_freq_factor");
  EXPECT_EQ(listing(rope(R"({"scaling":"yarn","factor":4})")), "");
  EXPECT_EQ(
      resolve(small({{"/model/position", "rotary"}, {"/model/rope", R"({"scaling":"yarn","factor":4})"}}))
          .model.rope.original_context,
      32);
  EXPECT_CONTAINS(problem_at(validate(small({{"/model/norm", "rms_norm"}, {"/model/bias/norm", "true"}})),
                             "/model/bias/norm"),
                  "rms_norm has no bias");
}

TEST(ConfigRules, ReportsAllProblemsAtOnce) {
  const ConfigTree tree = ConfigTree::from_json(R"({
      "model": {"vocab_size": 0, "context": 32, "layers": 2, "width": 48, "heads": 5, "window": -3},
      "batch": {"sequence": 64}, "optimizer": {"beta1": 2}, "train": {"steps": 0}})");
  const Error error = error_of([&] { resolve(tree); });
  EXPECT_EQ(error.code(), Code::kConfigInvalid);
  EXPECT_EQ(lines_of(error.message()).size(), 6u) << error.message();
  EXPECT_EQ(validate(tree).size(), 6u);
}

TEST(ConfigRules, SaysWhatIsMissing) {
  EXPECT_CONTAINS(problem_at(problems_of("{}"), "/model"), "the config describes no model");
  const std::vector<Problem> problems = problems_of(R"({"model": {"layers": 2}})");
  EXPECT_EQ(problems.size(), 4u) << listing(problems);
  EXPECT_CONTAINS(problem_at(problems, "/model/vocab_size"), "is missing");
  EXPECT_EQ(listing(problems_of(R"({"init": {"from": "folder"}})")), "") << "the folder brings the model";
  EXPECT_EQ(error_of([] { resolve(ConfigTree::from_json(R"({"init": {"from": "folder"}})")); }).code(),
            Code::kConfigInvalid);
  EXPECT_EQ(problems_of(R"({"preset": "nope"})").size(), 1u);
}

TEST(ConfigRules, HugeSizesNeitherOverflowNorPass) {
  const ConfigTree tree = small({{"/model/context", "16777216"}, {"/batch/micro_batch", "1048576"}});
  EXPECT_CONTAINS(problem_at(validate(tree), "/batch/micro_batch"),
                  "more than 2147483647 tokens; use 127 rows");
  EXPECT_FALSE(validate(small({{"/batch/global_batch", "9223372036854775807"}})).empty());
  EXPECT_FALSE(validate(small({{"/model/width", "9223372036854775807"}})).empty());
  EXPECT_FALSE(validate(small({{"/model/width", "-9223372036854775808"}})).empty());
}

TEST(ConfigRules, ResolvedJsonMeansTheSameAndIsStable) {
  const char* configs[] = {
      R"({"preset": "gemma-2-2b", "data": {"path": "a", "format": "tokens", "token_type": "u32"}})",
      R"({"preset": "gpt2-124m", "optimizer": {"kind": "sgd", "momentum": 0.9}, "batch": {"global_batch": 64}})",
      R"({"preset": "quickstart", "model": {"norm": "layer_norm", "mlp": "gelu", "position": "learned"}})",
      R"({"preset": "llama-3.1-8b", "model": {"position": "none"}})",
      R"({"preset": "quickstart", "data": {"format": "megatron", "path": "p"}, "model": {"vocab_size": 500}})",
  };
  for (const char* json : configs) {
    const ConfigTree tree = ConfigTree::from_json(json);
    EXPECT_EQ(listing(validate(tree)), "") << json;
    const std::string text = resolved_json(tree);
    const ConfigTree again = ConfigTree::from_json(text);
    EXPECT_EQ(listing(validate(again)), "") << json;
    EXPECT_EQ(resolved_json(again), text);
    EXPECT_EQ(resolve(again).model.attention_scale, resolve(tree).model.attention_scale);
  }
}

}  // namespace rules_test
}  // namespace hawser::config
