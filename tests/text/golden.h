// The cases that Hugging Face's tokenizers gave (tests/golden/tokenizers), and the module as it was built.
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

/// The small tokenizer of a family.
inline Tokenizer open_golden(const std::string& family) {
  const std::string path = std::string(HAWSER_GOLDEN) + "/tokenizers/" + family + "/tokenizer.json";
  return Tokenizer(read_file(path), path, kModuleFolder);
}

}  // namespace hawser::text::testing
