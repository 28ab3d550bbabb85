// Tests a GPU that fails under an engine: steps end with a lasting error, and a checkpoint whose snapshot had
// reached the host before is still written.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/harness/file_faults.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace broken_gpu_test {

using train::TensorKind;
using train::Trainer;

/// Makes the next work on the opened plugin's GPU fail, and all work after it.
void break_gpu() {
  void* const plugin = dlopen(HAWSER_EMULATED_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(plugin, nullptr) << dlerror();
  auto* const call = reinterpret_cast<void (*)()>(dlsym(plugin, "hawser_emulated_gpu_break"));
  ASSERT_NE(call, nullptr);
  call();
  dlclose(plugin);
}

TEST(BrokenGpu, EndsStepsButNotTheSaveThatHasItsSnapshot) {
  ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 20000), path = folder.file("checkpoint");
  std::atomic<bool> cancel{false};
  const auto make = [&] {
    config::ConfigTree config = small_config(tokens, "fp32", 2);
    config.set("/device", "\"cuda\"");
    return Trainer::create(config, false, &cancel);
  };
  const char* const name = "blocks.1.mlp.down.weight";
  std::vector<float> saved;
  {
    const auto trainer = make();
    trainer->train_step();
    saved = tensor(*trainer, TensorKind::kWeight, name, 40 * 72);
    const auto operation = [&] {
      const HeldDisk held;  // the save is in progress when the GPU breaks
      const auto begun = trainer->saves().save_async(path);
      break_gpu();
      for (int i = 0; i < 2; ++i) {
        try {
          trainer->train_step();
          ADD_FAILURE() << "a step on a broken GPU";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::kDeviceUnavailable) << error.message();
        }
      }
      EXPECT_FALSE(begun->ended());
      return begun;
    }();
    EXPECT_TRUE(operation->wait(-1));
    EXPECT_FALSE(operation->error().has_value());
    EXPECT_THROW(trainer->saves().save(folder.file("another")), Error) << "of weights that nobody can read";
  }
  const auto next = make();  // the GPU works again once nothing uses it
  next->loads().load(path, false);
  EXPECT_EQ(tensor(*next, TensorKind::kWeight, name, 40 * 72), saved);
  EXPECT_GT(next->train_step().loss, 0);
}

}  // namespace broken_gpu_test
}  // namespace hawser::testing
