#include "engine/checkpoint/gguf/pre_tokenizer.h"

#include <vector>

#include "engine/base/error.h"

namespace hawser::checkpoint::gguf {
namespace {

// Expressions of published tokenizers.
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeekDigits = R"(\p{N}{1,3})";
constexpr const char* kDeepSeekHan = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr const char* kDeepSeekWords =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

/// The steps of a pre-tokenizer: "bytes" (ByteLevel), "words" (ByteLevel that splits as GPT-2 does), "digits"
/// (each digit is a word), or an expression whose matches are words.
using Steps = std::vector<std::string>;

struct Known {
  Steps steps;
  bool ignore_merges;
  const char* name;
};

const std::vector<Known>& known() {
  static const std::vector<Known> list = {
      {{"words"}, false, "gpt-2"},
      {{"bytes"}, false, "gpt-2"},  // checked by the caller: there are no merges
      {{kLlama3, "bytes"}, true, "llama-bpe"},
      {{kLlama3, "bytes"}, false, "smaug-bpe"},
      {{kQwen2, "bytes"}, false, "qwen2"},
      {{kTekken, "bytes"}, true, "tekken"},
      {{"digits", "words"}, false, "smollm"},
      {{kDeepSeekDigits, kDeepSeekHan, kDeepSeekWords, "bytes"}, false, "deepseek-v3"},
  };
  return list;
}

[[noreturn]] void no_such_splitting(const std::string& what) {
  fail(Code::kFailedPrecondition, "llama.cpp has no name for how tokenizer.json splits text: {}", what);
}

void add_step(const Json& part, Steps* steps) {
  const std::string type = part.value("type", "");
  if (type == "Sequence") {
    for (const Json& inner : part.at("pretokenizers")) add_step(inner, steps);
  } else if (type == "ByteLevel") {
    if (part.value("add_prefix_space", true)) no_such_splitting("ByteLevel with add_prefix_space");
    steps->push_back(part.value("use_regex", true) ? "words" : "bytes");
  } else if (type == "Digits" && part.value("individual_digits", false)) {
    steps->push_back("digits");
  } else if (type == "Split" && part.value("behavior", "") == "Isolated" && !part.value("invert", false) &&
             part.at("pattern").contains("Regex")) {
    steps->push_back(part.at("pattern").at("Regex").get<std::string>());
  } else {
    no_such_splitting(part.dump());
  }
}

}  // namespace

std::string pre_tokenizer_name(const Json& pre_tokenizer, bool ignore_merges) {
  Steps steps;
  add_step(pre_tokenizer, &steps);
  for (const Known& k : known())
    if (k.steps == steps && k.ignore_merges == ignore_merges) return k.name;
  no_such_splitting(pre_tokenizer.dump());
}

}  // namespace hawser::checkpoint::gguf
