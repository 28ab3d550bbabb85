// Golden helpers: read the cases made by Hugging Face's tokenizers (tests/golden/tokenizers) and the built
// module.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/text/tokenizer.h"

namespace hawser::text::testing {

inline const std::string kModuleFolder = HAWSER_MODULE_FOLDER;

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Opens the small tokenizer of a family.
inline Tokenizer open_golden(const std::string& family) {
  const std::string path = std::string(HAWSER_GOLDEN) + "/tokenizers/" + family + "/tokenizer.json";
  return Tokenizer(read_file(path), path, kModuleFolder);
}

}  // namespace hawser::text::testing
