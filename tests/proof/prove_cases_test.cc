// Proofs of layouts that once trained on wrong gradients, or that a proof once refused. Shrinking must keep
// the shape of the pipeline, the padding of the vocabulary and the rounds of experts.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/proof/prove_layout.h"

namespace hawser::testing {
namespace prove_cases_test {

using Json = nlohmann::json;

Json small_model(int64_t layers, bool tied) {
  Json config = Json::parse(R"({"seed": 7, "optimizer": {"kind": "sgd", "learning_rate": 0.03},
    "model": {"vocab_size": 61, "heads": 2, "kv_heads": 1, "head_dim": 8, "width": 16, "context": 8, "norm": "rms_norm",
              "mlp": "swiglu", "position": "rotary", "mlp_width": 24},
    "batch": {"micro_batch": 1, "grad_accum_steps": 4, "sequence": 8}})");
  config["model"]["layers"] = layers, config["model"]["tied_head"] = tied;
  return config;
}

Json proof_of(const Json& config, int64_t steps = 2) {
  return Json::parse(train::prove_layout(config::ConfigTree::from_json(config.dump()), steps));
}

void expect_equal(const Json& config) {
  const Json proof = proof_of(config);
  EXPECT_TRUE(proof.at("equal").get<bool>()) << config << '\n' << proof;
}

/// The changes that the proof makes to a config, as "pointer from to".
std::string changes_of(const Json& config) {
  std::string text, changes;
  train::shrink_for_proof(config::ConfigTree::from_json(config.dump()), &changes);
  for (const Json& change : Json::parse(changes))
    text += change.at("pointer").get<std::string>() + " " + change.at("from").dump() + " " +
            change.at("to").dump() + "\n";
  return text;
}

TEST(Prove, KeepsTwoSizesOfARamp) {
  Json config = small_model(4, false);
  config["batch"].erase("grad_accum_steps");
  config["mesh"] = {{"dp_shard", 2}, {"pp", 2}};
  for (const int rows : {4, 64, 6}) {
    Json& ramp = config["batch"]["ramp"];
    ramp.push_back({{"from_rows", 100 * ramp.size()}, {"global_batch", rows}});
  }
  EXPECT_NE(changes_of(config).find(
                R"(/batch/ramp [{"from_rows":0,"global_batch":4},{"from_rows":100,"global_batch":64},)"
                R"({"from_rows":200,"global_batch":6}] )"
                R"([{"from_rows":0,"global_batch":8},{"from_rows":8,"global_batch":4},)"
                R"({"from_rows":12,"global_batch":8}])"),
            std::string::npos)
      << changes_of(config);
  EXPECT_TRUE(proof_of(config, 3).at("equal").get<bool>());
}

TEST(Prove, SeesBucketsThatSpanChunksOfAPipeline) {
  for (const char* axis : {"dp_shard", "cp"})
    for (const int64_t stage : {0, 1}) {
      Json config = small_model(8, false);
      config["mesh"] = {{axis, 2}, {"pp", 2}};
      config["zero"]["reduce"] = "per_micro_batch";
      if (stage > 0) config["zero"]["stage"] = stage;
      config["pipeline"] = {{"schedule", "interleaved"}, {"chunks", 2}};
      expect_equal(config);
    }
}

TEST(Prove, SeesThePaddingOfASharedTable) {
  Json config = small_model(2, true);
  config["mesh"] = {{"dp_shard", 2}, {"pp", 2}, {"tp", 2}};
  config["zero"]["reduce"] = "per_micro_batch";
  config["pipeline"]["schedule"] = "gpipe";
  expect_equal(config);
}

/// The proof must not shrink the pipeline, layers or vocabulary of this config, because its fault once
/// depended on the sizes of the chunks.
TEST(Prove, KeepsChunksTiesAndPaddingOfASmallModel) {
  Json config = small_model(8, true);
  config["model"].update(
      {{"heads", 4}, {"kv_heads", 4}, {"width", 32}, {"norm", "layer_norm"}, {"mlp", "gelu"}});
  config["batch"]["grad_accum_steps"] = 5;
  config["mesh"] = {{"tp", 2}, {"pp", 2}};
  config["pipeline"] = {{"schedule", "interleaved"}, {"chunks", 2}};
  config["recompute"]["policy"] = "full";
  config["offload"] = {{"activations", "disk"}, {"folder", std::filesystem::temp_directory_path().string()}};
  EXPECT_EQ(changes_of(config).find("/pipeline"), std::string::npos) << changes_of(config);
  EXPECT_EQ(changes_of(config).find("layers"), std::string::npos) << changes_of(config);
  EXPECT_EQ(changes_of(config).find("vocab_size"), std::string::npos) << changes_of(config);
  EXPECT_EQ(changes_of(config).find("grad_accum_steps"), std::string::npos) << changes_of(config);
  expect_equal(config);
}

/// Larger chunks keep their differences, more stages keep their first and last chunks, and the vocabulary
/// keeps its need of padding.
TEST(Prove, ShrinksALargeModelInProportion) {
  Json config = small_model(40, false);
  config["mesh"] = {{"tp", 2}, {"pp", 2}};
  config["pipeline"] = {{"schedule", "1f1b"}, {"layers", {21, 19}}};
  config["batch"]["grad_accum_steps"] = 33;
  config["model"]["vocab_size"] = 1001;
  EXPECT_NE(changes_of(config).find("/pipeline/layers [21,19] [6,4]\n"), std::string::npos)
      << changes_of(config);
  EXPECT_NE(changes_of(config).find("/batch/grad_accum_steps 33 5\n"), std::string::npos)
      << changes_of(config);
  EXPECT_NE(changes_of(config).find("/model/vocab_size 1001 97\n"), std::string::npos) << changes_of(config);
  config["model"]["vocab_size"] = 1000;
  EXPECT_NE(changes_of(config).find("/model/vocab_size 1000 96\n"), std::string::npos) << changes_of(config);
  config["mesh"] = {{"pp", 10}};
  config["pipeline"]["layers"] = {5, 4, 4, 4, 4, 4, 4, 4, 4, 3};
  EXPECT_NE(changes_of(config).find("/mesh/pp 10 8\n"), std::string::npos) << changes_of(config);
  EXPECT_NE(changes_of(config).find("[5,4,4,4,4,4,4,4,4,3] [5,4,4,4,4,4,4,3]\n"), std::string::npos)
      << changes_of(config);
}

TEST(Prove, TakesWhatTrains) {
  Json experts = small_model(4, false);
  experts["model"].update({{"heads", 4}, {"kv_heads", 2}, {"width", 24}, {"context", 16}, {"mlp_width", 48}});
  experts["model"]["moe"] = {{"experts", 8}, {"top_k", 2}, {"width", 12}};
  experts["mesh"] = {{"dp_shard", 4}, {"ep", 4}};
  expect_equal(experts);
  for (const char* schedule : {"zbv", "dualpipev", "zb_h1"}) {
    Json config = small_model(8, false);
    config["mesh"] = {{"dp_shard", 2}, {"pp", 2}};
    config["pipeline"]["schedule"] = schedule;
    expect_equal(config);
    experts["mesh"]["pp"] = 2, experts["pipeline"]["schedule"] = schedule;
    expect_equal(experts);
    config["mesh"] = {{"pp", 3}}, config["batch"]["grad_accum_steps"] = 6;
    expect_equal(config);
  }
}

/// Experts' gradients are not sent if each rank has experts of its own, so no stage rounds them.
TEST(Prove, RoundsNoGradientsThatStayOnTheirRank) {
  Json config = small_model(2, false);
  config["model"]["moe"] = {{"experts", 4}, {"top_k", 2}, {"width", 12}};
  config["mesh"] = {{"dp_shard", 2}, {"ep", 2}};
  for (const char* precision : {"fp32", "bf16"})
    for (const int64_t stage : {1, 2, 3})
      for (const int64_t micro_batches : {1, 2}) {
        config["precision"] = precision;
        config["batch"]["grad_accum_steps"] = micro_batches;
        config["zero"] = {{"stage", stage}, {"gradient_type", "bf16"}, {"reduce", "per_micro_batch"}};
        expect_equal(config);
      }
  config["mesh"] = {{"dp_replicate", 2}, {"dp_shard", 2}, {"ep", 2}};  // replicas do send them
  config["zero"] = {{"stage", 2}, {"gradient_type", "bf16"}};
  expect_equal(config);
}

/// The smallest projection of the shrunk model is narrower than the adapter's original rank.
TEST(Prove, ShrinksAnAdapterWithTheModel) {
  Json config = small_model(2, true);
  config["model"].update({{"heads", 9}, {"kv_heads", 3}, {"head_dim", 1}, {"position", "learned"}});
  config["adapter"] = {{"rank", 3}, {"targets", {"attention.*"}}};
  config["mesh"]["dp_shard"] = 2;
  expect_equal(config);

  config["model"].update(
      {{"heads", 6}, {"kv_heads", 6}, {"head_dim", 10}, {"width", 18}, {"position", "rotary"}});
  config["model"]["latent"] = {{"kv_rank", 8}, {"rope_dim", 2}, {"value_dim", 1}};  // o has one input a head
  config["adapter"]["rank"] = 6;
  expect_equal(config);
}

/// The report has the norms of all steps, and the number of steps in which clipping changed the gradients.
TEST(Prove, ReportsNormsAndClipping) {
  Json config = small_model(2, true);
  config["mesh"]["dp_shard"] = 2, config["optimizer"]["clip_norm"] = 1e-3;
  Json proof = proof_of(config, 3);
  EXPECT_EQ(proof.at("grad_norms").size(), 3U);
  EXPECT_EQ(proof.at("clipped_steps"), 3);
  config["optimizer"]["clip_norm"] = 1e6;
  EXPECT_EQ(proof_of(config, 3).at("clipped_steps"), 0);
}

}  // namespace prove_cases_test
}  // namespace hawser::testing
