// The last step of a decay to 0 had a learning rate of exactly 0, so part of an epoch had no effect. A run
// that an older version began keeps its old rates over all later checkpoints, and reports this.
#include <atomic>
#include <string>

#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace older_decay_test {

/// Copies a checkpoint, but omits the keys of its trainer state that older versions did not write.
void copy_as_older(const std::string& from, const std::string& to) {
  const auto reader = checkpoint::Reader::open(from);
  checkpoint::Description description = reader->description();
  OrderedJson state = parse_json<OrderedJson>(description.state_json);
  ASSERT_EQ(state.erase("decay"), 1u);
  description.state_json = state.dump();
  std::vector<std::vector<char>> contents;
  std::vector<checkpoint::TensorView> tensors;
  for (const auto& [name, entry] : reader->tensors()) {
    int64_t bytes = dtype_bytes(entry.dtype);
    for (const int64_t dim : entry.shape) bytes *= dim;
    std::vector<char>& data = contents.emplace_back(static_cast<size_t>(bytes));
    reader->read(name, data.data(), bytes);
    tensors.push_back({name, entry.dtype, entry.shape, data.data()});
  }
  checkpoint::save(to, tensors, description);
}

TEST(OlderDecay, ARunKeepsTheRatesThatItBeganWith) {
  const ScratchFolder folder;
  std::atomic<bool> cancel{false};
  config::ConfigTree config = small_config(write_tokens(folder, 2000));
  config.set("/schedule", R"({"kind": "linear", "warmup_steps": 2, "decay_steps": 12})");
  config.set("/train/steps", "12");
  const double peak = 0.003;
  const auto trainer = train::Trainer::create(config, false, &cancel);
  EXPECT_EQ(trainer->reports().info_json().find("older_decay"), std::string::npos);
  for (int i = 0; i < 4; ++i) trainer->train_step();
  EXPECT_DOUBLE_EQ(trainer->learning_rate(),
                   peak * 0.8);  // the rate of step 5, after two of ten steps of decay
  trainer->saves().save(folder.file("now"));
  copy_as_older(folder.file("now"), folder.file("older"));

  trainer->loads().load(folder.file("older"), false);
  EXPECT_DOUBLE_EQ(trainer->learning_rate(), peak * 0.7);
  EXPECT_NE(trainer->reports().info_json().find("\"older_decay\":true"), std::string::npos);
  trainer->train_step();
  trainer->saves().save(folder.file("later"));
  trainer->loads().load(folder.file("now"), false);
  EXPECT_DOUBLE_EQ(trainer->learning_rate(), peak * 0.8);
  EXPECT_EQ(trainer->reports().info_json().find("older_decay"), std::string::npos);
  trainer->loads().load(folder.file("later"), false);
  EXPECT_DOUBLE_EQ(trainer->learning_rate(), peak * 0.6);
  for (int i = 5; i < 11; ++i) trainer->train_step();
  EXPECT_EQ(trainer->learning_rate(), 0);  // the rate of the older version

  trainer->loads().load(folder.file("now"), false);
  for (int i = 4; i < 11; ++i) trainer->train_step();
  EXPECT_DOUBLE_EQ(trainer->learning_rate(), peak * 0.1);
}

}  // namespace older_decay_test
}  // namespace hawser::testing
