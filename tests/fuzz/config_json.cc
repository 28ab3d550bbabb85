// Fuzzer of JSON configs: an accepted config can be validated, explained and resolved, and keeps its meaning
// when it is written again.
#include "engine/config/config_tree.h"
#include "tests/fuzz/checks.h"

using namespace hawser;
using config::ConfigTree;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::taken([&] {
    const ConfigTree tree = ConfigTree::from_json(fuzz::text_of(data, size));
    const std::string text = tree.to_json();
    FUZZ_REQUIRE(ConfigTree::from_json(text).to_json() == text);
    const bool valid = config::validate(tree).empty();
    config::resolved_json(tree);
    config::explain(tree, "");
    if (fuzz::taken([&] { config::resolve(tree); })) FUZZ_REQUIRE(valid);
  });
  return 0;
}
