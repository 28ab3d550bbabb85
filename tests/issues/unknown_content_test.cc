// Unknown contents of a checkpoint, which a newer version might write, are refused by name, because the next
// save would lose ignored contents.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace unknown_content_test {

/// Returns the trainer's error for one of its own checkpoints, to which `change` added something.
Error refusal(
    const std::function<void(checkpoint::Description*, std::vector<checkpoint::TensorView>*)>& change) {
  const ScratchFolder folder;
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(small_config(write_tokens(folder, 2000)), false, &cancel);
  trainer->train_step();
  trainer->saves().save(folder.file("sound"));
  const auto reader = checkpoint::Reader::open(folder.file("sound"));
  checkpoint::Description description = reader->description();
  std::vector<std::vector<char>> contents;
  std::vector<checkpoint::TensorView> tensors;
  for (const auto& [name, entry] : reader->tensors()) {
    int64_t bytes = dtype_bytes(entry.dtype);
    for (const int64_t dim : entry.shape) bytes *= dim;
    std::vector<char>& data = contents.emplace_back(static_cast<size_t>(bytes));
    reader->read(name, data.data(), bytes);
    tensors.push_back({name, entry.dtype, entry.shape, data.data()});
  }
  change(&description, &tensors);
  checkpoint::save(folder.file("changed"), tensors, description);
  trainer->loads().load(folder.file("sound"), false);
  try {
    trainer->loads().load(folder.file("changed"), false);
  } catch (const Error& error) {
    trainer->train_step();  // the refused load changed nothing
    return error;
  }
  return Error(Code::kOk, "it was loaded");
}

void expect_named(const Error& error, const std::string& name) {
  EXPECT_EQ(error.code(), Code::kCheckpointIncompatible) << error.message();
  EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
}

std::string with(const std::string& json, const char* key, const OrderedJson& value) {
  OrderedJson changed = OrderedJson::parse(json);
  changed[key] = value;
  return changed.dump();
}

TEST(UnknownContent, AModelFieldIsRefusedByName) {
  expect_named(refusal([](auto* description, auto*) {
                 description->model_json = with(description->model_json, "experts", 8);
               }),
               "/model/experts: not known here, 8 in the checkpoint");
}

/// Returns the error for a checkpoint whose model lacks the field at `pointer`.
Error refusal_without(const char* pointer) {
  return refusal([&](auto* description, auto*) {
    const OrderedJson model = OrderedJson::parse(description->model_json);
    OrderedJson fields = model.flatten();
    EXPECT_EQ(fields.erase(pointer), 1u) << model.dump();
    description->model_json = fields.unflatten().dump();
  });
}

TEST(UnknownContent, AModelFieldThatAnOlderVersionLackedHasItsDefault) {
  for (const char* pointer : {"/sinks", "/post_norm", "/head_dim"})
    EXPECT_EQ(refusal_without(pointer).message(), "it was loaded") << pointer;
  expect_named(refusal_without("/layers"), "in the checkpoint");
}

TEST(UnknownContent, ACounterIsRefusedByName) {
  expect_named(refusal([](auto* description, auto*) {
                 description->state_json = with(description->state_json, "tokens_seen", 8);
               }),
               "'tokens_seen'");
}

TEST(UnknownContent, ATensorIsRefusedByName) {
  static const float values[2] = {1, 2};
  expect_named(refusal([](auto*, auto* tensors) {
                 tensors->push_back({"blocks.0.router.weight", DType::kF32, {2}, values});
               }),
               "\"blocks.0.router.weight\"");
}

}  // namespace unknown_content_test
}  // namespace hawser::testing
