// Parallel rules test: the sections mesh, zero and comm: derived values, the division of a batch among ranks,
// and refused values.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/config/schema_view.h"
#include "engine/parallel/pipeline/schedule.h"
#include "tests/config/problem_list.h"

namespace hawser::config {
namespace parallel_rules_test {

/// A valid small config with sections added, as JSON: R"("mesh": {...}, "zero": {...})".
ConfigTree with(const std::string& sections) {
  return ConfigTree::from_json(
      R"({"model": {"vocab_size": 100, "context": 32, "layers": 2, "width": 48, "heads": 4}, )" + sections +
      "}");
}

TEST(ParallelConfig, DefaultsOfTheSchemaAreThoseOfTheStructs) {
  const ResolvedConfig resolved = resolve(with(R"("seed": 0)")), plain;
  EXPECT_EQ(resolved.mesh.dp_replicate, plain.mesh.dp_replicate);
  EXPECT_EQ(resolved.mesh.dp_shard, plain.mesh.dp_shard);
  EXPECT_EQ(resolved.zero.stage, plain.zero.stage);
  EXPECT_EQ(resolved.zero.reduce, plain.zero.reduce);
  EXPECT_EQ(resolved.zero.reshard_after_forward, plain.zero.reshard_after_forward);
  EXPECT_EQ(resolved.zero.reshard_group, plain.zero.reshard_group);
  EXPECT_EQ(resolved.zero.prefetch, plain.zero.prefetch);
  EXPECT_EQ(resolved.zero.gradient_type, plain.zero.gradient_type);
  EXPECT_EQ(resolved.zero.bucket_bytes, plain.zero.bucket_bytes);
  EXPECT_EQ(resolved.zero.first_bucket_bytes, plain.zero.first_bucket_bytes);
  EXPECT_EQ(resolved.zero.sum_order, plain.zero.sum_order);
  EXPECT_EQ(resolved.zero.quantized_gradients, plain.zero.quantized_gradients);
  EXPECT_EQ(resolved.comm.sum_group, plain.comm.sum_group);
  EXPECT_EQ(resolved.comm.timeout_seconds, plain.comm.timeout_seconds);
  EXPECT_EQ(resolved.comm.device_transport, plain.comm.device_transport);
  EXPECT_EQ(resolved.optimizer.frozen, plain.optimizer.frozen);
}

TEST(ParallelConfig, TheSchemaNamesTheSchedulesOfThePipelineInTheirOrder) {
  const std::vector<std::string>& choices = schema().find("pipeline")->table->find("schedule")->choices;
  std::vector<std::string> names;
  for (const auto& row : parallel::pipeline::kSchedules) names.push_back(row.name);
  EXPECT_EQ(choices, names);
}

TEST(ParallelConfig, EveryFieldArrives) {
  const ResolvedConfig resolved = resolve(with(R"(
      "mesh": {"dp_replicate": 2, "dp_shard": 4},
      "zero": {"stage": 3, "reduce": "per_micro_batch", "reshard_after_forward": "group", "reshard_group": 2,
               "prefetch": 0, "gradient_type": "bf16", "quantized_gradients": "int4"},
      "comm": {"sum_group": 4, "timeout_seconds": 2.5, "device_transport": "nccl"}, "device": "cuda",
      "optimizer": {"frozen": ["token_embedding.*", "blocks.?.norm1.weight"]})"));
  EXPECT_EQ(resolved.mesh.dp_replicate, 2);
  EXPECT_EQ(resolved.mesh.dp_shard, 4);
  EXPECT_EQ(resolved.mesh.dp(), 8);
  EXPECT_EQ(resolved.zero.stage, 3);
  EXPECT_EQ(resolved.zero.reduce, ReducePolicy::kPerMicroBatch);
  EXPECT_EQ(resolved.zero.reshard_after_forward, ReshardAfterForward::kGroup);
  EXPECT_EQ(resolved.zero.reshard_group, 2);
  EXPECT_EQ(resolved.zero.prefetch, 0);
  EXPECT_EQ(resolved.zero.gradient_type, DType::kBf16);
  EXPECT_EQ(resolved.zero.quantized_gradients, parallel::QuantizedGradients::kInt4);
  EXPECT_EQ(resolved.comm.sum_group, 4);
  EXPECT_EQ(resolved.comm.timeout_seconds, 2.5);
  EXPECT_EQ(resolved.comm.device_transport, DeviceTransport::kNccl);
  EXPECT_EQ(resolved.optimizer.frozen,
            (std::vector<std::string>{"token_embedding.*", "blocks.?.norm1.weight"}));

  const ResolvedConfig buckets = resolve(with(R"(
      "mesh": {"dp_replicate": 2}, "zero": {"bucket_bytes": 4096, "first_bucket_bytes": 64, "sum_order": "tree"})"));
  EXPECT_EQ(buckets.zero.bucket_bytes, 4096);
  EXPECT_EQ(buckets.zero.first_bucket_bytes, 64);
  EXPECT_EQ(buckets.zero.sum_order, SumOrder::kTree);
  EXPECT_EQ(resolve(with(R"("mesh": {"dp_shard": 2}, "zero": {"stage": 3, "reshard_after_forward": "keep"})"))
                .zero.reshard_after_forward,
            ReshardAfterForward::kKeep);
}

TEST(ParallelConfig, DerivesTheSumGroupAndTheFirstBucket) {
  const auto sum_group = [](const char* mesh) {
    return resolve(with(std::string(R"("mesh": )") + mesh)).comm.sum_group;
  };
  EXPECT_EQ(sum_group("{}"), 1);
  EXPECT_EQ(sum_group(R"({"dp_replicate": 6})"), 6);
  EXPECT_EQ(sum_group(R"({"dp_shard": 6})"), 6);
  EXPECT_EQ(sum_group(R"({"dp_replicate": 2, "dp_shard": 3})"), 3);
  // Above 64 ranks, the group is the largest divisor that is at most the square root.
  EXPECT_EQ(sum_group(R"({"dp_shard": 64})"), 64);
  EXPECT_EQ(sum_group(R"({"dp_shard": 65})"), 5);
  EXPECT_EQ(sum_group(R"({"dp_shard": 67})"), 67);
  EXPECT_EQ(sum_group(R"({"dp_replicate": 128})"), 8);
  EXPECT_EQ(sum_group(R"({"dp_shard": 256})"), 16);
  EXPECT_EQ(sum_group(R"({"dp_shard": 1000})"), 25);
  EXPECT_EQ(sum_group(R"({"dp_shard": 1024})"), 32);
  EXPECT_EQ(sum_group(R"({"dp_replicate": 2, "dp_shard": 128})"), 128);
  EXPECT_EQ(resolve(with(R"("zero": {"bucket_bytes": 4096})")).zero.first_bucket_bytes, 4096);
}

TEST(ParallelConfig, BatchFollowsInEveryDirection) {
  const struct {
    const char *batch, *mesh;
    int64_t micro, steps, global;
  } cases[] = {
      {R"({})", R"({"dp_replicate": 3})", 8, 1, 24},
      {R"({"micro_batch": 3})", R"({"dp_shard": 4})", 3, 1, 12},
      {R"({"micro_batch": 3, "grad_accum_steps": 5})", R"({"dp_replicate": 2, "dp_shard": 4})", 3, 5, 120},
      {R"({"global_batch": 24, "micro_batch": 4})", R"({"dp_replicate": 3})", 4, 2, 24},
      {R"({"global_batch": 24, "grad_accum_steps": 4})", R"({"dp_shard": 3})", 2, 4, 24},
      {R"({"global_batch": 60})", R"({"dp_replicate": 3})", 5, 4, 60},
      {R"({"global_batch": 4})", R"({"dp_replicate": 2, "dp_shard": 2})", 1, 1, 4},
      {R"({"global_batch": 24, "micro_batch": 2, "grad_accum_steps": 3})", R"({"dp_shard": 4})", 2, 3, 24},
  };
  for (const auto& c : cases) {
    const BatchConfig batch =
        resolve(with(std::string(R"("batch": )") + c.batch + R"(, "mesh": )" + c.mesh)).batch;
    EXPECT_EQ(batch.micro_batch, c.micro) << c.batch << c.mesh;
    EXPECT_EQ(batch.grad_accum_steps, c.steps) << c.batch << c.mesh;
    EXPECT_EQ(batch.global_batch, c.global) << c.batch << c.mesh;
  }
}

TEST(ParallelConfig, APresetsBatchGivesWayToAGlobalBatch) {
  const auto batch = [](const char* more) {
    return resolve(ConfigTree::from_json(std::string(R"({"preset": "gpt2-124m", "mesh": {"dp_shard": 4}, )") +
                                         R"("batch": )" + more + "}"))
        .batch;
  };
  EXPECT_EQ(batch("{}").global_batch, 128) << "4 rows x 8 micro-batches on each rank";
  EXPECT_EQ(batch(R"({"global_batch": 32})").micro_batch, 4);
  EXPECT_EQ(batch(R"({"global_batch": 32})").grad_accum_steps, 2);
  EXPECT_EQ(batch(R"({"global_batch": 12})").micro_batch, 3);
  EXPECT_CONTAINS(error_of([&] { batch(R"({"global_batch": 6})"); }).message(), "use 4 or 8");
}

struct Refused {
  const char* sections;
  const char *at, *says;
};

void expect_refused(const Refused& refused) {
  const std::vector<Problem> problems = validate(with(refused.sections));
  EXPECT_TRUE(contains(problem_at(problems, refused.at), refused.says))
      << refused.sections << "\nproblems:\n"
      << listing(problems) << "lack at " << refused.at << ": " << refused.says;
  EXPECT_EQ(problems.size(), 1u) << refused.sections << "\n" << listing(problems);
}

TEST(ParallelConfig, RefusesBatchesThatRanksCannotShare) {
  const Refused cases[] = {
      {R"("mesh": {"dp_shard": 4}, "batch": {"global_batch": 10})", "/batch/global_batch",
       "global_batch 10 cannot be shared equally by the data-parallel ranks, dp_replicate 1 x dp_shard 4; "
       "use 8 "
       "or 12"},
      {R"("mesh": {"dp_replicate": 2, "dp_shard": 2}, "batch": {"global_batch": 3})", "/batch/global_batch",
       "dp_replicate 2 x dp_shard 2; use 4"},
      {R"("mesh": {"dp_replicate": 3}, "batch": {"global_batch": 16, "micro_batch": 4})",
       "/batch/global_batch",
       "16 is not a multiple of micro_batch 4 x dp_replicate 3 x dp_shard 1; use 12 or 24"},
      {R"("mesh": {"dp_shard": 3}, "batch": {"global_batch": 25, "grad_accum_steps": 4})",
       "/batch/global_batch",
       "25 is not a multiple of grad_accum_steps 4 x dp_replicate 1 x dp_shard 3; use 24 "
       "or 36"},
      {R"("mesh": {"dp_shard": 2}, "batch": {"global_batch": 12, "micro_batch": 4, "grad_accum_steps": 3})",
       "/batch/global_batch",
       "12 is not micro_batch 4 x grad_accum_steps 3 x dp_replicate 1 x dp_shard 2; use 24, or leave "
       "grad_accum_steps out"},
      {R"("mesh": {"dp_replicate": 65536, "dp_shard": 17}, "batch": {"micro_batch": 1})",
       "/mesh/dp_replicate", "more than 1048576 ranks; use 61680 or less"},
  };
  for (const Refused& refused : cases) expect_refused(refused);
}

TEST(ParallelConfig, HugeDegreesNeitherOverflowNorPass) {
  const ConfigTree tree = with(R"("mesh": {"dp_replicate": 65536, "dp_shard": 65536},
      "batch": {"micro_batch": 1048576, "grad_accum_steps": 1048576})");
  EXPECT_CONTAINS(problem_at(validate(tree), "/mesh/dp_replicate"), "use 16 or less");
  EXPECT_CONTAINS(problem_at(validate(tree), "/batch/global_batch"), "it follows from the rule");
  EXPECT_FALSE(validate(with(R"("mesh": {"dp_shard": 9223372036854775807})")).empty());
  const auto all =
      validate(with(R"("mesh": {"dp_replicate": 65536, "dp_shard": 65536, "tp": 65536, "cp": 65536,
                                             "pp": 65536}, "batch": {"micro_batch": 1})"));
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(all.front().pointer.starts_with("/mesh/")) << all.front().pointer << " follows from others";
}

TEST(ParallelConfig, RefusesEachMistakeWithAFix) {
  const Refused cases[] = {
      {R"("mesh": {"dp_replicate": 0})", "/mesh/dp_replicate", "less than the minimum 1 ranks"},
      {R"("mesh": {"dp_shard": 65537})", "/mesh/dp_shard", "use 65536 or less"},
      {R"("mesh": {"dp_shard": 2}, "zero": {"stage": 4})", "/zero/stage", "use 3 or less"},
      {R"("mesh": {"dp_replicate": 4}, "zero": {"stage": 1})", "/zero/stage",
       "stage 1 has nothing to shard over: mesh.dp_shard is 1; set /mesh/dp_shard to 2 or more"},
      {R"("mesh": {"dp_shard": 2}, "zero": {"stage": 2, "prefetch": 3})", "/zero/prefetch",
       "3 has no effect: zero.stage is 2; remove it, or set zero.stage to 3"},
      {R"("zero": {"reshard_after_forward": "keep"})", "/zero/reshard_after_forward",
       "\"keep\" has no effect: zero.stage is 0; remove it, or set zero.stage to 3"},
      {R"("mesh": {"dp_shard": 4}, "zero": {"stage": 3, "reshard_group": 2})", "/zero/reshard_group",
       "set zero.reshard_after_forward to \"group\""},
      {R"("mesh": {"dp_shard": 4}, "zero": {"stage": 3, "reshard_after_forward": "group"})",
       "/zero/reshard_group", "is missing"},
      {R"("mesh": {"dp_shard": 12},
          "zero": {"stage": 3, "reshard_after_forward": "group", "reshard_group": 5})",
       "/zero/reshard_group", "5 ranks does not divide mesh.dp_shard 12; use 4"},
      {R"("mesh": {"dp_shard": 4}, "zero": {"stage": 3, "reshard_after_forward": "group", "reshard_group": 1})",
       "/zero/reshard_group", "less than the minimum 2"},
      {R"("mesh": {"dp_shard": 2}, "zero": {"stage": 3, "bucket_bytes": 4096})", "/zero/bucket_bytes",
       "4096 has no effect: zero.stage is 3; remove it, or set zero.stage to 0, 1 or 2"},
      {R"("mesh": {"dp_shard": 2}, "zero": {"stage": 3, "first_bucket_bytes": 4096})",
       "/zero/first_bucket_bytes", "has no effect"},
      {R"("zero": {"bucket_bytes": 0})", "/zero/bucket_bytes", "less than the minimum 1"},
      {R"("zero": {"bucket_bytes": 64, "first_bucket_bytes": 65})", "/zero/first_bucket_bytes",
       "use 64 or less"},
      {R"("zero": {"gradient_type": "bf16"})", "/zero/gradient_type",
       "\"bf16\" has no effect: one data-parallel rank"},
      {R"("mesh": {"dp_replicate": 2}, "zero": {"gradient_type": "bf16", "sum_order": "tree"})",
       "/zero/gradient_type", "use \"fp32\", or set zero.sum_order to \"ranks\""},
      {R"("zero": {"quantized_gradients": "int8"})", "/zero/quantized_gradients",
       "\"int8\" has no effect: one data-parallel rank"},
      {R"("mesh": {"dp_replicate": 2}, "zero": {"quantized_gradients": "int4", "sum_order": "tree"})",
       "/zero/quantized_gradients", "use \"off\", or set zero.sum_order to \"ranks\""},
      {R"("precision": "bf16_pure", "mesh": {"dp_replicate": 2}, "zero": {"quantized_gradients": "int4"})",
       "/zero/quantized_gradients", "use \"off\", or set precision to \"bf16\""},
      {R"("mesh": {"dp_replicate": 3}, "zero": {"sum_order": "tree"})", "/mesh/dp_replicate",
       "needs powers of two, and dp_replicate 3 is not one; use 2 or 4"},
      {R"("mesh": {"dp_shard": 6}, "zero": {"sum_order": "tree"})", "/mesh/dp_shard", "use 4 or 8"},
      {R"("batch": {"grad_accum_steps": 5}, "zero": {"sum_order": "tree"})", "/batch/grad_accum_steps",
       "use 4 or 8, or set zero.sum_order to \"ranks\""},
      {R"("mesh": {"dp_replicate": 4}, "zero": {"sum_order": "tree"}, "comm": {"sum_group": 2})",
       "/comm/sum_group", "has no effect: zero.sum_order is \"tree\""},
      {R"("mesh": {"dp_replicate": 6}, "comm": {"sum_group": 4})", "/comm/sum_group",
       "4 ranks does not divide the ranks whose gradients are summed, dp_replicate 6 x dp_shard 1 x cp 1; "
       "use 3"},
      {R"("mesh": {"dp_replicate": 4, "dp_shard": 2}, "zero": {"stage": 1}, "comm": {"sum_group": 4})",
       "/comm/sum_group", "of one replica, dp_shard 2 x cp 1, not 4; use 2, or leave it out"},
      {R"("comm": {"timeout_seconds": 0})", "/comm/timeout_seconds", "use a number above 0"},
      {R"("mesh": {"dp_replicate": 2}, "comm": {"device_transport": "host"})", "/comm/device_transport",
       "\"host\" has no effect: device is \"cpu\"; remove it, or set device to \"cuda\" or \"auto\""},
      {R"("optimizer": {"frozen": ["a.*", ""]})", "/optimizer/frozen/1", "is empty"},
      {R"("optimizer": {"frozen": ["blocks.[01].*"]})", "/optimizer/frozen/0",
       "'[' occurs in no parameter's name; only * and ? are wildcards"},
  };
  for (const Refused& refused : cases) expect_refused(refused);
}

TEST(ParallelConfig, WhatHoldsForManyRanksHoldsForOne) {
  const char* cases[] = {
      R"("zero": {"reduce": "per_micro_batch"})",
      R"("zero": {"bucket_bytes": 4096})",
      R"("zero": {"sum_order": "tree"}, "batch": {"grad_accum_steps": 4})",
      R"("comm": {"sum_group": 1, "timeout_seconds": 5})",
      R"("mesh": {"dp_replicate": 4, "dp_shard": 2}, "comm": {"sum_group": 4})",
      R"("mesh": {"dp_replicate": 4, "dp_shard": 2}, "zero": {"reduce": "per_micro_batch"})",
      R"("zero": {"prefetch": 1, "reshard_after_forward": "full"})",  // the defaults, given explicitly
  };
  for (const char* sections : cases) EXPECT_EQ(listing(validate(with(sections))), "") << sections;
}

TEST(ParallelConfig, NamesOfOtherTrainersAreUnderstood) {
  const auto says = [](const char* sections) { return error_of([&] { with(sections); }).message(); };
  EXPECT_CONTAINS(says(R"("zero_optimization": {"stage": 2})"), "did you mean \"zero\"?");
  EXPECT_CONTAINS(says(R"("zero": {"zero_hpz_partition_size": 8})"), "did you mean \"reshard_group\"?");
  EXPECT_CONTAINS(says(R"("zero": {"bucket_cap_mb": 25})"), "did you mean \"bucket_bytes\"?");
  EXPECT_CONTAINS(says(R"("communication_data_type": "bf16")"), "did you mean /zero/gradient_type?");
  EXPECT_CONTAINS(says(R"("mesh": {"data_parallel_shard_degree": 2})"), "did you mean \"dp_shard\"?");
  EXPECT_CONTAINS(says(R"("optimizer": {"freeze": ["a"]})"), "did you mean \"frozen\"?");
}

TEST(ParallelConfig, ExplainAndTheJsonSchemaKnowIt) {
  const ConfigTree tree = with(R"("mesh": {"dp_replicate": 2, "dp_shard": 3})");
  const nlohmann::json group = nlohmann::json::parse(explain(tree, "/comm/sum_group"));
  EXPECT_EQ(group.at("value"), 3);
  EXPECT_EQ(group.at("origin"), "rule");
  EXPECT_CONTAINS(group.at("rule").get<std::string>(), "comm.sum_group = dp_shard");
  EXPECT_EQ(nlohmann::json::parse(explain(tree, "/batch/global_batch")).at("value"), 48);
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  EXPECT_EQ(schema.at("$defs").at("Zero").at("properties").at("stage").at("maximum"), 3);
  EXPECT_EQ(schema.at("$defs").at("Mesh").at("properties").size(), 9u);
  EXPECT_EQ(schema.at("$defs").at("OptimizerSection").at("properties").at("frozen").at("items").at("type"),
            "string");
}

TEST(ParallelConfig, ResolvedJsonMeansTheSameAndIsStable) {
  const char* cases[] = {
      R"("mesh": {"dp_replicate": 2, "dp_shard": 3}, "batch": {"global_batch": 36})",
      R"("mesh": {"dp_shard": 4}, "zero": {"stage": 3, "prefetch": 2}, "optimizer": {"frozen": ["a*"]})",
      R"("mesh": {"dp_shard": 4}, "zero": {"sum_order": "tree", "bucket_bytes": 100})",
      R"("mesh": {"dp_shard": 4}, "precision": "bf16_pure")",
  };
  for (const char* sections : cases) {
    const std::string text = resolved_json(with(sections));
    const ConfigTree again = ConfigTree::from_json(text);
    EXPECT_EQ(listing(validate(again)), "") << sections;
    EXPECT_EQ(resolved_json(again), text);
    EXPECT_EQ(resolve(again).comm.sum_group, resolve(with(sections)).comm.sum_group);
    EXPECT_EQ(resolve(again).optimizer.frozen, resolve(with(sections)).optimizer.frozen);
  }
}

/// bf16 state is sent as bf16 without a setting; a single rank sends nothing.
TEST(ParallelConfig, Bf16PureSendsBf16) {
  const auto gradient_type = [](const char* sections) { return resolve(with(sections)).zero.gradient_type; };
  EXPECT_EQ(gradient_type(R"("precision": "bf16_pure", "mesh": {"dp_shard": 2})"), DType::kBf16);
  EXPECT_EQ(gradient_type(R"("precision": "bf16_pure")"), DType::kF32);
  EXPECT_EQ(gradient_type(R"("precision": "bf16", "mesh": {"dp_shard": 2})"), DType::kF32);
}

}  // namespace parallel_rules_test
}  // namespace hawser::config
