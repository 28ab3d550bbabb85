// Tests the mean of checkpoints: its elements equal a sum in f64, rounded once, of any types and sizes; its
// description is that of the newest; what cannot be averaged is refused and leaves nothing.
#include "engine/checkpoint/average.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <random>

#include "engine/base/error.h"
#include "engine/checkpoint/reader.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint {
namespace average_test {

/// More elements than are in memory at once, and no multiple of anything.
constexpr int64_t kLarge = (int64_t{1} << 20) * 2 + 7;

struct Model {
  std::vector<float> large, small;
  std::vector<uint16_t> half;
  Description description;

  Model(uint32_t seed, int64_t step) : large(kLarge), small(3), half(5) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : large) x = uniform(random);
    for (float& x : small) x = 1e30f * uniform(random);
    for (uint16_t& x : half) x = static_cast<uint16_t>(0x3f80 + random() % 100);
    description.step = step;
    description.model_json = R"({"width": 8})";
    description.state_json = R"({"samples": 9})";
    description.data_json = R"({"digest": "x"})";
    description.config_json = step == 20 ? R"({"train": {"steps": 20}})" : "{}";
  }
  void save(const std::string& path) const {
    std::vector<TensorView> tensors = {{"large", DType::kF32, {kLarge}, large.data()},
                                       {"half", DType::kBf16, {5, 1}, half.data()},
                                       {"none", DType::kF32, {0, 3}, nullptr},
                                       {"small", DType::kF32, {3}, small.data()},
                                       {"optimizer.m.small", DType::kF32, {3}, small.data()}};
    checkpoint::save(path, tensors, description);
  }
};

std::vector<float> read(const Reader& reader, const std::string& name, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  reader.read(name, values.data(), n * 4);
  return values;
}

float widened(uint16_t half) { return std::bit_cast<float>(static_cast<uint32_t>(half) << 16); }

TEST(Average, IsTheWeightedSumInDoubleRoundedOnce) {
  const Scratch scratch;
  const Model models[] = {{1, 10}, {2, 20}, {3, 15}};
  const double weights[] = {0.3, 2, 1e-3};
  std::vector<Weighted> of;
  for (size_t i = 0; i < 3; ++i) {
    of.push_back({scratch / ("model-" + std::to_string(i)), weights[i]});
    models[i].save(of.back().path);
  }
  average(of, scratch / "mean");
  const auto reader = Reader::open(scratch / "mean");
  reader->verify();
  EXPECT_EQ(reader->tensors().size(), 4u);
  const auto expect = [&](const std::string& name, int64_t n, auto value) {
    const std::vector<float> mean = read(*reader, name, n);
    for (size_t e = 0; e < mean.size(); ++e) {
      const double sum = weights[0] * value(models[0], e) + weights[1] * value(models[1], e) +
                         weights[2] * value(models[2], e);
      ASSERT_EQ(mean[e], static_cast<float>(sum / (weights[0] + weights[1] + weights[2]))) << name << e;
    }
  };
  expect("large", kLarge, [](const Model& m, size_t e) { return static_cast<double>(m.large[e]); });
  expect("small", 3, [](const Model& m, size_t e) { return static_cast<double>(m.small[e]); });
  expect("half", 5, [](const Model& m, size_t e) { return static_cast<double>(widened(m.half[e])); });
  EXPECT_EQ(reader->tensors().at("half").shape, (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(reader->description().step, 20);
  EXPECT_EQ(reader->description().config_json, R"({"train":{"steps":20}})");
  EXPECT_EQ(reader->description().state_json, "{}");
  EXPECT_EQ(reader->description().data_json, "{}");
}

TEST(Average, OfOneModelTwiceIsThatModel) {
  const Scratch scratch;
  const Model model(7, 3);
  model.save(scratch / "model");
  average({{scratch / "model", 3}, {scratch / "model", 3}}, scratch / "mean");
  EXPECT_EQ(read(*Reader::open(scratch / "mean"), "large", kLarge), model.large);
}

class Refusals : public ::testing::Test {
 protected:
  void SetUp() override { Model(1, 1).save(one_); }
  void expect(Code code, const std::vector<Weighted>& of, const std::string& words) {
    try {
      average(of, mean_);
      ADD_FAILURE() << "no error: " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
    EXPECT_FALSE(std::filesystem::exists(mean_));
    size_t left = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
      left += entry.path().filename().string().starts_with(".");
    EXPECT_EQ(left, 0u);
  }

  const Scratch scratch_;
  const std::string one_ = scratch_ / "one", two_ = scratch_ / "two", mean_ = scratch_ / "mean";
};

TEST_F(Refusals, OfFewCheckpointsAndOtherWeights) {
  expect(Code::kInvalidArgument, {}, "not 0");
  expect(Code::kInvalidArgument, {{one_}}, "not 1");
  for (const double weight : {0.0, -1.0, double(INFINITY), double(NAN)})
    expect(Code::kInvalidArgument, {{one_}, {one_, weight}}, "above 0 and finite");
}

TEST_F(Refusals, OfCheckpointsThatDoNotBelongTogether) {
  Model other(2, 2);
  other.description.model_json = R"({"width": 9})";
  other.save(two_);
  expect(Code::kCheckpointIncompatible, {{one_}, {two_}}, "another model");
  std::filesystem::remove_all(two_);
  other.description.model_json = R"({"width": 8})";
  other.description.extra_files["tokenizer.json"] = "{}";
  other.save(two_);
  expect(Code::kCheckpointIncompatible, {{one_}, {two_}}, "tokenizer");
  expect(Code::kNotFound, {{one_}, {scratch_ / "nowhere"}}, "nowhere");
}

TEST_F(Refusals, OfAdapters) {
  Model other(2, 2);
  other.description.model_json = R"({"width": 8, "adapter": {"rank": 2}})";
  other.save(two_);
  expect(Code::kFailedPrecondition, {{two_}, {two_}}, "merge each adapter first");
}

}  // namespace average_test
}  // namespace hawser::checkpoint
