// Fuzzer of Megatron indexes: the first byte of an input is the size of the .bin file, the rest is the index.
// If it opens, every token can be read, and each document ends after the requested token.
#include <vector>

#include "engine/data/token_source.h"
#include "tests/fuzz/checks.h"
#include "tests/fuzz/input_folder.h"

using namespace hawser;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::InputFolder folder;
  static const uint8_t tokens[255] = {1, 2, 3};
  if (size == 0) return 0;
  folder.put("a.bin", tokens, data[0]);
  folder.put("a.idx", data + 1, size - 1);
  fuzz::taken([&] {
    const auto source = data::open_megatron(folder.path() + "/a");
    FUZZ_REQUIRE(source->size() <= data[0]);
    std::vector<int32_t> all(static_cast<size_t>(source->size()));
    source->copy(0, source->size(), all.data());
    for (int64_t at = 0; at < source->size(); ++at) {
      const int64_t end = source->document_end(at, source->size());
      FUZZ_REQUIRE(end > at && end <= source->size());
      source->locate(at);
    }
  });
  return 0;
}
