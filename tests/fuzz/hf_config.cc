// Fuzzer of Hugging Face config.json files: an accepted file becomes a model section that is a valid config.
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/config/config_tree.h"
#include "tests/fuzz/checks.h"

using namespace hawser;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string model;
  if (fuzz::taken([&] { model = checkpoint::hf::model_json(fuzz::text_of(data, size), {"ignored"}); })) {
    FUZZ_REQUIRE(fuzz::taken([&] { config::validate(config::ConfigTree::from_json(model)); }));
  }
  return 0;
}
