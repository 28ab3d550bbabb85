// Tests which files InputFile reads, and how it rejects all others.
#include "engine/base/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <vector>

#include "engine/base/error.h"

namespace hawser {
namespace input_file_test {

class InputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "hawser-input-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::string read(const InputFile& file, int64_t offset, int64_t bytes) {
    std::string text(static_cast<size_t>(bytes), '?');
    file.read_at(offset, text.data(), bytes);
    return text;
  }
  static void expect_error(const std::string& path, Code code, const std::string& text) {
    expect_error([&] { InputFile::open(path); }, code, text);
  }
  static void expect_error(const std::function<void()>& act, Code code, const std::string& text) {
    try {
      act();
      FAIL() << "no error that says: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.message();
      EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
    }
  }
  std::string folder_;
};

TEST_F(InputFileTest, ReadsTheBytesOfAFile) {
  const InputFile file = InputFile::open(write("a", std::string("one\0two", 7)));
  ASSERT_EQ(file.size(), 7);
  EXPECT_EQ(read(file, 2, 4), std::string("e\0tw", 4));
  EXPECT_EQ(read(file, 7, 0), "");
  EXPECT_EQ(file.path(), path("a"));
  EXPECT_EQ(InputFile::open(write("empty", "")).size(), 0);
}

TEST_F(InputFileTest, MovesTheDescriptor) {
  InputFile a = InputFile::open(write("a", "aaaa"));
  InputFile b = InputFile::open(write("b", "bb"));
  b = std::move(a);
  EXPECT_EQ(read(b, 0, 4), "aaaa");
  const InputFile c(std::move(b));
  EXPECT_EQ(read(c, 0, 4), "aaaa");
}

TEST_F(InputFileTest, OutlivesTheNameOfTheFile) {
  const InputFile file = InputFile::open(write("a", "abc"));
  ASSERT_EQ(::unlink(path("a").c_str()), 0);
  EXPECT_EQ(read(file, 2, 1), "c");
}

TEST_F(InputFileTest, AFileThatIsCutShortIsAnError) {
  const InputFile file = InputFile::open(write("a", std::string(9000, 'a')));
  FileWindow window(file);
  EXPECT_EQ(window.at(0, 1).front(), 'a');
  ASSERT_EQ(::truncate(path("a").c_str(), 5000), 0);
  expect_error([&] { read(file, 4000, 2000); }, Code::kDataInvalid, "has 5000 bytes, but had 9000");
  expect_error([&] { FileWindow(file).at(0, 1); }, Code::kDataInvalid, "do not change data");
  EXPECT_EQ(read(file, 4000, 1000), std::string(1000, 'a'));
}

TEST_F(InputFileTest, WindowsFollowTheFileToItsEnd) {
  std::string bytes;
  for (int i = 0; i < 40000; ++i) bytes += static_cast<char>('a' + i % 23);
  const InputFile file = InputFile::open(write("a", bytes));
  FileWindow window(file);
  for (const int64_t at : {0, 1, 16380, 16383, 16384, 39998, 40000, 3}) {
    const std::string_view rest = window.at(at, 4);
    EXPECT_GE(rest.size(), static_cast<size_t>(std::min<int64_t>(4, 40000 - at)));
    EXPECT_EQ(rest, std::string_view(bytes).substr(static_cast<size_t>(at), rest.size())) << at;
  }
}

TEST_F(InputFileTest, BoundsAreSafeAgainstOverflow) {
  const InputFile file = InputFile::open(write("a", "abcd"));
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(file.contains(0, 4));
  EXPECT_TRUE(file.contains(4, 0));
  EXPECT_FALSE(file.contains(1, 4));
  EXPECT_FALSE(file.contains(5, 0));
  EXPECT_FALSE(file.contains(2, huge));
  EXPECT_FALSE(file.contains(huge, 2));
}

TEST_F(InputFileTest, RefusesWhatIsNoRegularFile) {
  expect_error(folder_, Code::kInvalidArgument, "a directory");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  expect_error(path("fifo"), Code::kInvalidArgument, "a FIFO");  // it must not wait for a writer
  expect_error("/dev/null", Code::kInvalidArgument, "device");
  expect_error(write("a", "x") + std::string("\0b", 2), Code::kInvalidArgument, "NUL");
}

TEST_F(InputFileTest, NamesTheFileThatIsMissing) {
  expect_error(path("absent"), Code::kNotFound, path("absent"));
  expect_error(write("a", "x") + "/b", Code::kNotFound, "/b");
  expect_error("", Code::kNotFound, "cannot open");
}

/// Returns the number that the next descriptor will have.
int next_descriptor() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(fd);
  return fd;
}

TEST_F(InputFileTest, LeavesNoDescriptorOpen) {
  const int before = next_descriptor();
  {
    const InputFile file = InputFile::open(write("a", "abc"));
    InputFile moved = InputFile::open(path("a"));
    moved = InputFile();
    EXPECT_ANY_THROW(InputFile::open(folder_));
  }
  EXPECT_EQ(next_descriptor(), before);
}

TEST_F(InputFileTest, KeepsNoDescriptorWhereManyAreOpen) {
  write("a", "abc");
  write("b", "xyz");
  std::vector<int> others;
  while (others.empty() || others.back() < 600) others.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int before = next_descriptor();
  const InputFile file = InputFile::open(path("a"));
  EXPECT_EQ(next_descriptor(), before);
  EXPECT_EQ(read(file, 1, 2), "bc");
  ASSERT_EQ(::rename(path("b").c_str(), path("a").c_str()), 0);
  expect_error([&] { read(file, 1, 2); }, Code::kDataInvalid, "was replaced by another file");
  ASSERT_EQ(::unlink(path("a").c_str()), 0);
  expect_error([&] { read(file, 1, 2); }, Code::kNotFound, path("a"));
  EXPECT_EQ(next_descriptor(), before);
  for (const int fd : others) ::close(fd);
}

}  // namespace input_file_test
}  // namespace hawser
