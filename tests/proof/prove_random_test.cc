// Random proof tests: `prove` succeeds for every config that trains, with random models, precisions, meshes,
// stages, orders of sums, wire types and optimizers. HAWSER_CONFIGS sets how many configs are tried,
// HAWSER_SEED which.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/proof/prove_layout.h"
#include "tests/harness/ramp_run.h"
#include "tests/harness/random_config.h"

namespace hawser::testing {
namespace prove_random_test {

/// True if only a moved choice of experts makes the gradients differ from those of one rank.
bool a_choice_moved(const nlohmann::json& proof) {
  const nlohmann::json& choices = proof.at("choices_of_experts");
  return proof.at("first_difference").is_null() && !choices.is_null() && choices.at("moved") > 0;
}

/// The generator draws every field of these sections, except those of kNotDrawn.
constexpr const char* kSections[] = {"/precision", "/model/",    "/moe/",  "/optimizer/", "/schedule/",
                                     "/mesh/",     "/pipeline/", "/zero/", "/comm/",      "/recompute/",
                                     "/offload/",  "/adapter/",  "/batch/"};
constexpr std::pair<const char*, const char*> kNotDrawn[] = {
    {"/model/head", "a score has a loss over pairs only, which a proof refuses"},
    {"/comm/timeout_seconds", "how long to wait changes no number"},
    {"/comm/bandwidth_limit", "it slows transfers down"},
    {"/offload/gradients", "the CPU's are in host memory; tests/device/far_host_update_test.cc"},
    {"/comm/device_transport", "the CPU has none; tests/device/far_device_test.cc compares them"},
    {"/batch/ramp", "draw_sizes adds ramps to these configs"},
    {"/batch/global_batch", "follows from the number of ranks and micro-batches"},
    {"/adapter/from", "a folder"},
    {"/adapter/ranks", "exceptions to rank; tests/parallel/adapter_test.cc"},
    {"/adapter/alphas", "exceptions to alpha; tests/parallel/adapter_test.cc"},
    {"/adapter/train", "tests/parallel/adapter_test.cc"},
    {"/adapter/base", "sizes must be multiples of 64; tests/parallel/nf4_test.cc"},
};

/// Adds the pointers of all leaves of a config; a list counts as a leaf.
void add_pointers(const nlohmann::json& json, const std::string& at, std::set<std::string>* pointers) {
  if (!json.is_object()) {
    pointers->insert(at);
    return;
  }
  for (const auto& [key, value] : json.items()) add_pointers(value, at + "/" + key, pointers);
}

/// The fields of kSections.
std::set<std::string> fields_to_draw() {
  const auto fields = nlohmann::json::parse(config::explain(config::ConfigTree::from_json("{}"), ""));
  std::set<std::string> pointers;
  for (const nlohmann::json& field : fields) {
    const std::string pointer = field.at("pointer").get<std::string>();
    if (std::any_of(std::begin(kSections), std::end(kSections),
                    [&](const char* section) { return pointer.starts_with(section); }))
      pointers.insert(pointer);
  }
  return pointers;
}

TEST(RandomConfig, DrawsEveryFieldThatALayoutMayDependOn) {
  std::set<std::string> missing = fields_to_draw(), drawn;
  for (const auto& [pointer, why] : kNotDrawn)
    EXPECT_EQ(missing.erase(pointer), 1U) << pointer << ": no such field";
  for (uint64_t seed = 0; seed < 1500 && !missing.empty(); ++seed) {
    add_pointers(nlohmann::json::parse(random_config(seed)), "", &drawn);
    std::erase_if(missing, [&](const std::string& pointer) { return drawn.count(pointer) > 0; });
  }
  for (const std::string& pointer : missing)
    ADD_FAILURE() << pointer << ": draw it, or say in kNotDrawn why not";
  for (const auto& [pointer, why] : kNotDrawn) EXPECT_EQ(drawn.count(pointer), 0U) << pointer << " is drawn";
}

TEST(Prove, HoldsForEveryConfigThatTrains) {
  for (const uint64_t i : random_seeds(60)) {
    const std::string json = random_config(i);
    try {
      const auto proof = nlohmann::json::parse(train::prove_layout(config::ConfigTree::from_json(json), 2));
      if (a_choice_moved(proof)) continue;  // two experts had nearly the same score
      EXPECT_TRUE(proof.at("equal").get<bool>()) << "HAWSER_SEED=" << i << ' ' << json << '\n' << proof;
      EXPECT_GT(proof.at("elements").get<int64_t>(), 0) << "HAWSER_SEED=" << i;
    } catch (const Error& error) {
      ADD_FAILURE() << "HAWSER_SEED=" << i << ' ' << json << '\n' << error.message();
    }
  }
}

TEST(Prove, HoldsForStepsOfTwoSizes) {
  size_t proven = 0;
  for (const uint64_t i : random_seeds(12)) {
    const auto config = nlohmann::json::parse(random_config(i));
    const std::optional<RampSizes> sizes = draw_sizes(config, 2, i);
    if (!sizes) continue;
    const std::string json = with_ramp(config, *sizes).dump();
    const auto proof = nlohmann::json::parse(train::prove_layout(config::ConfigTree::from_json(json), 3));
    if (a_choice_moved(proof)) continue;  // two experts had nearly the same score
    EXPECT_TRUE(proof.at("equal").get<bool>()) << "HAWSER_SEED=" << i << ' ' << json << '\n' << proof;
    ++proven;
  }
  EXPECT_GT(proven, 6u);
}

}  // namespace prove_random_test
}  // namespace hawser::testing
