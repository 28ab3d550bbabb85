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

/// Returns the small gpt2 tokenizer with ChatML's marks as special tokens.
inline Tokenizer chat_tokenizer() {
  Json file = Json::parse(read_file(std::string(HAWSER_GOLDEN) + "/tokenizers/gpt2/tokenizer.json"));
  const int64_t first = Tokenizer(file.dump(), "gpt2", kModuleFolder).vocabulary_size();
  for (const char* mark : {"<|im_start|>", "<|im_end|>"})
    file["added_tokens"].push_back({{"id", first + (mark[5] == 'e')},
                                    {"content", mark},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  return Tokenizer(file.dump(), "chat", kModuleFolder);
}

}  // namespace hawser::text::testing
