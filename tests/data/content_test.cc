// Content test: files given as text that are not text.
#include "engine/data/content.h"

#include "tests/data/data_files.h"

namespace hawser::data {
namespace content_test {

using Content = DataTest;
using namespace std::string_literals;

TEST_F(Content, TextOfAnyLanguageAndProgramsAreText) {
  for (const std::string& text :
       {""s, "a"s, "\n"s, "It was a dark and stormy night.\n"s, "\xef\xbb\xbfwith a mark\n"s,
        "Съешь же ещё этих мягких французских булок"s, "天地玄黃 宇宙洪荒"s,
        "{ int main() { return 0; } }\n"s, "{\n  \"pretty\": \"printed\",\n  \"json\": 1\n}\n"s,
        "[Enter HAMLET]\n[1] a note\n"s, "[1, 2"s, "na\xefve caf\xe9s in Latin-1 stay\n"s,
        "BZip is a word, PK too, and PAR\n"s})
    EXPECT_NO_THROW(check_is_text(write("t", text))) << text;
  std::string cut = "x";  // the end of the inspected part cuts a character
  while (cut.size() < (1u << 20) + 4) cut += "é";
  EXPECT_NO_THROW(check_is_text(write("t", cut)));
}

TEST_F(Content, FormatsAreKnownByTheirFirstBytes) {
  const std::pair<std::string, const char*> files[] = {
      {"\x1f\x8b\x08\0"s, "a gzip file"},
      {"\x28\xb5\x2f\xfd"s, "a Zstandard file"},
      {"\xfd\x37zXZ\0"s, "an xz file"},
      {"BZh9\x31\x41\x59\x26\x53\x59"s, "a bzip2 file"},
      {"PK\x03\x04"s, "a ZIP file"},
      {std::string(257, 'n') + "ustar", "a tar file"},
      {"PAR1\x15\x04"s, "a Parquet file"},
      {"ARROW1\0\0"s, "an Arrow file"},
      {"SQLite format 3\0"s, "an SQLite database"},
      {"%PDF-1.7\n"s, "a PDF file"},
      {"\xff\xfeh\0e\0"s, "UTF-16"},
      {"GGUF\x03"s, "a GGUF model"},
      {"\x93NUMPY\x01"s, "a NumPy array"},
      {"MMIDIDX\0\0"s, "a Megatron index"},
      {"\x02\0\0\0\0\0\0\0{\"\"}"s, "a safetensors file"},
      {"{\"text\": \"a\"}\n{\"text\": \"b\"}\n"s, "JSON Lines"},
      {"\n\n{\"text\": \"one record, no line break\"}"s, "JSON Lines"},
      {std::string(200, 'x') + std::string(10, '\0'), "binary"},
      {std::string(100, 'x') + std::string(60, '\xc3'), "binary"},
  };
  for (const auto& [bytes, name] : files)
    expect_error(Code::kDataInvalid, {path("f"), name, "data.as_is"},
                 [&, b = bytes] { check_is_text(write("f", b)); });
}

TEST_F(Content, JsonLinesAreKnownByWholeLines) {
  const std::string record = "{\"text\": \"" + std::string(400 << 10, 'x') + "\"}\n";
  expect_error(Code::kDataInvalid, {"JSON Lines"},
               [&] { check_is_text(write("f", record + record + record + record)); });
  EXPECT_NO_THROW(check_is_text(write("f", "{\"text\": 1}\nand then prose\n")));
}

TEST_F(Content, JsonArraysAreKnownFromTheirBeginning) {
  const auto refused = [&](const std::string& bytes) {
    expect_error(Code::kDataInvalid, {path("f.json"), "a JSON array", "data.as_is"},
                 [&] { check_is_text(write("f.json", bytes)); });
  };
  refused("[{\"text\": \"a\"}, {\"text\": \"b\"}]\n");
  refused("\n[\n  \"a\",\n  \"b\"\n]\n");
  refused("[]");
  std::string records = "[\n";
  while (records.size() < (2u << 20)) records += "{\"text\": \"caf\u00e9 \\\"quoted\\\"\", \"n\": -1.5e3},\n";
  refused(records + "{}]");
  refused("[\"" + std::string(2 << 20, 'x') + "\"]");
  EXPECT_NO_THROW(check_is_text(write("f.json", "[1, 2]\nand then prose\n")));
}

TEST_F(Content, ADatasetRefusesItUnlessItIsSaidTwice) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"text\": \"a line\"}\n";
  DataConfig config;
  config.format = DataFormat::kText;
  config.vocabulary = VocabularyKind::kBytes;
  config.sources = {{write("d.jsonl", lines), 1.0}};
  const auto open = [&] { return Dataset::open(config, Vocabulary::bytes(), 0, 16, 256); };
  expect_error(Code::kDataInvalid, {"d.jsonl", "JSON Lines"}, open);
  config.as_is = true;
  EXPECT_GT(open()->train_samples(), 0);
}

}  // namespace content_test
}  // namespace hawser::data
