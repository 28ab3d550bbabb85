// Safetensors test: the reader accepts exactly what the format allows; every invalid header is refused with
// its fault.
#include "engine/checkpoint/safetensors.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "engine/checkpoint/safetensors_writer.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint {
namespace safetensors_test {

std::string file_text(const std::string& header, size_t data_bytes, uint64_t said = ~0ull) {
  const uint64_t length = said == ~0ull ? header.size() : said;
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data_bytes, 'x');
}

TEST(Safetensors, WritesAndReadsBack) {
  const Scratch scratch;
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> b = {7, 8, 9};
  {
    SafetensorsWriter writer(Folder::open(scratch.path()), "x.safetensors",
                             {{"a", "F32", {2, 3}, 0, 0},
                              {"empty", "I64", {0, 4}, 0, 0},
                              {"b \"quoted\" \xc3\xa4", "U8", {3}, 0, 0},
                              {"scalar", "F32", {}, 0, 0}},
                             {{"format", "pt"}});
    writer.append(a.data(), 24);
    writer.append(b.data(), 3);
    writer.append(a.data(), 4);
    writer.finish();
    EXPECT_EQ(writer.bytes(), static_cast<int64_t>(std::filesystem::file_size(scratch / "x.safetensors")));
    const std::string text = read_text(scratch / "x.safetensors");
    EXPECT_EQ(writer.digest(), Digest::of(text.data(), static_cast<int64_t>(text.size())));
  }
  const SafetensorsFile file = SafetensorsFile::open(Folder::open(scratch.path()), "x.safetensors");
  EXPECT_EQ(file.data_begin() % 8, 0);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 4u);
  const TensorInfo* tensor = file.find("a");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> back(6);
  file.read(*tensor, 0, back.data(), 24);
  EXPECT_EQ(back, a);
  uint8_t last;
  file.read(*file.find("b \"quoted\" \xc3\xa4"), 2, &last, 1);
  EXPECT_EQ(last, 9);
  EXPECT_EQ(file.find("empty")->bytes(), 0);
  EXPECT_EQ(file.find("c"), nullptr);
}

struct BadHeader {
  const char* header;
  size_t data_bytes;
  const char* says;  // part of the message
};

TEST(Safetensors, RefusesHeadersThatLie) {
  const std::string long_name =
      R"({")" + std::string(513, 'n') + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::string nested(1'000'000, '[');
  const BadHeader cases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "takes 8 bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "cut short"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3, "belong to no tensor"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3, "hole"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2, "overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", 2, "takes 2 bytes"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "overflows"},
      {R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0, "overflows"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "negative"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1,
       "negative or too large"},
      {R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1, "fraction"},
      {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
       "more than 8 dimensions"},
      {R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype 'Q4'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "not two numbers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", 1, "not two numbers"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "lacks one of"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1, "unknown field 'x'"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "twice"},
      {R"({"a":[1,2]})", 0, "an array in the wrong place"},
      {R"({"a":null})", 0, "null in the wrong place"},
      {R"({"a":{"dtype":{"x":{}},"shape":[1],"data_offsets":[0,1]}})", 1, "an object in the wrong place"},
      {R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "name is empty"},
      {R"({"a\u0007":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "control characters"},
      {"{\"a\xff\":1}", 0, "not valid JSON at byte"},
      {R"({"__metadata__":{"a":1}})", 0, "a number in the wrong place"},
      {R"({"__metadata__":{"a":"x","a":"y"}})", 0, "twice"},
      {R"({"a":)", 0, "not valid JSON"},
      {R"({} x)", 0, "not valid JSON"},
      {R"(["a"])", 0, "does not start with"},
      {"  ", 0, "does not start with"},
      {long_name.c_str(), 1, "longer than 512"},
      {nested.c_str(), 0, "does not start with"},
  };
  const Scratch scratch;
  for (const BadHeader& bad : cases) {
    write_text(scratch / "x.safetensors", file_text(bad.header, bad.data_bytes));
    const Error error =
        error_of([&] { SafetensorsFile::open(Folder::open(scratch.path()), "x.safetensors"); });
    EXPECT_EQ(error.code(), Code::kCheckpointCorrupt) << bad.header;
    EXPECT_NE(error.message().find(bad.says), std::string::npos) << error.message() << "\n"
                                                                 << std::string(bad.header).substr(0, 200);
    EXPECT_NE(error.message().find("x.safetensors"), std::string::npos) << error.message();
  }
}

TEST(Safetensors, ChecksTheHeaderLengthBeforeItAllocates) {
  const Scratch scratch;
  for (const uint64_t said : {0ull, 1ull, 100ull, 100'000'001ull, 1ull << 40, 1ull << 63, ~0ull - 1}) {
    write_text(scratch / "x.safetensors", file_text("{}", 8, said));
    const Error error =
        error_of([&] { SafetensorsFile::open(Folder::open(scratch.path()), "x.safetensors"); });
    EXPECT_EQ(error.code(), Code::kCheckpointCorrupt) << said;
  }
  write_text(scratch / "x.safetensors", "short");
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(Folder::open(scratch.path()), "x.safetensors"); }).code(),
            Code::kCheckpointCorrupt);
}

TEST(Safetensors, OpensRegularFilesOnly) {
  const Scratch scratch;
  write_text(scratch / "real", file_text("{}", 0));
  std::filesystem::create_symlink("real", scratch / "link");
  std::filesystem::create_directory(scratch / "folder");
  ASSERT_EQ(mkfifo((scratch / "fifo").c_str(), 0600), 0);
  const Folder folder = Folder::open(scratch.path());
  for (const char* name : {"link", "folder", "fifo"})
    EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder, name); }).code(), Code::kCheckpointCorrupt)
        << name;
  for (const char* name : {"../real", "", ".", "..", "a/b"})
    EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder, name); }).code(), Code::kCheckpointCorrupt)
        << name;
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder, "none"); }).code(), Code::kNotFound);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(Folder::open("/dev"), "null"); }).code(),
            Code::kCheckpointCorrupt);
}

TEST(Safetensors, AFileCutShortWhileOpenIsAnErrorNotAFault) {
  const Scratch scratch;
  write_text(scratch / "x",
             file_text(R"({"a":{"dtype":"U8","shape":[9000],"data_offsets":[0,9000]}})", 9000));
  const SafetensorsFile file = SafetensorsFile::open(Folder::open(scratch.path()), "x");
  std::filesystem::resize_file(scratch / "x", 4000);
  std::vector<char> data(9000);
  EXPECT_EQ(error_of([&] { file.read(*file.find("a"), 0, data.data(), 9000); }).code(),
            Code::kCheckpointCorrupt);
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  using Infos = std::vector<TensorInfo>;
  for (Infos infos : {Infos{{"", "F32", {1}, 0, 0}}, Infos{{"__metadata__", "F32", {1}, 0, 0}},
                      Infos{{"a", "F32", {1}, 0, 0}, {"a", "F32", {1}, 0, 0}},
                      Infos{{"a", "F32", {-1}, 0, 0}}, Infos{{"a", "F31", {1}, 0, 0}},
                      Infos{{"a", "F32", {1ll << 40, 1ll << 40}, 0, 0}}, Infos{{"a\xff", "F32", {1}, 0, 0}}})
    EXPECT_EQ(error_of([&] { safetensors_header(&infos, {}); }).code(), Code::kInvalidArgument);
}

}  // namespace safetensors_test
}  // namespace hawser::checkpoint
