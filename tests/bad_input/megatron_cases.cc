// Megatron cases: indexes that contradict themselves or their .bin file.
#include <filesystem>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"
#include "tests/data/data_files.h"

namespace hawser::bad_input {
namespace megatron_cases {

using data::MegatronIndex;

/// Returns three sequences of 20 u16 tokens in three documents.
MegatronIndex sound() { return MegatronIndex::of({20, 20, 20}, {0, 1, 2}, 8, 2); }

int32_t open(Site& site, const std::string& index, size_t bin_bytes = 120) {
  site.write("a.idx", index);
  site.write("a.bin", std::string(bin_bytes, '\0'));
  return create(sound_config(
      {{"data", {{"format", "megatron"}, {"path", site.path("a")}, {"validation_fraction", 0}}}}));
}

Case index(const std::string& what, std::vector<std::string> words,
           const std::function<void(MegatronIndex&)>& change, size_t bin_bytes = 120) {
  return {what, HWS_DATA_INVALID, std::move(words), [=](Site& site) {
            MegatronIndex made = sound();
            change(made);
            return open(site, made.bytes(), bin_bytes);
          }};
}

Case bytes(const std::string& what, std::vector<std::string> words,
           const std::function<void(std::string&)>& change) {
  return {what, HWS_DATA_INVALID, std::move(words), [=](Site& site) {
            std::string made = sound().bytes();
            change(made);
            return open(site, made);
          }};
}

}  // namespace megatron_cases

Area megatron_area() {
  using namespace megatron_cases;
  return {
      "Megatron indexes",
      "`.idx` files (three sequences of 20 u16 tokens, before the damage) when an engine is created. An "
      "index is checked against the sizes of both files before anything in it is used.",
      {
          {"no `.idx`",
           HWS_NOT_FOUND,
           {".../a.idx", "cannot open"},
           [](Site& site) {
             site.write("a.bin", "1234");
             return create(sound_config({{"data", {{"format", "megatron"}, {"path", site.path("a.bin")}}}}));
           }},
          bytes("33 bytes", {".../a.idx", "33 bytes is less than the 34"},
                [](std::string& b) { b.resize(33); }),
          bytes("tables cut off",
                {"3 sequences and 4 document entries", "more than the file's 60 bytes", "cut off"},
                [](std::string& b) { b.resize(60); }),
          bytes("9 bytes more", {"9 bytes follow the tables", "header is damaged"},
                [](std::string& b) { b += "123456789"; }),
          bytes("sequence modes", {"sequence modes", "not supported", "text only"},
                [](std::string& b) { b += "123"; }),
          index("another magic", {"does not start with \"MMIDIDX\"", "data.format tokens"},
                [](MegatronIndex& i) { i.magic[0] = 'X'; }),
          index("version 2", {"index version 2 at offset 9", "only version 1"},
                [](MegatronIndex& i) { i.version = 2; }),
          index("float32", {"dtype code 7 is float32", "integers"}, [](MegatronIndex& i) { i.dtype = 7; }),
          index("dtype 9", {"unknown dtype code 9 at offset 17", "known are"},
                [](MegatronIndex& i) { i.dtype = 9; }),
          index("2^62 sequences", {"4611686018427387904 sequences", "more than the file's"},
                [](MegatronIndex& i) { i.claimed_sequences = int64_t{1} << 62; }),
          index("sequences whose tables would wrap around",
                {"1537228672809129302 sequences", "more than the file's"},
                [](MegatronIndex& i) { i.claimed_sequences = 1537228672809129302; }),
          index("2^61 documents", {"2305843009213693952 document entries"},
                [](MegatronIndex& i) { i.claimed_documents = int64_t{1} << 61; }),
          index("a sequence of -1 tokens", {"sequence 1 has length -1 at offset 38", "damaged"},
                [](MegatronIndex& i) { i.lengths[1] = -1; }),
          index("a sequence of 2^31-1 tokens",
                {"sequence 2 of 2147483647 tokens", "reaches beyond the 120 bytes", "a.bin"},
                [](MegatronIndex& i) { i.lengths[2] = 2147483647; }),
          index("a pointer of -2", {"sequence 0 starts at byte -2", "ends at 0"},
                [](MegatronIndex& i) { i.pointers[0] = -2; }),
          index("sequences that overlap", {"sequence 1 starts at byte 20", "ends at 40", "another dtype"},
                [](MegatronIndex& i) { i.pointers[1] = 20; }),
          index("u16 said of u8", {"sequence 1 starts at byte 40", "ends at 20", "another dtype"},
                [](MegatronIndex& i) { i.dtype = 1; }),
          index(
              "a `.bin` that is cut off", {"sequence 2 of 20 tokens at byte 80", "beyond the 100 bytes"},
              [](MegatronIndex&) {}, 100),
          index(
              "a `.bin` that is too long",
              {".../a.bin: 200 bytes", ".../a.idx describes 120", "do not belong"}, [](MegatronIndex&) {},
              200),
          index("documents that decrease", {"document entry 2 at offset 86 is sequence 0", "never decrease"},
                [](MegatronIndex& i) { i.documents[2] = 0; }),
          index("a document of sequence 99", {"document entry 1", "is sequence 99", "the 3 sequences"},
                [](MegatronIndex& i) { i.documents[1] = 99; }),
          index("documents that end early",
                {"the last document entry is sequence 2", "number of sequences 3"},
                [](MegatronIndex& i) { i.documents.back() = 2; }),
          index("no documents", {"last document entry is sequence 0"},
                [](MegatronIndex& i) { i.documents.clear(); }),
      }};
}

}  // namespace hawser::bad_input
