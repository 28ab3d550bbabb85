// Fuzzer of chat templates: the input is a template, the line "--- rest ---" and rows of JSON Lines. Each row
// is processed as in `hawser prepare`: parse_row, training_row, RowEncoder. A panic of the text module counts
// as a crash here.
#include "engine/text/chat_template.h"

#include <algorithm>

#include "engine/text/answer_tail.h"
#include "engine/text/parse_row.h"
#include "engine/text/row_encoder.h"
#include "tests/fuzz/checks.h"
#include "tests/fuzz/text_input.h"

using namespace hawser;

namespace {

constexpr std::string_view kWhere = "rows.jsonl:1";

/// Returns a tokenizer with one token for each byte; chats need no other tokenizer.
const text::Tokenizer& byte_tokenizer() {
  static const text::Tokenizer tokenizer = [] {
    OrderedJson vocabulary = OrderedJson::object();
    for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = byte;
    const OrderedJson json = {{"version", "1.0"},
                              {"added_tokens", OrderedJson::array({{{"id", 256},
                                                                    {"content", "<|im_end|>"},
                                                                    {"single_word", false},
                                                                    {"lstrip", false},
                                                                    {"rstrip", false},
                                                                    {"normalized", false},
                                                                    {"special", true}}})},
                              {"model",
                               {{"type", "BPE"},
                                {"byte_fallback", true},
                                {"vocab", vocabulary},
                                {"merges", OrderedJson::array()}}}};
    return text::Tokenizer(json.dump(), "tokenizer.json", HAWSER_MODULE_FOLDER);
  }();
  return tokenizer;
}

/// Works like taken, but ends the fuzzer on a panic of the module, which the module turns into an error.
template <typename Fn>
void taken_without_panic(Fn&& fn) {
  fuzz::taken([&] {
    try {
      fn();
    } catch (const Error& error) {
      const std::string message = error.message();
      std::string_view words = message;
      if (words.starts_with(kWhere)) words.remove_prefix(kWhere.size() + 2);
      if (!words.starts_with("the template: it cannot be parsed") &&
          !words.starts_with("tokenizer.json: it cannot be parsed"))
        throw;
      std::fprintf(stderr, "panic: %s\n", message.c_str());
      std::abort();
    }
  });
}

constexpr std::string_view kRow =
    R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
 {"role": "assistant", "content": "Hello.", "reasoning_content": "r"}], "tools": [{"name": "f"}]})";

void encode_row(const text::RowEncoder& encoder, std::string_view line) {
  text::RawRow raw;
  raw.text = line;
  raw.where = kWhere;
  const text::EncodedRow row = encoder.encode(text::training_row(text::parse_row(raw), kWhere), kWhere);
  FUZZ_REQUIRE(row.ids.size() == row.weights.size());
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  byte_tokenizer();  // libFuzzer reads the counters of modules that are open before its first input
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::InputParts parts = fuzz::split_input(fuzz::text_of(data, size));
  std::string_view rows = parts.rest.empty() ? kRow : parts.rest;
  const fuzz::Interruption interruption;
  taken_without_panic([&] {
    const text::ChatTemplate chat_template(parts.first, "the template", HAWSER_MODULE_FOLDER);
    text::RowEncoding encoding{
        byte_tokenizer(), &chat_template, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, {}};
    encoding.now = 1780000000;
    encoding.answer_tail = text::answer_tail(chat_template, encoding.special_names, encoding.now);
    for (size_t count = 0; !rows.empty() && count < 8; ++count) {
      const std::string_view line = rows.substr(0, rows.find('\n'));
      rows.remove_prefix(std::min(rows.size(), line.size() + 1));
      encoding.drop_unprinted = count % 2 != 0;
      taken_without_panic([&] { encode_row(text::RowEncoder(encoding), line); });
    }
  });
  return 0;
}
