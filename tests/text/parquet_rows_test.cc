// Parquet test: reads files written by pyarrow (tests/text/parquet) with each compression; damaged and
// foreign files are refused.
#include "engine/text/parquet_rows.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/error.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace parquet_rows_test {

using testing::kModuleFolder;

const std::string kFolder = HAWSER_PARQUET;

class ParquetFile : public ::testing::TestWithParam<const char*> {};

TEST_P(ParquetFile, RowsAreJson) {
  ParquetRows rows(kFolder + "/" + GetParam() + ".parquet", kModuleFolder);
  EXPECT_EQ(rows.total(), 3);
  EXPECT_EQ(Json::parse(*rows.next()), Json::parse(R"({"prompt": "one", "weight": 1.5, "n": 1, "ok": true,
      "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})"));
  EXPECT_EQ(Json::parse(*rows.next()),
            Json::parse("{\"prompt\": \"two \u00e4\u00f6\u00fc \xF0\x9F\x8E\x89\", \"messages\": [], "
                        "\"weight\": 0.25, \"n\": 2, \"ok\": false}"));
  EXPECT_EQ(Json::parse(*rows.next()), Json::parse(R"({"prompt": null, "weight": null, "n": 3, "ok": null,
      "messages": [{"role": "user", "content": "x"}]})"));
  EXPECT_EQ(rows.next(), std::nullopt);
  EXPECT_EQ(rows.next(), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(All, ParquetFile,
                         ::testing::Values("snappy", "zstd", "gzip", "lz4", "brotli", "none"),
                         [](const auto& info) { return info.param; });

/// Files of a few hundred bytes that would take gigabytes of memory (make_rows.py wrote them).
TEST(ParquetFiles, WhatExpandsFarBeyondTheFileIsRefused) {
  const auto refusal = [](const std::string& name) -> std::string {
    try {
      ParquetRows(kFolder + "/" + name, kModuleFolder).next();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDataInvalid);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("long.parquet").find("column \"text\" has 100000"), std::string::npos)
      << refusal("long.parquet");
  EXPECT_NE(refusal("many.parquet").find("has 2000000 values in 1 rows"), std::string::npos)
      << refusal("many.parquet");
}

TEST(ParquetFiles, WhatIsDamagedOrForeignIsRefusedByName) {
  const std::string whole = testing::read_file(kFolder + "/snappy.parquet");
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "hawser-parquet-test";
  for (size_t cut = 0; cut < whole.size(); cut += 37) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, cut);
    EXPECT_THROW(ParquetRows(path.string(), kModuleFolder), Error) << cut;
  }
  for (size_t at = 0; at < whole.size(); at += 5) {  // a changed byte gives rows or an error, nothing else
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    std::ofstream(path, std::ios::binary) << damaged;
    try {
      ParquetRows rows(path.string(), kModuleFolder);
      for (int i = 0; i < 10 && rows.next(); ++i) {
      }
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find(path.string()), 0u) << error.what();
    }
  }
  std::filesystem::remove(path);
  EXPECT_THROW(ParquetRows("/nowhere/x.parquet", kModuleFolder), Error);
}

}  // namespace parquet_rows_test
}  // namespace hawser::text
