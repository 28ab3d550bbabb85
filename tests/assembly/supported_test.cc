// Support check tests: what only the CPU has is refused by name on a GPU that /device "auto" has chosen.
#include "engine/assembly/supported.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/assembly/assemble.h"
#include "tests/harness/refusal.h"
#include "tests/harness/small_config.h"

namespace hawser::train {
namespace supported_test {

struct Feature {
  std::vector<std::pair<const char*, const char*>> settings;  ///< pointers and values
  std::vector<std::string> message;
  bool infers = false;  ///< inference needs it too
};

std::vector<Feature> features() {
  return {
      {{{"/optimizer/kind", R"("muon")"}}, {"/device", "optimizer \"muon\" is not supported", "\"adamw\""}},
      {{{"/optimizer/rules", R"([{"of": "*.o.weight", "kind": "adamw8"}])"}}, {"optimizer \"adamw8\""}},
      {{{"/optimizer/qk_clip", "100"}}, {"/optimizer/qk_clip 100", "remove /optimizer/qk_clip"}},
      {{{"/teacher/top", "2"}}, {"a teacher (/teacher/top 2)", "remove /teacher"}},
      {{{"/model/ahead", "1"}}, {"multi-token prediction (/model/ahead 1)", "use /model/ahead 0"}},
      {{{"/model/moe", R"({"experts": 4, "top_k": 2})"}, {"/model/bias/gate", "true"}},
       {"biases of experts", "set model.bias.gate, up and down to false"},
       true},
  };
}

TEST(Supported, IsRefusedByNameWhereOnlyTheCpuHasIt) {
  const hawser::testing::ScratchFolder folder;
  for (const Feature& feature : features()) {
    SCOPED_TRACE(feature.message[0]);
    config::ConfigTree tree = hawser::testing::small_config(hawser::testing::write_tokens(folder, 5000));
    for (const auto& [pointer, value] : feature.settings) tree.set(pointer, value);
    const Assembly assembly = assemble(tree);
    const config::ResolvedConfig& config = assembly.config;
    const nn::Model model(config.model, config.init.scale_residual, optim::trained_parts(config.optimizer));
    for (const bool inference : {false, true}) {
      EXPECT_NO_THROW(require_supported(model, config, "x86-64-v3", inference));
      const auto on_gpu = [&] { require_supported(model, config, "cuda", inference); };
      if (inference && !feature.infers)
        EXPECT_NO_THROW(on_gpu());
      else
        hawser::testing::expect_error(Code::kConfigInvalid, feature.message, on_gpu);
    }
  }
}

}  // namespace supported_test
}  // namespace hawser::train
