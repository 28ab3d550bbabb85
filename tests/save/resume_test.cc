// Tests that training N steps equals training N/2 steps, saving, loading into another engine and training N/2
// steps: bit for bit, in every precision, with accumulation, dropout and packing. (tests/cli tests this
// across processes.)
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace resume_test {

using train::TensorKind;
using train::Trainer;

struct Bits {
  std::vector<float> weights, m, v;
  double loss, norm;
  bool operator==(const Bits&) const = default;
};

Bits run(Trainer& trainer, int steps) {
  train::StepResult last;
  for (int i = 0; i < steps; ++i) last = trainer.train_step();
  const auto get = [&](TensorKind kind) {
    return testing::tensor(trainer, kind, "blocks.1.mlp.down.weight", 40 * 72);
  };
  return {get(TensorKind::kWeight), get(TensorKind::kMoment1), get(TensorKind::kMoment2), last.loss,
          last.grad_norm};
}

TEST(Resume, IsBitwise) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  for (const std::string precision : {"fp32", "bf16", "bf16_pure"}) {
    const auto config = testing::small_config(tokens, precision, 2);
    const auto whole = Trainer::create(config, false, &cancel);
    const Bits expected = run(*whole, 10);
    const auto half = Trainer::create(config, false, &cancel);
    run(*half, 5);
    half->saves().save(folder.file("half-" + precision));
    const auto resumed = Trainer::create(config, false, &cancel);
    resumed->loads().load(folder.file("half-" + precision), false);
    EXPECT_TRUE(run(*resumed, 5) == expected) << precision;
  }
}

TEST(Resume, RefusesAnotherModelOrOtherDataAndChangesNothing) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto trainer = Trainer::create(testing::small_config(tokens), false, &cancel);
  run(*trainer, 2);
  trainer->saves().save(folder.file("checkpoint"));

  config::ConfigTree other = testing::small_config(tokens);
  other.set("/model/mlp_width", "80");
  const auto wider = Trainer::create(other, false, &cancel);
  try {
    wider->loads().load(folder.file("checkpoint"), false);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kCheckpointIncompatible);
    EXPECT_NE(e.message().find("/model/mlp_width: 80 here, 72"), std::string::npos) << e.message();
  }
  EXPECT_EQ(wider->train_step().step, 1);

  const testing::ScratchFolder elsewhere;
  const auto moved =
      Trainer::create(testing::small_config(testing::write_tokens(elsewhere, 30000)), false, &cancel);
  EXPECT_THROW(moved->loads().load(folder.file("checkpoint"), false), Error);
  EXPECT_NO_THROW(moved->loads().load(folder.file("checkpoint"), true));
}

TEST(Resume, DataThatWereCutShortAreNotDigestedAtEachSave) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto trainer = Trainer::create(testing::small_config(tokens), false, &cancel);
  run(*trainer, 1);
  const auto data_after_save = [&](const char* name) {
    trainer->saves().save(folder.file(name));
    return checkpoint::Reader::open(folder.file(name))->description().data_json;
  };
  std::filesystem::copy_file(tokens, folder.file("whole"));
  std::filesystem::resize_file(tokens, 1000);
  const std::string cut = data_after_save("cut");
  EXPECT_EQ(cut.find("\"contents\""), std::string::npos) << cut;
  std::filesystem::copy_file(folder.file("whole"), tokens, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(data_after_save("later"), cut) << "the files were read again";

  const auto resumed = Trainer::create(testing::small_config(tokens), false, &cancel);
  EXPECT_NO_THROW(resumed->loads().load(folder.file("later"), false));
  resumed->saves().save(folder.file("resumed"));
  const auto reader = checkpoint::Reader::open(folder.file("resumed"));
  EXPECT_NE(reader->description().data_json.find("\"contents\""), std::string::npos);
}

TEST(Resume, InitFromCheckpointStartsAFineTune) {
  const testing::ScratchFolder folder;
  const std::string tokens = testing::write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto trainer = Trainer::create(testing::small_config(tokens), false, &cancel);
  run(*trainer, 3);
  trainer->saves().save(folder.file("base"));
  config::ConfigTree tune = config::ConfigTree::from_json(
      R"({"init": {"from": ")" + folder.file("base") + R"("}, "batch": {"micro_batch": 2, "sequence": 16}})");
  const auto tuned = Trainer::create(tune, false, &cancel);
  EXPECT_EQ(testing::tensor(*tuned, TensorKind::kWeight, "embedding.tokens.weight", 53 * 40),
            testing::tensor(*trainer, TensorKind::kWeight, "embedding.tokens.weight", 53 * 40));
  EXPECT_NE(tuned->reports().info_json().find("\"step\":0"), std::string::npos);
}

}  // namespace resume_test
}  // namespace hawser
