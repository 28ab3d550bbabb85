// Fuzzer of checkpoint manifests, and of the indexes that ranks send each other. The digest at a manifest's
// end would reject every changed manifest, so an input is a manifest without its last line, which the fuzzer
// adds. An accepted manifest can be written, and reads back the same.
#include "engine/checkpoint/manifest.h"

#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/shard_index.h"
#include "tests/fuzz/checks.h"

using namespace hawser;
namespace cp = hawser::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const std::string digest = cp::Digest::of(text.data(), static_cast<int64_t>(text.size()));
  fuzz::taken([&] {
    const std::string signed_text = text + ",\n \"manifest_digest\": \"" + digest + "\"\n}\n";
    const std::string again = cp::manifest_text(cp::parse_manifest(signed_text, "manifest.json"));
    FUZZ_REQUIRE(cp::manifest_text(cp::parse_manifest(again, "again.json")) == again);
  });
  fuzz::taken([&] {
    const std::string again = cp::index_text(cp::parse_index(text, 1, 4));
    FUZZ_REQUIRE(cp::index_text(cp::parse_index(again, 1, 4)) == again);
  });
  return 0;
}
