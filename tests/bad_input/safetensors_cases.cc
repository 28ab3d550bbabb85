// Safetensors cases: files with invalid headers, read by an import. Shards of a checkpoint use the same
// reader.

#include <filesystem>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace safetensors_cases {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model/model.safetensors";

int32_t import(Site& site) {
  return hws_checkpoint_import(site.path("model").c_str(), site.path("out").c_str(), nullptr);
}

/// A row that replaces the complete file.
Case file(const std::string& what, std::vector<std::string> words, const std::function<void(Site&)>& make) {
  return {what, HWS_CHECKPOINT_CORRUPT, std::move(words), [make](Site& site) {
            site.hugging_face();
            make(site);
            return import(site);
          }};
}

/// Makes a row with this header text and 16 bytes of data.
Case header(const std::string& what, std::vector<std::string> words,
            const std::function<std::string()>& make) {
  return file(what, std::move(words),
              [make](Site& site) { site.write_safetensors(kWeights, make(), std::string(16, '\0')); });
}

/// A row that shows the header's JSON.
Case text(const std::string& json, std::vector<std::string> words) {
  return header("`" + json + "`", std::move(words), [json] { return json; });
}

/// Makes a row with this header length in the first 8 bytes.
Case length(const std::string& what, uint64_t bytes, std::vector<std::string> words) {
  return file(what, std::move(words), [bytes](Site& site) {
    std::string content(64, ' ');
    for (size_t i = 0; i < 8; ++i) content[i] = static_cast<char>(bytes >> (8 * i) & 0xff);
    content[8] = '{';
    site.write(kWeights, content);
  });
}

std::vector<Case> sizes() {
  return {
      file("9 bytes", {kWeights, "9 bytes", "at least 10"},
           [](Site& site) { site.write(kWeights, "123456789"); }),
      length("a header of 1 byte", 1, {"the header has 1 bytes", "at least 2"}),
      length("a header longer than the file", 57,
             {"57 bytes", "at most 56 are possible", "damaged or not a safetensors file"}),
      length("a header of 2^63 bytes", uint64_t{1} << 63, {"9223372036854775808 bytes", "at most 56"}),
      length("a header of 2^64-1 bytes", UINT64_MAX, {"18446744073709551615 bytes", "at most 56"}),
      file("200 MB that say they are all header", {"200000000 bytes", "at most 100000000"},
           [](Site& site) {
             std::string start(8, '\0');
             for (size_t i = 0; i < 8; ++i)
               start[i] = static_cast<char>(uint64_t{200000000} >> (8 * i) & 0xff);
             site.write(kWeights, start + "{");
             fs::resize_file(site.path(kWeights), 200000008);  // a sparse file, which uses no disk
           }),
      file("100 MB of blanks as header", {kWeights, "not valid JSON at byte"},
           [](Site& site) {
             std::string bytes(8, '\0');
             for (size_t i = 0; i < 8; ++i)
               bytes[i] = static_cast<char>(uint64_t{100000000} >> (8 * i) & 0xff);
             site.write(kWeights, bytes + "{" + std::string(99999999, ' '));
           }),
      header("100,000 tensors of one name", {"appears twice in the header"},
             [] {
               std::string json = "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
               for (int i = 0; i < 100000; ++i)
                 json += ",\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
               return json + "}";
             }),
      header("1,000,000 open brackets", {"an array in the wrong place"},
             [] { return "{\"a\":" + std::string(1000000, '['); }),
      header("`{\"a\":` 100,000 times", {"has the unknown field 'a'"},
             [] {
               std::string json;
               for (int i = 0; i < 100000; ++i) json += "{\"a\":";
               return json;
             }),
      header("a tensor name of 1,000 bytes", {"longer than 512 bytes"},
             [] {
               return "{\"" + std::string(1000, 'n') +
                      "\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[0,16]}}";
             }),
      header(
          "a tensor name that is not UTF-8", {"not valid JSON at byte"},
          [] { return std::string("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[0,16]}}"); }),
  };
}

std::vector<Case> tensors() {
  return {
      text(R"([1, 2])", {"does not start with '{'", "is not a safetensors file"}),
      text(R"({"a": )", {"not valid JSON at byte"}),
      text(R"({"a": null})", {"null in the wrong place", "'a'"}),
      text(R"({"a": {"dtype": "U8", "shape": [16]}})",
           {"tensor 'a'", "lacks one of dtype, shape and data_offsets"}),
      text(R"({"a": {"dtype": "U8", "shape": [16], "data_offsets": [0, 16], "device": "x"}})",
           {"'a'", "unknown field 'device'"}),
      text(R"({"a": {"dtype": "F13", "shape": [16], "data_offsets": [0, 16]}})",
           {"'a'", "unknown dtype 'F13'"}),
      text(R"({"a": {"dtype": "U8", "shape": [-16], "data_offsets": [0, 16]}})",
           {"'a'", "negative or too large"}),
      text(R"({"a": {"dtype": "U8", "shape": [1.5], "data_offsets": [0, 16]}})",
           {"fraction or out of range"}),
      text(R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 16]}})",
           {"'a'", "whose size overflows"}),
      text(R"({"a": {"dtype": "U8", "shape": [18446744073709551615], "data_offsets": [0, 16]}})",
           {"'a'", "negative or too large"}),
      text(R"({"a": {"dtype": "U8", "shape": [1,1,1,1,1,1,1,1,16], "data_offsets": [0, 16]}})",
           {"'a'", "more than 8 dimensions"}),
      text(R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 16]}})",
           {"'a'", "data_offsets [0, 16]", "F32 [3] takes 12 bytes"}),
      text(R"({"a": {"dtype": "U8", "shape": [16], "data_offsets": [16, 0]}})",
           {"'a'", "data_offsets [16, 0]"}),
      text(R"({"a": {"dtype": "U8", "shape": [16], "data_offsets": [0, 16, 32]}})",
           {"'a'", "not two numbers"}),
      text(R"({"a": {"dtype": "U8", "shape": [32], "data_offsets": [0, 32]}})",
           {"'a'", "ends at data byte 32", "only 16", "cut short"}),
      text(R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}})",
           {"8 bytes after the last tensor"}),
      text(
          R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}, "b": {"dtype": "U8", "shape": [12], "data_offsets": [4, 16]}})",
          {"'b'", "starts at data byte 4 where 8 was expected", "overlap"}),
      text(
          R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [8], "data_offsets": [8, 16]}})",
          {"'b'", "starts at data byte 8 where 4 was expected", "hole"}),
      text(R"({"__metadata__": {"a": 1}})", {"a number in the wrong place"}),
      text(R"({"__metadata__": {"a": "1", "a": "2"}})", {"__metadata__ has the key 'a' twice"}),
      text(R"({"": {"dtype": "U8", "shape": [16], "data_offsets": [0, 16]}})", {"a tensor name is empty"}),
  };
}

}  // namespace safetensors_cases

Area safetensors_area() {
  using namespace safetensors_cases;
  Area area = {"Safetensors",
               "`model.safetensors` of a Hugging Face folder (a header with 16 bytes of data), when it is "
               "imported. Sizes are checked against the file before anything is allocated.",
               sizes()};
  const std::vector<Case> more = tensors();
  area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
