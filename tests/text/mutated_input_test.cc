// Mutated input test: the module's parsers accept randomly changed files or refuse them with a clear error;
// nothing else may happen. HAWSER_MUTATIONS sets how many of each kind are tried (300).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/base/error.h"
#include "engine/text/chat_template.h"
#include "engine/text/parquet_rows.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace mutated_input_test {

using testing::kModuleFolder;
using testing::read_file;

int mutations() {
  const char* const set = std::getenv("HAWSER_MUTATIONS");
  return set != nullptr ? std::atoi(set) : 300;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  /// Overwrites, drops, doubles or moves one to four ranges of bytes.
  std::string bytes(std::string text) {
    for (size_t times = 1 + below(4); times > 0 && !text.empty(); --times) {
      const size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(16));
      const std::string run = text.substr(below(text.size()), 1 + below(16));
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(random_());
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, run);
          break;
        default:
          text.replace(at, length, run);
      }
    }
    return text;
  }

  /// Replaces one to three values of a document, often by values of another type.
  std::string values(const OrderedJson& document) {
    OrderedJson changed = document;
    for (size_t times = 1 + below(3); times > 0; --times) {
      OrderedJson* at = &changed;
      while (at->is_structured() && !at->empty() && below(5) != 0) at = &*std::next(at->begin(), member(*at));
      *at = value();
    }
    return changed.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }

  /// Returns text of all planes, without broken UTF-8.
  std::string text() {
    std::string text;
    for (size_t n = below(40); n > 0; --n) {
      static const char* const kPieces[] = {" ",       "a",     "Wörter", "1234", "\n",
                                            "<s>",     "'s",    "日本",   "\t\t", "\xF0\x9F\x8E\x89",
                                            "e\u0301", "\u200d"};
      text += kPieces[below(std::size(kPieces))];
    }
    return text;
  }

 private:
  /// Selects a member at random; long lists (vocabulary, merges) are thus entered at a few places only.
  std::ptrdiff_t member(const OrderedJson& json) { return static_cast<std::ptrdiff_t>(below(json.size())); }

  OrderedJson value() {
    static const char* const kValues[] = {"null",
                                          "true",
                                          "-1",
                                          "0",
                                          "4294967295",
                                          "1e300",
                                          "\"\"",
                                          "\"Ġ\"",
                                          "[]",
                                          "{}",
                                          "[[]]",
                                          "\"(\"",
                                          "\"[^\"",
                                          "\"▁\"",
                                          "{\"type\": \"\"}",
                                          "{\"Regex\": \"(?<=\"}"};
    return OrderedJson::parse(kValues[below(std::size(kValues))]);
  }

  std::mt19937_64 random_;
};

/// Runs fn; returns true if the input was accepted.
template <typename Fn>
bool taken(const std::string& input, Fn&& fn) {
  try {
    fn();
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::kDataInvalid || error.code() == Code::kOutOfRange)
        << code_name(error.code()) << ": " << error.what() << "\nof " << input.substr(0, 2000);
    EXPECT_FALSE(error.message().empty());
    return false;
  }
}

TEST(MutatedInput, OfTokenizers) {
  int accepted = 0;
  for (const char* family : {"gemma", "gpt2", "llama2", "llama3", "mistral", "mixed", "qwen2"}) {
    const std::string json =
        read_file(std::string(HAWSER_GOLDEN) + "/tokenizers/" + family + "/tokenizer.json");
    OrderedJson whole = OrderedJson::parse(json), settings = whole;
    settings["model"]["vocab"] = settings["model"]["merges"] = nullptr;  // the rest of the file
    for (int n = 0; n < mutations() / 7; ++n) {
      Mutator mutate(static_cast<uint64_t>(n));
      std::string input;
      if (n % 3 == 0) {
        input = mutate.bytes(json);
      } else if (n % 3 == 1) {
        input = mutate.values(whole);
      } else {
        OrderedJson document = OrderedJson::parse(mutate.values(settings));
        if (document.is_object() && document.contains("model") && document["model"].is_object())
          document["model"]["vocab"] = whole["model"]["vocab"],
          document["model"]["merges"] = whole["model"]["merges"];
        input = document.dump();
      }
      accepted += taken(input, [&] {
        const Tokenizer tokenizer(input, "tokenizer.json", kModuleFolder);
        for (int i = 0; i < 4; ++i) {
          const std::string text = mutate.text();
          taken(input, [&] {
            const std::vector<uint32_t> ids = tokenizer.encode(text, true);
            tokenizer.decode(ids, true);
            TextDecoder decoder(tokenizer, false);
            for (const uint32_t id : ids) decoder.next(id);
          });
        }
      });
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(MutatedInput, OfTemplates) {
  const std::string source =
      "{%- if messages[0]['role'] == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content | trim }}{% "
      "endif %}"
      "{%- for message in messages -%}{% set c = message['content'] %}{{ loop.index0 }}"
      "{% if message.tool_calls %}{% for call in message.tool_calls %}{{ call.function.arguments | "
      "tojson(indent=2) }}"
      "{% endfor %}{% elif c is string %}{% generation %}{{ c.split('</think>')[-1].lstrip('\\n') }}{% "
      "endgeneration %}"
      "{% else %}{{ raise_exception('no ' ~ message.role) }}{% endif %}{% endfor %}"
      "{% macro m(x, y=[1, 2]) %}{{ x[::-1] }}{{ y | length }}{% endmacro %}{{ m('abc') }}{{ "
      "strftime_now('%d %b') }}"
      "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}";
  const OrderedJson variables = OrderedJson::parse(R"({"messages": [{"role": "system", "content": "S"},
      {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls":
      [{"type": "function", "function": {"name": "f", "arguments": {"a": [1, null, "x"]}}}]},
      {"role": "assistant", "content": "<think>x</think>y"}], "tools": null, "add_generation_prompt": true})");
  ASSERT_NO_THROW(ChatTemplate(source, "t", kModuleFolder).render(variables.dump(), 0));
  int accepted = 0;
  for (int n = 0; n < mutations(); ++n) {
    Mutator mutate(static_cast<uint64_t>(n));
    const std::string input = n % 4 == 0 ? source : mutate.bytes(source);
    const std::string given = n % 4 == 0 || n % 4 == 1 ? mutate.values(variables) : variables.dump();
    accepted +=
        taken(input + given, [&] { ChatTemplate(input, "t", kModuleFolder).render(given, 1780000000); });
  }
  EXPECT_GT(accepted, 0);
}

TEST(MutatedInput, OfParquetFiles) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("hawser-mutated-" + std::to_string(getpid()) + ".parquet");
  int accepted = 0;
  for (const char* compression : {"none", "snappy", "zstd", "gzip", "lz4", "brotli"}) {
    const std::string whole = read_file(std::string(HAWSER_PARQUET) + "/" + compression + ".parquet");
    for (int n = 0; n < mutations() / 6; ++n) {
      const std::string input = Mutator(static_cast<uint64_t>(n)).bytes(whole);
      std::ofstream(path, std::ios::binary) << input;
      accepted += taken(compression, [&] {
        ParquetRows rows(path.string(), kModuleFolder);
        for (int row = 0; row < 10 && rows.next(); ++row) {
        }
      });
    }
  }
  std::filesystem::remove(path);
  EXPECT_GT(accepted, 0);
}

}  // namespace mutated_input_test
}  // namespace hawser::text
