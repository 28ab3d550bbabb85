// Binary config test: round trips of FlatBuffers configs, and a status for every damaged byte.
#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/config/schema_view.h"
#include "tests/config/problem_list.h"

namespace hawser::config {
namespace tree_binary_test {

constexpr char kEverything[] = R"({"preset": "gpt2-124m", "device": "auto", "seed": 18446744073709551615,
  "deterministic": false, "precision": "bf16",
  "model": {"vocab_size": 300, "layers": 3, "mlp": "geglu", "window": 8, "window_layers": [0, 2],
            "rope": {"theta": 12345.5, "scaling": "yarn"}, "bias": {"q": false, "all": true}, "norm_eps": 1e-6},
  "init": {"from": "folder", "ignore_keys": ["a", "b c", ""]},
  "data": {"sources": [{"path": "x", "weight": 0.25}, {"path": "ü"}], "validation_sources": []},
  "train": {"steps": 0}})";

uint16_t offset_of(const char* table, const char* field) {
  const TableView& view = *table == '\0' ? schema() : *schema().find(table)->table;
  return view.find(field)->vtable_offset;
}

/// A config whose only content is one field of one section, written by `fill(builder)`.
template <typename Fill>
std::vector<uint8_t> section(const char* name, Fill fill) {
  flatbuffers::FlatBufferBuilder builder;
  const auto start = builder.StartTable();
  fill(&builder);
  const auto child = builder.EndTable(start);
  const auto root_start = builder.StartTable();
  builder.AddOffset(offset_of("", name), flatbuffers::Offset<void>(child));
  builder.Finish(flatbuffers::Offset<void>(builder.EndTable(root_start)), "HWSC");
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Error read_error(const std::vector<uint8_t>& bytes) {
  return error_of([&] { ConfigTree::from_binary(bytes.data(), bytes.size()); });
}

TEST(ConfigBinary, RoundTripsWithJson) {
  const ConfigTree tree = ConfigTree::from_json(kEverything);
  const std::vector<uint8_t> bytes = tree.to_binary();
  const ConfigTree back = ConfigTree::from_binary(bytes.data(), bytes.size());
  EXPECT_EQ(back.to_json(), tree.to_json());
  EXPECT_EQ(back.to_binary(), bytes);
  const std::vector<uint8_t> empty = ConfigTree().to_binary();
  EXPECT_EQ(ConfigTree::from_binary(empty.data(), empty.size()).to_json(), "{}");
}

TEST(ConfigBinary, MayLieAtAnyAddress) {
  const std::vector<uint8_t> bytes = ConfigTree::from_json(kEverything).to_binary();
  std::vector<uint8_t> shifted(bytes.size() + 1);
  std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
  EXPECT_NO_THROW(ConfigTree::from_binary(shifted.data() + 1, bytes.size()));
}

TEST(ConfigBinary, RefusesWhatIsNoConfig) {
  std::vector<uint8_t> bytes = ConfigTree::from_json(kEverything).to_binary();
  EXPECT_EQ(error_of([&] { ConfigTree::from_binary(nullptr, 0); }).code(), Code::kConfigParse);
  EXPECT_EQ(read_error({1, 2, 3}).code(), Code::kConfigParse);
  bytes[4] = 'X';
  EXPECT_CONTAINS(read_error(bytes).message(), "identifier HWSC");
}

TEST(ConfigBinary, RefusesEveryTruncationAndSurvivesEveryFlip) {
  const std::vector<uint8_t> bytes = ConfigTree::from_json(kEverything).to_binary();
  for (size_t size = 0; size < bytes.size(); ++size) {
    try {
      ConfigTree::from_binary(bytes.data(), size);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::kConfigParse || error.code() == Code::kConfigInvalid);
    }
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<uint8_t> flipped = bytes;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    try {
      const ConfigTree tree = ConfigTree::from_binary(flipped.data(), flipped.size());
      EXPECT_NO_THROW(ConfigTree::from_json(tree.to_json()));  // an accepted binary is a valid config
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::kConfigParse || error.code() == Code::kConfigInvalid);
    }
  }
}

TEST(ConfigBinary, SurvivesRandomDamage) {
  const std::vector<uint8_t> bytes = ConfigTree::from_json(kEverything).to_binary();
  const uint32_t seed = 20240501;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> damaged = bytes;
    for (int i = 0; i < 1 + round % 6; ++i) {
      damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
    }
    std::memcpy(damaged.data() + 4, "HWSC", 4);
    try {
      validate(ConfigTree::from_binary(damaged.data(), damaged.size()));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::kConfigParse || error.code() == Code::kConfigInvalid);
    }
  }
}

TEST(ConfigBinary, RefusesWhatTheVerifierLetsThrough) {
  using Builder = flatbuffers::FlatBufferBuilder;
  const Error bad_enum =
      read_error(section("model", [](Builder* b) { b->AddElement<uint8_t>(offset_of("model", "mlp"), 77); }));
  EXPECT_EQ(bad_enum.code(), Code::kConfigInvalid);
  EXPECT_CONTAINS(bad_enum.message(), "/model/mlp: 77 is not a value of enum Mlp; use one of \"gelu\"");
  const Error nan = read_error(section("optimizer", [](Builder* b) {
    b->AddElement<double>(offset_of("optimizer", "learning_rate"), std::nan(""));
  }));
  EXPECT_CONTAINS(nan.message(), "/optimizer/learning_rate: nan is not a finite number");
  const Error unknown = read_error(section("cpu", [](Builder* b) { b->AddElement<int64_t>(4 + 2 * 40, 5); }));
  EXPECT_CONTAINS(unknown.message(), "/cpu: unknown field id 40 in table Cpu");
  const Error byte = read_error(
      section("model", [](Builder* b) { b->AddElement<uint8_t>(offset_of("model", "qk_norm"), 2); }));
  EXPECT_CONTAINS(byte.message(), "/model/qk_norm: expected true or false, got byte 2");
}

TEST(ConfigBinary, RefusesTextThatIsNotUtf8) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString("a\xff");
  const auto start = builder.StartTable();
  builder.AddOffset(offset_of("", "preset"), text);
  builder.Finish(flatbuffers::Offset<void>(builder.EndTable(start)), "HWSC");
  const Error error =
      read_error({builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()});
  EXPECT_CONTAINS(error.message(), "/preset: the string is not UTF-8");
}

}  // namespace tree_binary_test
}  // namespace hawser::config
