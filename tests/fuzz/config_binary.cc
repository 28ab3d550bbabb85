// Fuzzer of FlatBuffers configs: an accepted config means the same as binary and as JSON.
#include <vector>

#include "engine/config/config_tree.h"
#include "tests/fuzz/checks.h"

using namespace hawser;
using config::ConfigTree;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::taken([&] {
    const ConfigTree tree = ConfigTree::from_binary(data, size);
    const std::string text = tree.to_json();
    const std::vector<uint8_t> binary = tree.to_binary();
    FUZZ_REQUIRE(ConfigTree::from_json(text).to_json() == text);
    FUZZ_REQUIRE(ConfigTree::from_binary(binary.data(), binary.size()).to_json() == text);
    config::validate(tree);
  });
  return 0;
}
