// Fuzzer of tokenizers: the input is a tokenizer.json, the line "--- rest ---" and a text. An accepted
// tokenizer encodes the text in every way and decodes its tokens. A panic inside the tokenizers crate becomes
// the error of a damaged file, so it is no finding here; the process must not end.
#include "engine/text/tokenizer.h"

#include "tests/fuzz/checks.h"
#include "tests/fuzz/text_input.h"

using namespace hawser;

namespace {

constexpr std::string_view kText = "Hello <s>Wörter</s>  日本\t1234's \xF0\x9F\x8E\x89 e\u0301\n";

void encode(const text::Tokenizer& tokenizer, std::string_view text) {
  std::vector<uint32_t> ids;
  std::vector<text::TextSpan> spans;
  tokenizer.encode_with_spans(text, true, &ids, &spans);
  FUZZ_REQUIRE(ids.size() == spans.size());
  for (const text::TextSpan& span : spans) FUZZ_REQUIRE(span.begin <= span.end && span.end <= text.size());
  ids = tokenizer.encode(text, false);
  for (const uint32_t id : ids)
    if (id < tokenizer.vocabulary_size()) fuzz::taken([&] { tokenizer.token(id); });
  FUZZ_REQUIRE(fuzz::is_utf8(tokenizer.decode(ids, true)));
  text::TextDecoder decoder(tokenizer, false);
  for (const uint32_t id : ids) FUZZ_REQUIRE(fuzz::is_utf8(decoder.next(id)));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // Opens the module, because libFuzzer reads the counters of modules that are open before its first input.
  fuzz::taken([] { text::Tokenizer("", "tokenizer.json", HAWSER_MODULE_FOLDER); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::InputParts parts = fuzz::split_input(fuzz::text_of(data, size));
  const std::string_view text = parts.rest.empty() ? kText : parts.rest;
  const fuzz::Interruption interruption;
  fuzz::taken([&] {
    const text::Tokenizer tokenizer(parts.first, "tokenizer.json", HAWSER_MODULE_FOLDER);
    fuzz::taken([&] { encode(tokenizer, text); });
    fuzz::taken([&] { tokenizer.encode_pair(text, kText, true); });
  });
  return 0;
}
