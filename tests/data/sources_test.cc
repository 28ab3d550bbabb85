// Source test: files as token streams: raw tokens, text and Megatron, and refused files.
#include "engine/base/utf8.h"
#include "engine/data/element_array.h"
#include "engine/data/token_source.h"
#include "tests/data/data_files.h"

namespace hawser::data {
namespace sources_test {

class SourcesTest : public DataTest {
 protected:
  static std::vector<int32_t> all(const TokenSource& source) {
    std::vector<int32_t> tokens(static_cast<size_t>(source.size()));
    source.copy(0, source.size(), tokens.data());
    return tokens;
  }
};

TEST_F(SourcesTest, RawTokensOfBothWidths) {
  const auto u16 = open_raw_tokens(write_tokens<uint16_t>("a", {1, 65535, 3}), TokenType::kU16, -1);
  EXPECT_EQ(all(*u16), (std::vector<int32_t>{1, 65535, 3}));
  const auto u32 = open_raw_tokens(write_tokens<uint32_t>("b", {1, 70000, 0x80000000u}), TokenType::kU32, -1);
  EXPECT_EQ(all(*u32), (std::vector<int32_t>{1, 70000, -1}));
  EXPECT_EQ(u32->locate(2).value, 2147483648);
  EXPECT_EQ(u32->locate(2).offset, 8);
}

TEST_F(SourcesTest, RawSizeMustFitTheElement) {
  expect_error(Code::kDataInvalid, {"a: 7 bytes", "u32", "token_type"},
               [&] { open_raw_tokens(write("a", "1234567"), TokenType::kU32, -1); });
  expect_error(Code::kDataInvalid, {"u16"}, [&] { open_raw_tokens(path("a"), TokenType::kU16, -1); });
}

TEST_F(SourcesTest, RefusesForeignHeaders) {
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 4;
  header.push_back(0x00020001);
  header.push_back(0x00040003);
  expect_error(Code::kDataInvalid, {"llm.c", "20240520", "4 tokens", "+1025", "u16"},
               [&] { open_raw_tokens(write_tokens("a", header), TokenType::kU16, -1); });
  header[0] = 20240801;
  header[1] = 7;
  expect_error(Code::kDataInvalid, {"llm.c", "u32"},
               [&] { open_raw_tokens(write_tokens("a", header), TokenType::kU32, -1); });
  header[0] = 20240802;  // an ordinary token
  EXPECT_NO_THROW(open_raw_tokens(write_tokens("a", header), TokenType::kU32, -1));
  expect_error(Code::kDataInvalid, {"Megatron index", "megatron"}, [&] {
    open_raw_tokens(write("b", MegatronIndex::of({1}, {0}, 8, 2).bytes()), TokenType::kU16, -1);
  });
  expect_error(Code::kDataInvalid, {"NumPy"},
               [&] { open_raw_tokens(write("c", "\x93NUMPY\x01\x00 "), TokenType::kU16, -1); });
}

TEST_F(SourcesTest, FilesThatChangeUnderTheirReaderAreErrors) {
  std::vector<int32_t> tokens(600);
  const auto raw = open_raw_tokens(write_tokens("r", counting<uint16_t>(600)), TokenType::kU16, 599);
  const auto text = open_text(write("t", std::string(1200, 'x')), Vocabulary::bytes());
  const auto characters = open_text(path("t"), Vocabulary::characters_of({path("t")}));
  write_tokens("m.bin", counting<uint16_t>(600));
  write("m.idx", MegatronIndex::of({200, 200, 200}, {0, 1, 2}, 8, 2).bytes());
  const auto megatron = open_megatron(path("m"));
  for (const char* name : {"r", "t", "m.bin"}) std::filesystem::resize_file(path(name), 100);
  for (const auto* source : {&raw, &text, &characters, &megatron})
    expect_error(Code::kDataInvalid, {"has 100 bytes, but had 1200"},
                 [&] { (*source)->copy(0, 600, tokens.data()); });
  expect_error(Code::kDataInvalid, {"r: has 100 bytes"}, [&] { raw->document_end(0, 600); });

  EXPECT_EQ(megatron->document_end(200, 600), 400);
  write("m.idx", MegatronIndex::of({200, 200, 200}, {0, 99, 99}, 8, 2).bytes());
  expect_error(Code::kDataInvalid, {"m.idx", "has changed"}, [&] { megatron->document_end(200, 600); });
}

TEST_F(SourcesTest, SeparatorsEndDocuments) {
  const auto source = open_raw_tokens(write_tokens<uint16_t>("a", {1, 0, 2, 3, 0, 0, 4}), TokenType::kU16, 0);
  EXPECT_EQ(source->document_end(0, 7), 2);
  EXPECT_EQ(source->document_end(1, 7), 2);
  EXPECT_EQ(source->document_end(2, 7), 5);
  EXPECT_EQ(source->document_end(2, 4), 4);
  EXPECT_EQ(source->document_end(5, 7), 6);
  EXPECT_EQ(source->document_end(6, 7), 7);
}

TEST_F(SourcesTest, TextByBytesTakesAnything) {
  const auto source = open_text(write("a", "a\xff\n"), Vocabulary::bytes());
  EXPECT_EQ(all(*source), (std::vector<int32_t>{97, 255, 10}));
}

/// Returns characters of one to four bytes in a pattern that is not aligned with the index's stride.
std::string mixed_text(int64_t characters) {
  std::string text;
  for (int64_t i = 0; i < characters; ++i) {
    static constexpr uint32_t kPoints[] = {'a', 0xE9, 0x20AC, 0x1F600, 'b', '\n', 0x7FF};
    append_code_point(kPoints[(i * i / 3 + i) % 7], &text);
  }
  return text;
}

TEST_F(SourcesTest, CharactersAreFoundByNumber) {
  const std::string text = mixed_text(5000);
  const Vocabulary vocabulary = Vocabulary::characters_of({write("a", text)});
  const auto source = open_text(path("a"), vocabulary);
  const std::vector<int32_t> expected = vocabulary.encode(text);
  ASSERT_EQ(source->size(), 5000);
  EXPECT_EQ(all(*source), expected);
  for (const int64_t first : {0, 1, 1023, 1024, 1025, 2047, 2048, 4999}) {
    const int64_t count = std::min<int64_t>(70, 5000 - first);
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    source->copy(first, count, tokens.data());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin() + first)) << first;
  }
}

TEST_F(SourcesTest, AsciiNeedsNoIndex) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text.push_back(static_cast<char>('a' + i % 26));
  const Vocabulary vocabulary = Vocabulary::characters_of({write("a", text)});
  const auto source = open_text(path("a"), vocabulary);
  EXPECT_EQ(all(*source), vocabulary.encode(text));
  EXPECT_EQ(source->locate(2500).offset, 2500);
}

TEST_F(SourcesTest, BadTextIsFoundAtOpen) {
  const Vocabulary vocabulary = Vocabulary::characters_of({write("a", "abc")});
  expect_error(Code::kDataInvalid, {path("b"), "U+0064 'd'", "offset 3", "3 characters"},
               [&] { open_text(write("b", "abcd"), vocabulary); });
  expect_error(Code::kDataInvalid, {path("b"), "0xfe", "offset 1", "UTF-8"},
               [&] { open_text(write("b", "a\xfe"), vocabulary); });
  expect_error(Code::kFailedPrecondition, {"data.vocabulary"}, [&] { open_text(path("a"), Vocabulary()); });
}

class MegatronTest : public SourcesTest {
 protected:
  template <typename T>
  void check_type(uint8_t code) {
    const std::vector<T> tokens = {0, 1, 5, 100, 7, 127};
    write_tokens("m.bin", tokens);
    write("m.idx", MegatronIndex::of({2, 0, 3, 1}, {0, 1, 3}, code, sizeof(T)).bytes());
    const auto source = open_megatron(path("m"));
    EXPECT_EQ(all(*source), (std::vector<int32_t>{0, 1, 5, 100, 7, 127}));
    EXPECT_EQ(source->document_end(0, 6), 2);
    EXPECT_EQ(source->document_end(2, 6), 5);  // the empty sequence and the next one are one document
    EXPECT_EQ(source->document_end(5, 6), 6);
    EXPECT_EQ(source->document_end(2, 4), 4);
    EXPECT_EQ(source->locate(5).offset, static_cast<int64_t>(5 * sizeof(T)));
  }
  /// Opens m.idx with a valid m.bin of 6 u16 tokens.
  void expect_bad(const std::string& idx, const std::vector<std::string>& texts) {
    write_tokens<uint16_t>("m.bin", {1, 2, 3, 4, 5, 6});
    write("m.idx", idx);
    expect_error(Code::kDataInvalid, texts, [&] { open_megatron(path("m")); });
  }
  static MegatronIndex good() { return MegatronIndex::of({2, 3, 1}, {0, 2}, 8, 2); }
};

TEST_F(MegatronTest, AllIntegerTypes) {
  check_type<uint8_t>(1);
  check_type<int8_t>(2);
  check_type<int16_t>(3);
  check_type<int32_t>(4);
  check_type<int64_t>(5);
  check_type<uint16_t>(8);
}

TEST_F(MegatronTest, TakesEitherEndingOfThePair) {
  write_tokens<uint16_t>("m.bin", {1, 2, 3, 4, 5, 6});
  write("m.idx", good().bytes());
  for (const char* name : {"m", "m.bin", "m.idx"}) EXPECT_EQ(open_megatron(path(name))->size(), 6);
}

TEST_F(MegatronTest, NegativeAndHugeValuesAreNoIds) {
  write_tokens<int64_t>("m.bin", {1, -2, int64_t{1} << 40, 4, 5, 6});
  MegatronIndex index = MegatronIndex::of({6}, {0}, 5, 8);
  write("m.idx", index.bytes());
  const auto source = open_megatron(path("m"));
  EXPECT_EQ(all(*source), (std::vector<int32_t>{1, -1, -1, 4, 5, 6}));
  EXPECT_EQ(source->locate(2).value, int64_t{1} << 40);
}

TEST_F(MegatronTest, HeadersThatLie) {
  MegatronIndex index = good();
  index.magic = "MMIDIDX\1\1";
  expect_bad(index.bytes(), {"MMIDIDX"});
  index = good();
  index.version = 2;
  expect_bad(index.bytes(), {"version 2"});
  for (const int code : {0, 9, 255}) {
    index = good();
    index.dtype = static_cast<uint8_t>(code);
    expect_bad(index.bytes(), {"dtype code " + std::to_string(code)});
  }
  index.dtype = 6;
  expect_bad(index.bytes(), {"float64"});
  index.dtype = 7;
  expect_bad(index.bytes(), {"float32"});
  index = good();
  index.dtype = 4;  // i32 pointers over a u16 file
  expect_bad(index.bytes(), {"sequence"});
}

TEST_F(MegatronTest, CountsThatLie) {
  for (const int64_t count :
       {int64_t{4}, int64_t{1} << 40, int64_t{0x7FFFFFFFFFFFFFFF}, int64_t{0x1555555555555556}}) {
    MegatronIndex index = good();
    index.claimed_sequences = count;
    expect_bad(index.bytes(), {"m.idx"});
    index = good();
    index.claimed_documents = count;
    expect_bad(index.bytes(), {"document entries"});
  }
  std::string all_ones = good().bytes();
  std::memset(all_ones.data() + 18, 0xFF, 16);
  expect_bad(all_ones, {"18446744073709551615"});
  for (const int64_t count : {0, 1, 2}) {
    MegatronIndex index = good();
    index.claimed_sequences = count;
    expect_bad(index.bytes(), {"follow the tables"});
    index = good();
    index.claimed_documents = count;
    expect_bad(index.bytes(), {"m.idx"});
  }
}

TEST_F(MegatronTest, TablesThatLie) {
  MegatronIndex index = good();
  index.lengths[1] = -1;
  expect_bad(index.bytes(), {"sequence 1", "length -1"});
  index = good();
  index.lengths[2] = 2147483647;
  expect_bad(index.bytes(), {"sequence 2", "reaches beyond"});
  index = good();
  index.lengths[2] = 0;
  expect_bad(index.bytes(), {"m.bin", "12 bytes", "describes 10"});
  for (const int64_t pointer : {int64_t{3}, int64_t{-4}, int64_t{0}, INT64_MAX, INT64_MIN}) {
    index = good();
    index.pointers[1] = pointer;
    expect_bad(index.bytes(), {"sequence 1", std::to_string(pointer)});
  }
  for (const int64_t first : {int64_t{1}, int64_t{-1}, int64_t{4}}) {
    index = good();
    index.documents[0] = first;
    expect_bad(index.bytes(), {"document entry 0"});
  }
  index = good();
  index.documents = {0, 2, 1, 3};
  expect_bad(index.bytes(), {"document entry 2"});
  index = good();
  index.documents = {0, 2, INT64_MAX};
  expect_bad(index.bytes(), {"document entry 2"});
  index = good();
  index.documents = {0, 2};
  expect_bad(index.bytes(), {"last document entry", "3"});
  index = good();
  index.documents = {};
  expect_bad(index.bytes(), {"document"});
  expect_bad(good().bytes() + std::string(3, '\0'), {"sequence modes"});
  expect_bad(good().bytes() + "x", {"1 bytes follow"});
}

TEST_F(MegatronTest, EveryTruncationOfTheIndexIsRefused) {
  const std::string whole = good().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    expect_bad(whole.substr(0, size), {"m.idx"});
  }
}

TEST_F(MegatronTest, EveryTruncationOfTheTokensIsRefused) {
  const std::string whole(12, '\1');
  write("m.idx", good().bytes());
  for (size_t size = 0; size < whole.size(); ++size) {
    write("m.bin", whole.substr(0, size));
    expect_error(Code::kDataInvalid, {"m."}, [&] { open_megatron(path("m")); });
  }
  write("m.bin", whole + "1");
  expect_error(Code::kDataInvalid, {"m.bin", "13 bytes"}, [&] { open_megatron(path("m")); });
}

TEST_F(MegatronTest, EveryFlippedByteIsRefusedOrHarmless) {
  const std::string whole = good().bytes();
  write_tokens<uint16_t>("m.bin", {1, 2, 3, 4, 5, 6});
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xFF}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      write("m.idx", damaged);
      try {
        const auto source = open_megatron(path("m"));
        for (int64_t i = 0; i < source->size(); ++i) {
          const int64_t end = source->document_end(i, source->size());
          EXPECT_GT(end, i);
          EXPECT_LE(end, source->size());
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kDataInvalid) << error.message();
      }
    }
  }
}

TEST_F(MegatronTest, NamesTheFileThatIsMissing) {
  expect_error(Code::kNotFound, {"m.idx"}, [&] { open_megatron(path("m")); });
  write("m.idx", good().bytes());
  expect_error(Code::kNotFound, {"m.bin"}, [&] { open_megatron(path("m")); });
}

TEST_F(SourcesTest, JoinedSourcesAreOneStream) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  parts.push_back(open_text(write("a", "abc"), Vocabulary::bytes()));
  parts.push_back(open_text(write("b", ""), Vocabulary::bytes()));
  parts.push_back(open_text(write("c", "defg"), Vocabulary::bytes()));
  const auto joined = join_sources(std::move(parts));
  EXPECT_EQ(all(*joined), (std::vector<int32_t>{97, 98, 99, 100, 101, 102, 103}));
  int32_t two[2];
  joined->copy(2, 2, two);
  EXPECT_EQ(two[1], 100);
  EXPECT_EQ(joined->document_end(0, 7), 3);
  EXPECT_EQ(joined->document_end(3, 7), 7);
  EXPECT_EQ(joined->document_end(3, 5), 5);
  EXPECT_EQ(joined->locate(4).file, path("c"));
  EXPECT_EQ(joined->locate(4).index, 1);
}

}  // namespace sources_test
}  // namespace hawser::data
