// Tests `hawser plan` with several ranks: its text and tables to the letter, its formulas against the plan,
// and the table of ZeRO stages against the plans of these stages.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/report/plan_report.h"
#include "engine/report/precision_summary.h"
#include "tests/harness/closed_forms.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/random_config.h"

namespace hawser::testing {
namespace plan_report_test {

using Json = nlohmann::json;

std::string report(const Problem& p, const Layout& l, bool json) {
  return train::plan_report(config::ConfigTree::from_json(layout_config(p, l)), json);
}
Json report_json(const Problem& p, const Layout& l) { return Json::parse(report(p, l, true)); }

/// Returns the lines from the one that begins with `from` to the next empty line.
std::string section(const std::string& text, const std::string& from) {
  const size_t begin = text.find("\n" + from);
  if (begin == std::string::npos) return "no section " + from;
  return text.substr(begin + 1, text.find("\n\n", begin + 1) - begin);
}

/// Returns the table with " # KiB" in place of the last but one figure of each line.
std::string without_peaks(const std::string& table) {
  std::string masked;
  for (size_t begin = 0, end; begin < table.size(); begin = end + 1) {
    end = table.find('\n', begin);
    std::string line = table.substr(begin, end - begin);
    const size_t last = line.rfind(" KiB");
    if (last != std::string::npos && last + 4 == line.size()) {
      const size_t unit = line.rfind(" KiB", last - 1);
      const size_t before = line.find_last_not_of(' ', line.rfind(' ', unit - 1));
      line = line.substr(0, before + 1) + " # KiB" + line.substr(unit + 4);
    }
    masked += line + "\n";
  }
  return masked;
}

TEST(PlanReport, SaysInWordsHowRanksShareTheModel) {
  const auto words = [](const Layout& l) {
    const std::string text = report({}, l, false);
    return text.substr(0, text.find("\n\n"));
  };
  Layout l;
  EXPECT_EQ(words(l), "1 rank");
  l.dp_shard = 4;
  EXPECT_EQ(words(l),
            "4 ranks (dp_replicate 1 x dp_shard 4), data parallel: they share nothing.\n"
            "Gradients are summed over ranks once a step. What follows is per rank, the same on each.");
  l.dp_replicate = 2, l.stage = 3, l.accumulation = 2, l.reduce = "per_micro_batch";
  EXPECT_EQ(
      words(l),
      "8 ranks (dp_replicate 2 x dp_shard 4), ZeRO-3: they share optimizer state, gradients and parameters, "
      "cut "
      "into 4 shards, each of them on 2 ranks.\n"
      "Gradients are summed over ranks after each micro-batch, 4 at a time and then these sums: the bits of "
      "plain data parallelism with /comm/sum_group 4. What follows is per rank, the same on each.");
}

TEST(PlanReport, SaysInWhichTypesItComputesAndSends) {
  Problem p;
  Layout l;
  EXPECT_EQ(report_json(p, l).at("types"),
            "parameters f32; gradients, their sums and losses are f32, and so are logits");
  p.precision = "bf16", l.dp_shard = 2, l.gradient_type = "bf16";
  const std::string types = report_json(p, l).at("types");
  EXPECT_NE(types.find("products multiply bf16 weights"), std::string::npos) << types;
  EXPECT_NE(types.find("gradients travel as bf16"), std::string::npos) << types;
  EXPECT_NE(report(p, l, false).find("types           " + types), std::string::npos);
  l.quantized_gradients = "int4";
  const std::string quantized = report_json(p, l).at("types");
  EXPECT_NE(quantized.find("gradients travel as bf16, those of products' weights as int4"), std::string::npos)
      << quantized;
}

/// Each choice for the residual stream is printed with its bytes for one token of 24 elements.
TEST(PlanReport, StatesWhatTheResidualStreamCostsOnAGpu) {
  Problem p;
  p.precision = "bf16";
  const auto types = [&] {
    const train::Assembly a = train::assemble(config::ConfigTree::from_json(layout_config(p, Layout())));
    return train::precision_summary(a.config, train::strategies_of(a.config).form().data);
  };
  EXPECT_EQ(types().find("residual stream"), std::string::npos);
  p.device = "cuda";
  const auto has = [&](const char* text) { EXPECT_NE(types().find(text), std::string::npos) << types(); };
  has("the residual stream is stored as f32 (96 bytes per token after each of the two sums of a layer; with "
      "/cuda/residual \"bf16\" 48 bytes, rounded to 8 significant bits)");
  p.residual = "bf16";
  has("the residual stream is stored as bf16 (48 bytes per token after each of the two sums of a layer, "
      "rounded to 8 significant bits; with /cuda/residual \"f32\" 96 bytes)");
}

/// Only stage 3 can keep weights in records.
TEST(PlanReport, ShowsLowerStagesWithoutQuantisedWeights) {
  Layout l;
  l.dp_shard = 2, l.stage = 3;
  const Json exact = report_json({}, l).at("stages");
  l.quantized_weights = "int8";
  const Json report = report_json({}, l), records = report.at("stages");
  EXPECT_NE(report.at("types").get<std::string>().find("gathered as int8"), std::string::npos);
  ASSERT_EQ(exact.size(), records.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    const bool same = exact[i] == records[i];
    EXPECT_EQ(same, exact[i].at("stage") != 3) << records[i];
  }
}

TEST(PlanReport, OneRankHasNoTraffic) {
  const std::string text = report({}, {}, false);
  for (const char* word : {"traffic", "stage", "per rank", "bytes sent"})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  EXPECT_FALSE(report_json({}, {}).contains("traffic"));
}

TEST(PlanReport, TablesLookLikeThis) {
  Layout l;
  l.dp_shard = 2, l.stage = 2, l.accumulation = 2;
  const std::string text = report({}, l, false);
  EXPECT_EQ(section(text, "traffic"), R"(traffic of one step: what each rank sends
  instruction         number          bytes              closed form
  COUNT_TOKENS             1             32     0.0 KiB  2(D-1)·⌈4/D⌉·8, D = 2 ranks agree
  REDUCE_GRAD              1          20480    20.0 KiB  (N-1)/N·Φg
  GRAD_NORM                1           1120     1.1 KiB  2(D-1)·⌈140/D⌉·8, D = 2 ranks agree
  UNSHARD                  1          20480    20.0 KiB  (N-1)/N·Φw
  total                               42112    41.1 KiB
  N = 2 ranks share a copy, A = 2 micro-batches. Φ: bytes as they travel, padding included: g gradients, s their sums, w weights
  (e of the embedding, b of the blocks, h of the head)
)");
  // The peak includes workspaces, whose size depends on the kernels.
  EXPECT_EQ(without_peaks(section(text, "every stage")), R"(every stage of this config, per rank (*: this one)
  stage  reduce              weights   gradients   optimizer     buckets        peak   sent/step
      0  per_step           40.0 KiB    45.1 KiB    77.0 KiB     0.0 KiB # KiB    41.1 KiB
      0  per_micro_batch    40.0 KiB    42.9 KiB    77.0 KiB    20.0 KiB # KiB    61.1 KiB
      1  per_step           40.0 KiB    45.1 KiB    40.0 KiB     0.0 KiB # KiB    41.1 KiB
      1  per_micro_batch    40.0 KiB    42.9 KiB    40.0 KiB    20.0 KiB # KiB    61.1 KiB
*     2  per_step           40.0 KiB    45.1 KiB    40.0 KiB     0.0 KiB # KiB    41.1 KiB
      2  per_micro_batch    40.0 KiB    22.9 KiB    40.0 KiB    80.0 KiB # KiB    61.1 KiB
      3  per_step           20.0 KiB    45.1 KiB    40.0 KiB    32.0 KiB # KiB   100.6 KiB
      3  per_micro_batch    20.0 KiB    22.9 KiB    40.0 KiB    56.0 KiB # KiB   120.6 KiB
)");
}

TEST(PlanReport, EveryTransferHasItsFormula) {
  for (const bool tied : {true, false})
    for (const bool frozen : {true, false})
      for (const int64_t replicas : {1, 2})
        for (const int64_t stage : {0, 1, 2, 3})
          for (const char* reduce : {"per_step", "per_micro_batch"})
            for (const char* reshard : {"full", "keep", "group"})
              for (const char* type : {"fp32", "bf16"}) {
                Problem p;
                p.tied = tied, p.frozen = frozen, p.precision = type;
                Layout l;
                l.dp_shard = 4, l.dp_replicate = replicas, l.stage = stage, l.accumulation = 2,
                l.reduce = reduce;
                l.gradient_type = type;
                if (stage == 3) l.reshard = reshard, l.reshard_group = l.reshard == "group" ? 2 : 0;
                if (stage != 3 && std::string(reshard) != "full") continue;
                if (frozen) l.quantized_gradients = tied ? "int8" : "int4";
                const Json json = report_json(p, l);
                int64_t sum = 0;
                for (const Json& row : json.at("traffic")) {
                  EXPECT_TRUE(row.at("closed_form").is_string()) << l.name() << ": " << row;
                  sum += row.at("bytes").get<int64_t>();
                }
                EXPECT_EQ(sum, json.at("sent_bytes").get<int64_t>());
                EXPECT_GT(sum, 0);
                EXPECT_EQ(wrong_formulas(layout_config(p, l)), "") << l.name();
              }
}

TEST(PlanReport, GivesAFormulaIfItsBytesAreThoseOfThePlan) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string config = random_config(seed);
    EXPECT_EQ(wrong_formulas(config), "") << config;
  }
}

TEST(PlanReport, TheTableOfStagesIsWhatThesePlansNeed) {
  Layout l;
  l.dp_shard = 3, l.accumulation = 2, l.stage = 3, l.prefetch = 2;
  const Json table = report_json({}, l).at("stages");
  ASSERT_EQ(table.size(), 8u);
  int chosen = 0;
  for (const Json& row : table) {
    Layout other = l;
    other.stage = row.at("stage").get<int64_t>(), other.reduce = row.at("reduce").get<std::string>();
    const Json json = report_json({}, other);
    EXPECT_EQ(row.at("peak_bytes"), json.at("peak_bytes")) << other.name();
    EXPECT_EQ(row.at("sent_bytes"), json.at("sent_bytes")) << other.name();
    EXPECT_EQ(row.at("memory"), json.at("memory")) << other.name();
    EXPECT_EQ(row.at("chosen").get<bool>(), other.stage == 3 && other.reduce == "per_step");
    chosen += row.at("chosen").get<bool>();
  }
  EXPECT_EQ(chosen, 1);
  l.accumulation = 1;
  EXPECT_EQ(report_json({}, l).at("stages").size(), 4u);
}

/// The rules refuse per_micro_batch with a tree, and sums that are not over the shards of each replica.
TEST(PlanReport, TheTableOfStagesHasOnlyConfigsThatTheRulesAllow) {
  Layout l;
  l.dp_replicate = l.accumulation = 2;
  const auto rows = [&](const Json& more) {
    Json config = Json::parse(layout_config({}, l));
    config.merge_patch(more);
    const Json table =
        Json::parse(train::plan_report(config::ConfigTree::from_json(config.dump()), true)).at("stages");
    std::string text;
    for (const Json& row : table)
      text += row.at("stage").dump() + " " + row.at("reduce").get<std::string>() + "; ";
    return text;
  };
  EXPECT_EQ(rows({{"zero", {{"sum_order", "tree"}}}}), "0 per_step; 1 per_step; 2 per_step; 3 per_step; ");
  l.dp_shard = 2;
  EXPECT_EQ(rows({{"comm", {{"sum_group", 4}}}}), "0 per_step; 0 per_micro_batch; ");
}

TEST(PlanReport, IsMadeForEveryConfigThatTrains) {
  for (const uint64_t seed : random_seeds(60)) {
    const std::string config = random_config(seed);
    try {
      const Json json = Json::parse(train::plan_report(config::ConfigTree::from_json(config), true));
      int chosen = 0;
      for (const Json& row : json.value("stages", Json::array())) chosen += row.at("chosen").get<bool>();
      EXPECT_EQ(chosen, json.contains("stages") ? 1 : 0) << "HAWSER_SEED=" << seed << ' ' << config;
    } catch (const Error& error) {
      ADD_FAILURE() << "HAWSER_SEED=" << seed << ' ' << config << '\n' << error.message();
    }
  }
}

/// The weights are 6.98 billion numbers of linear layers at 33/64 bytes, two tables of 128256 x 4096, of
/// which bf16 stores one in f32, the norms, and the adapter.
TEST(PlanReport, AnNf4BaseOfEightBillionTakesLessThanSevenGigabytes) {
  constexpr int64_t kLinears = 32 * int64_t{4096} * (4096 + 2 * 1024 + 4096 + 3 * 14336);
  for (const std::string precision : {"bf16", "bf16_pure"}) {
    const auto of = [&](const std::string& base) {
      const Json config = {{"preset", "llama-3.1-8b"},
                           {"precision", precision},
                           {"batch", {{"micro_batch", 1}, {"sequence", 512}}},
                           {"adapter", {{"rank", 16}, {"base", base}}}};
      return Json::parse(train::plan_report(config::ConfigTree::from_json(config.dump()), true));
    };
    const Json nf4 = of("nf4"), stored = of("stored");
    const auto weights = [](const Json& plan) { return plan.at("memory").at("weights").get<int64_t>(); };
    EXPECT_LT(weights(nf4), int64_t{7000000000});
    const int64_t saved = weights(stored) - weights(nf4);
    EXPECT_NEAR(static_cast<double>(saved), static_cast<double>(2 * kLinears - kLinears / 64 * 33), 4e6);
    EXPECT_NE(nf4.at("types").get<std::string>().find("nf4"), std::string::npos);
  }
}

}  // namespace plan_report_test
}  // namespace hawser::testing
