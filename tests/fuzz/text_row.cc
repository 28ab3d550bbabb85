// Fuzzer of JSON Lines rows: an accepted row has a known form and messages that are objects with a role; a
// pair has two answers of one form.
#include <algorithm>

#include "engine/base/json.h"
#include "engine/text/parse_row.h"
#include "engine/text/training_row.h"
#include "tests/fuzz/checks.h"

using namespace hawser;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::taken([&] {
    text::RawRow raw;
    raw.text = fuzz::text_of(data, size);
    raw.where = "rows.jsonl:1";
    const text::TrainingRow row = text::training_row(text::parse_row(raw), "rows.jsonl:1");
    if (row.form == text::RowForm::kPair)
      FUZZ_REQUIRE(row.answers.size() == 2 && row.answers[0].form == row.answers[1].form);
    if (row.form != text::RowForm::kChat) return;
    FUZZ_REQUIRE(row.messages.is_array() && !row.messages.empty());
    FUZZ_REQUIRE(std::all_of(row.messages.begin(), row.messages.end(), [](const OrderedJson& message) {
      return message.is_object() && message.contains("role") && message["role"].is_string();
    }));
    FUZZ_REQUIRE(fuzz::is_utf8(row.messages.dump()));
  });
  return 0;
}
