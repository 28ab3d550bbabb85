// Tests the parameter table: names, shapes, parameter groups and offsets in them, frozen patterns, and counts
// of published models.
#include "engine/nn/parameter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "tests/config/published_parameters.h"

namespace hawser::nn {
namespace parameter_test {

ModelConfig resolve(const std::string& json) {
  return config::resolve(config::ConfigTree::from_json(json)).model;
}

constexpr const char* kGpt =
    R"({"model": {"vocab_size": 11, "context": 8, "layers": 1, "width": 6, "heads": 2,
    "position": "learned", "tied_head": true}, "batch": {"sequence": 8}})";
constexpr const char* kEverything = R"({"model": {"vocab_size": 11, "context": 8, "layers": 2, "width": 6,
    "heads": 2, "kv_heads": 1, "head_dim": 4, "mlp_width": 5, "norm": "rms_norm", "mlp": "swiglu",
    "position": "rotary", "tied_head": false, "qk_norm": true, "post_norm": true, "sinks": true, "norm_weight_offset": 1,
    "bias": {"q": true, "v": true, "gate": true, "up": true}}, "batch": {"sequence": 8}})";

std::vector<std::string> names_and_shapes(const ParameterTable& table) {
  std::vector<std::string> lines;
  for (const Parameter& p : table.all()) {
    std::string line = p.name + " ";
    for (size_t i = 0; i < p.shape.size(); ++i) line += (i > 0 ? "x" : "") + std::to_string(p.shape[i]);
    lines.push_back(line + " @" + std::to_string(p.block));
  }
  return lines;
}

TEST(ParameterTable, NamesShapesAndBlocksOfAPlainModel) {
  const std::vector<std::string> expected = {
      "embedding.tokens.weight 11x6 @0",
      "embedding.positions.weight 8x6 @0",
      "blocks.0.attention_norm.weight 6 @1",
      "blocks.0.attention_norm.bias 6 @1",
      "blocks.0.attention.q.weight 6x6 @1",
      "blocks.0.attention.k.weight 6x6 @1",
      "blocks.0.attention.v.weight 6x6 @1",
      "blocks.0.attention.q.bias 6 @1",
      "blocks.0.attention.k.bias 6 @1",
      "blocks.0.attention.v.bias 6 @1",
      "blocks.0.attention.o.weight 6x6 @1",
      "blocks.0.attention.o.bias 6 @1",
      "blocks.0.mlp_norm.weight 6 @1",
      "blocks.0.mlp_norm.bias 6 @1",
      "blocks.0.mlp.up.weight 24x6 @1",
      "blocks.0.mlp.up.bias 24 @1",
      "blocks.0.mlp.down.weight 6x24 @1",
      "blocks.0.mlp.down.bias 6 @1",
      "final_norm.weight 6 @2",
      "final_norm.bias 6 @2",
  };
  EXPECT_EQ(names_and_shapes(ParameterTable(resolve(kGpt))), expected);
}

TEST(ParameterTable, NamesShapesAndBlocksWithEveryOption) {
  const auto lines = names_and_shapes(ParameterTable(resolve(kEverything)));
  const std::vector<std::string> second_block(lines.begin() + 19, lines.end());
  const std::vector<std::string> expected = {
      "blocks.1.attention_norm.weight 6 @2",
      "blocks.1.attention.q.weight 8x6 @2",
      "blocks.1.attention.k.weight 4x6 @2",
      "blocks.1.attention.v.weight 4x6 @2",
      "blocks.1.attention.q.bias 8 @2",
      "blocks.1.attention.v.bias 4 @2",
      "blocks.1.attention.q_norm.weight 4 @2",
      "blocks.1.attention.k_norm.weight 4 @2",
      "blocks.1.attention.sinks 2 @2",
      "blocks.1.attention.o.weight 6x8 @2",
      "blocks.1.attention_post_norm.weight 6 @2",
      "blocks.1.mlp_norm.weight 6 @2",
      "blocks.1.mlp.gate.weight 5x6 @2",
      "blocks.1.mlp.up.weight 5x6 @2",
      "blocks.1.mlp.gate.bias 5 @2",
      "blocks.1.mlp.up.bias 5 @2",
      "blocks.1.mlp.down.weight 6x5 @2",
      "blocks.1.mlp_post_norm.weight 6 @2",
      "final_norm.weight 6 @3",
      "head.weight 11x6 @3",
  };
  EXPECT_EQ(second_block, expected);
  EXPECT_EQ(lines[0], "embedding.tokens.weight 11x6 @0");
  EXPECT_EQ(lines[1], "blocks.0.attention_norm.weight 6 @1");
}

/// All sets of frozen patterns that the tests below lay out.
const std::vector<std::vector<std::string>> kFrozenSets = {
    {}, {"embedding.*"}, {"*norm.weight"}, {"blocks.1.*"}, {"blocks.0.attention.?.weight", "*.bias"}};

TEST(ParameterTable, PlacesAreAlignedAscendAndDoNotOverlapInTheirGroup) {
  for (const auto& frozen : kFrozenSets) {
    const ParameterTable table(resolve(kEverything), true, frozen);
    std::vector<int64_t> ends(table.groups().size());
    int64_t count = 0, trainable = 0;
    for (const Parameter& p : table.all()) {
      int64_t& end = ends.at(static_cast<size_t>(p.group));
      EXPECT_GE(p.offset, end) << p.name;
      EXPECT_LT(p.offset - end, ParameterTable::kParameterAlign) << p.name;
      EXPECT_TRUE(p.offset == end || p.offset % ParameterTable::kParameterAlign == 0) << p.name;
      int64_t size = 1;
      for (const int64_t d : p.shape) size *= d;
      EXPECT_EQ(p.size, size) << p.name;
      end = p.offset + p.size;
      count += p.size;
      trainable += p.trainable ? p.size : 0;
    }
    for (size_t g = 0; g < ends.size(); ++g) {
      EXPECT_GT(ends[g], 0) << "group " << g << " is empty";
      EXPECT_EQ(table.groups()[g].elements, (ends[g] + 63) / 64 * 64) << "group " << g;
    }
    EXPECT_EQ(table.count(), count);
    EXPECT_EQ(table.trainable_count(), trainable);
  }
}

TEST(ParameterTable, AGroupHoldsParametersOfOneBlockThatAreHeldAlike) {
  for (const auto& frozen : kFrozenSets) {
    const ParameterTable table(resolve(kEverything), true, frozen);
    for (const Parameter& p : table.all()) {
      const ParameterGroup& group = table.groups().at(static_cast<size_t>(p.group));
      EXPECT_EQ(group.block, p.block) << p.name;
      EXPECT_EQ(group.trainable, p.trainable) << p.name;
      EXPECT_EQ(group.read, p.read) << p.name;
      const Place place = table.place(p.name);
      EXPECT_TRUE(place && place.group == p.group && place.offset == p.offset && place.read == p.read);
    }
    // Blocks ascend, and no two parameter groups of a block are alike.
    for (size_t g = 1; g < table.groups().size(); ++g) {
      const ParameterGroup &a = table.groups()[g - 1], &b = table.groups()[g];
      EXPECT_LE(a.block, b.block);
      EXPECT_TRUE(a.block < b.block || a.trainable != b.trainable || a.read != b.read) << "group " << g;
    }
  }
}

TEST(ParameterTable, MatricesOfBlocksAreTheWeightsOfTheirProducts) {
  const ParameterTable table(resolve(kEverything));
  for (const Parameter& p : table.all()) {
    const bool product = p.name.starts_with("blocks.") && p.name.ends_with(".weight") && p.shape.size() >= 2;
    EXPECT_EQ(is_block_matrix(p),
              product && p.name.find("router") == p.name.npos && p.name.find("shared_gate") == p.name.npos)
        << p.name;
  }
}

TEST(ParameterTable, TheFirstRuleThatNamesAParameterDecidesAndOptimizersHaveGroupsOfTheirOwn) {
  nn::TrainedParts parts({"blocks.1.mlp.*"});
  parts.optimizers = {4, 2};
  parts.rules = {{"blocks.*.attention_norm.*", {1, 1}, false},
                 {"blocks.0.*", {0, 5}, false},
                 {"*.bias", {1, 1}, false},
                 {"blocks.?.mlp.*", {3, 3}, false}};
  const auto expected = [&](const Parameter& p) {
    if (!p.trainable) return -1;
    for (size_t i = 0; i < parts.rules.size(); ++i)
      if (is_named_by(p, parts.rules[i].of)) return static_cast<int>(i);
    return -1;
  };
  parts.rules.pop_back();
  for (const int64_t tp : {1, 2}) {
    const ParameterTable table(resolve(kEverything), true, parts, tp),
        without(resolve(kEverything), true, {}, tp);
    std::set<std::pair<int64_t, int32_t>> seen;
    for (const Parameter& p : table.all()) {
      EXPECT_EQ(p.rule, expected(p)) << p.name;
      const auto& both = p.rule < 0 ? parts.optimizers : parts.rules[size_t(p.rule)].optimizers;
      const int32_t optimizer = !p.trainable ? 0 : is_block_matrix(p) ? both.matrices : both.others;
      const ParameterGroup& group = table.groups().at(static_cast<size_t>(p.group));
      EXPECT_EQ(group.optimizer, optimizer) << p.name;
      seen.insert({p.block, group.optimizer});
      EXPECT_EQ(p.local_shape, without.at(p.name).local_shape);
    }
    EXPECT_GT(seen.size(), 5u);
  }
}

TEST(ParameterTable, MatricesThatAreMultipliedAreReadInTheComputeTypeAllElseInF32) {
  for (const char* json : {kGpt, kEverything}) {
    const ParameterTable table(resolve(json));
    for (const Parameter& p : table.all()) {
      const bool product = p.shape.size() == 2 && !p.name.starts_with("embedding.");
      EXPECT_EQ(p.read, product ? Read::kProduct : Read::kLookup) << p.name;
    }
  }
}

/// Returns the names of the parameters that the patterns freeze.
std::vector<std::string> frozen_names(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  const ParameterTable table(resolve(kEverything), true, patterns);
  for (const Parameter& p : table.all())
    if (!p.trainable) names.push_back(p.name);
  return names;
}

TEST(FrozenPatterns, MatchWholeNamesByStarAndQuestionMark) {
  EXPECT_TRUE(frozen_names({}).empty());
  EXPECT_EQ(frozen_names({"head.weight"}), std::vector<std::string>{"head.weight"});
  EXPECT_EQ(frozen_names({"*_norm.weight", "embedding.*"}).size(), 1u + 2 * (2 + 2 + 2) + 1)
      << "two norms, two of QK-norm and two post-norms of each layer, the final one, the embedding";
  const std::vector<std::string> projections = {"blocks.1.attention.q.weight", "blocks.1.attention.k.weight",
                                                "blocks.1.attention.v.weight", "blocks.1.attention.o.weight"};
  EXPECT_EQ(frozen_names({"blocks.1.attention.?.weight"}), projections);
  EXPECT_EQ(frozen_names({"blocks.?.mlp.down.weight", "blocks.1.mlp.*.weight"}),
            (std::vector<std::string>{"blocks.0.mlp.down.weight", "blocks.1.mlp.gate.weight",
                                      "blocks.1.mlp.up.weight", "blocks.1.mlp.down.weight"}))
      << "patterns may overlap";
}

/// Returns the message of the kConfigInvalid that the patterns cause.
std::string refusal(const std::vector<std::string>& patterns) {
  try {
    const ParameterTable table(resolve(kEverything), true, patterns);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kConfigInvalid);
    EXPECT_NE(std::string(error.what()).find("/optimizer/frozen"), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(FrozenPatterns, WithoutAMatchAreNamed) {
  EXPECT_NE(refusal({"head.weight", "block.0.*"}).find("\"block.0.*\""), std::string::npos);
  for (const char* pattern : {"head", "head.weigh", "*.weight.*", "Head.weight", ""})
    EXPECT_NE(refusal({pattern}).find("\"" + std::string(pattern) + "\""), std::string::npos) << pattern;
}

TEST(FrozenPatterns, MustLeaveSomethingToTrain) {
  EXPECT_NE(refusal({"*"}).find("nothing to train"), std::string::npos);
  EXPECT_NE(refusal({"*.weight", "*.bias", "*.sinks"}).find("nothing to train"), std::string::npos);
}

TEST(FrozenPatterns, MayNotPartWhatIsMultipliedTogether) {
  const std::vector<std::pair<const char*, std::pair<const char*, const char*>>> apart = {
      {"blocks.0.attention.q.weight", {"blocks.0.attention.q.weight", "blocks.0.attention.k.weight"}},
      {"*.attention.v.weight", {"blocks.0.attention.k.weight", "blocks.0.attention.v.weight"}},
      {"blocks.1.mlp.gate.weight", {"blocks.1.mlp.gate.weight", "blocks.1.mlp.up.weight"}},
      {"*.attention.q.bias", {"blocks.0.attention.q.bias", "blocks.0.attention.v.bias"}},
      {"*.mlp.up.bias", {"blocks.0.mlp.gate.bias", "blocks.0.mlp.up.bias"}}};
  for (const auto& [pattern, names] : apart) {
    const std::string message = refusal({pattern});
    EXPECT_NE(message.find(names.first), std::string::npos) << message;
    EXPECT_NE(message.find(names.second), std::string::npos) << message;
  }
  // Frozen weights with trained biases are allowed.
  EXPECT_EQ(frozen_names({"*.attention.?.weight"}).size(), 8u);
}

TEST(ParameterTable, WhatOneKernelReadsTogetherLiesBackToBack) {
  const ParameterTable table(resolve(kEverything));
  const auto follows = [&](const char* second, const char* first) {
    const Parameter &a = table.at(first), &b = table.at(second);
    return b.group == a.group && b.offset == a.offset + a.size;
  };
  EXPECT_TRUE(follows("blocks.1.attention.k.weight", "blocks.1.attention.q.weight"));
  EXPECT_TRUE(follows("blocks.1.attention.v.weight", "blocks.1.attention.k.weight"));
  EXPECT_TRUE(follows("blocks.1.attention.v.bias", "blocks.1.attention.q.bias"));
  EXPECT_TRUE(follows("blocks.1.mlp.up.weight", "blocks.1.mlp.gate.weight"));
  EXPECT_TRUE(follows("blocks.1.mlp.up.bias", "blocks.1.mlp.gate.bias"));
}

TEST(ParameterTable, DecayFallsOnMatricesAlone) {
  const ParameterTable table(resolve(kEverything));
  for (const Parameter& p : table.all()) {
    EXPECT_EQ(p.decay, p.name.ends_with(".weight") && p.name.find("norm") == std::string::npos) << p.name;
  }
}

TEST(ParameterTable, InitialValuesFollowThePart) {
  const ModelConfig m = resolve(kEverything);
  for (const bool scale_residual : {true, false}) {
    const double residual = scale_residual ? 1.0 / std::sqrt(2.0 * 2) : 1.0;
    const ParameterTable table(m, scale_residual);
    for (const Parameter& p : table.all()) {
      const bool into_residual =
          p.name.ends_with("attention.o.weight") || p.name.ends_with("mlp.down.weight");
      if (p.name.ends_with(".bias")) {
        EXPECT_TRUE(p.initial.kind == InitialValue::Kind::kConstant && p.initial.value == 0.0) << p.name;
      } else if (p.name.ends_with("norm.weight")) {
        EXPECT_TRUE(p.initial.kind == InitialValue::Kind::kConstant) << p.name;
        EXPECT_EQ(p.initial.value, 0.0) << p.name << ": stored minus norm_weight_offset";
      } else {
        EXPECT_TRUE(p.initial.kind == InitialValue::Kind::kNormal) << p.name;
        EXPECT_DOUBLE_EQ(p.initial.value, into_residual ? residual : 1.0) << p.name;
      }
    }
  }
}

TEST(ParameterTable, AnUnknownNameIsNotFound) {
  const ParameterTable table(resolve(kGpt));
  EXPECT_EQ(table.find("head.weight"), nullptr);
  EXPECT_EQ(table.find(""), nullptr);
  try {
    table.at("blocks.1.mlp.up.weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_NE(std::string(error.what()).find("blocks.1.mlp.up.weight"), std::string::npos);
  }
}

TEST(ParameterTable, PublishedModelsHaveTheirPublishedCounts) {
  for (const auto& [preset, count] : testing::published_parameters())
    EXPECT_EQ(ParameterTable(resolve("{\"preset\": \"" + preset + "\"}")).count(), count) << preset;
}

}  // namespace parameter_test
}  // namespace hawser::nn
