// Fuzzer of safetensors files: every tensor in an accepted header can be read completely.
#include <algorithm>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "tests/fuzz/checks.h"
#include "tests/fuzz/input_folder.h"

using namespace hawser;
using checkpoint::SafetensorsFile;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::InputFolder files;
  static const checkpoint::Folder folder = checkpoint::Folder::open(files.path());
  files.put("a.safetensors", data, size);
  fuzz::taken([&] {
    const SafetensorsFile file = SafetensorsFile::open(folder, "a.safetensors");
    std::vector<uint8_t> bytes;
    for (const checkpoint::TensorInfo& tensor : file.tensors()) {
      FUZZ_REQUIRE(tensor.bytes() >= 0 && tensor.end <= static_cast<int64_t>(size));
      FUZZ_REQUIRE(file.find(tensor.name) == &tensor);
      bytes.resize(static_cast<size_t>(tensor.bytes()));
      file.read(tensor, 0, bytes.data(), tensor.bytes());
      FUZZ_REQUIRE(std::equal(bytes.begin(), bytes.end(), data + tensor.begin));
    }
  });
  return 0;
}
