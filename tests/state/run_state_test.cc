// Run state tests: the state of a run survives conversion to text without loss.
#include "engine/state/run_state.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace hawser {
namespace run_state_test {

TEST(RunState, RoundTripsExactly) {
  train::RunState s;
  s.step = 12, s.accepted = 11, s.samples = 77, s.skipped = 1;
  s.best_validation_loss = 1.0 / 3.0;
  for (int i = 0; i < 200; ++i) s.losses.add(0.1 * i), s.norms.add(1e-300 / (i + 1));
  const train::RunState back = train::run_state_from_json(train::to_json(s));
  EXPECT_EQ(back.step, 12);
  EXPECT_EQ(back.best_validation_loss, s.best_validation_loss);
  EXPECT_EQ(back.losses.values, s.losses.values);
  EXPECT_EQ(back.norms.values, s.norms.values);
  EXPECT_EQ(back.norms.count, 200);
}

/// Older versions wrote no "decay". Their runs keep their rates, and the later checkpoints of these runs also
/// lack "decay".
TEST(RunState, AnOlderVersionsDecayStays) {
  const std::string now = train::to_json(train::RunState());
  EXPECT_EQ(train::run_state_from_json(now).decay, optim::DecayProgress::kBeforeStep);
  std::string older = now;
  const std::string key = "\"decay\":\"before_step\",";
  ASSERT_NE(older.find(key), std::string::npos) << older;
  older.erase(older.find(key), key.size());
  const train::RunState state = train::run_state_from_json(older);
  EXPECT_EQ(state.decay, optim::DecayProgress::kWithStep);
  EXPECT_EQ(train::to_json(state), older);
  std::string newer = now;
  newer.replace(newer.find("before_step"), 11, "of_tomorrow");
  EXPECT_THROW((void)train::run_state_from_json(newer), Error);
}

/// Runs of other precisions write none, so an older Hawser reads their checkpoints. It refuses others by
/// name.
TEST(RunState, KeepsALossScaleIfThereIsOne) {
  train::RunState s;
  EXPECT_EQ(train::to_json(s).find("loss_scale"), std::string::npos);
  EXPECT_FALSE(train::run_state_from_json(train::to_json(s)).loss_scale.has_value());
  s.loss_scale = optim::LossScaleState{8192, 17, 1};
  EXPECT_EQ(train::run_state_from_json(train::to_json(s)).loss_scale, s.loss_scale);
  for (const double scale : {0.0, -2.0, 3.0, 1e300}) {
    s.loss_scale = optim::LossScaleState{scale};
    EXPECT_THROW((void)train::run_state_from_json(train::to_json(s)), Error) << scale;
  }
}

TEST(RunState, KeepsAHistoryOfFp8IfThereIsOne) {
  train::RunState s;
  EXPECT_FALSE(train::run_state_from_json(train::to_json(s)).fp8_history.has_value());
  s.fp8_history.emplace();
  EXPECT_EQ(train::run_state_from_json(train::to_json(s)).fp8_history, s.fp8_history);
  s.fp8_history = {{"a.weight:input", {{7, 0x1.8p-3f}, {2, 0x1.234568p-9f}}},
                   {"a.weight:gradient", {{0, 3e-39f}}}};
  EXPECT_EQ(train::run_state_from_json(train::to_json(s)).fp8_history, s.fp8_history);
  const std::vector<optim::Fp8Maximum> wrong[] = {
      {{-1, 1.0f}}, {{0, 0.0f}}, {{0, -1.0f}}, {{1, 1.0f}, {1, 0.5f}}, {{2, 1.0f}, {1, 1.0f}}};
  for (const auto& maxima : wrong) {
    s.fp8_history = {{"b.weight:weight", maxima}};
    EXPECT_THROW((void)train::run_state_from_json(train::to_json(s)), Error);
  }
}

TEST(RunState, DamageIsAnErrorThatNamesTheKey) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      train::run_state_from_json(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCheckpointCorrupt);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("{}"), "the checkpoint's trainer state has no 'step'");
  EXPECT_EQ(message("no json"), "the checkpoint's trainer state has values of the wrong type");
  std::string text = train::to_json(train::RunState());
  const size_t step = text.find("\"step\":0");
  ASSERT_NE(step, std::string::npos) << text;
  EXPECT_EQ(message(text.replace(step, 8, "\"step\":[]")),
            "the checkpoint's trainer state has values of the wrong type");
}

}  // namespace run_state_test
}  // namespace hawser
