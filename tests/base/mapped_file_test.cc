// MappedFile: what it maps, and what it refuses and how.
#include "engine/base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/base/error.h"

namespace hawser {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "hawser-map-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static void expect_error(const std::string& path, Code code, const std::string& text) {
    try {
      MappedFile::open(path);
      FAIL() << "opened " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.message();
      EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
    }
  }
  std::string folder_;
};

TEST_F(MappedFileTest, MapsTheBytesOfAFile) {
  const std::string bytes("one\0two", 7);
  const MappedFile file = MappedFile::open(write("a", bytes));
  ASSERT_EQ(file.size(), 7u);
  EXPECT_EQ(std::memcmp(file.data(), bytes.data(), 7), 0);
  EXPECT_EQ(file.path(), path("a"));
}

TEST_F(MappedFileTest, AnEmptyFileHasNoData) {
  const MappedFile file = MappedFile::open(write("empty", ""));
  EXPECT_EQ(file.size(), 0u);
  EXPECT_EQ(file.data(), nullptr);
}

TEST_F(MappedFileTest, MovesTheMapping) {
  MappedFile a = MappedFile::open(write("a", "aaaa"));
  MappedFile b = MappedFile::open(write("b", "bb"));
  const uint8_t* data = a.data();
  b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.size(), 4u);
  const MappedFile c(std::move(b));
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.data()[3], 'a');
}

TEST_F(MappedFileTest, OutlivesTheNameOfTheFile) {
  const MappedFile file = MappedFile::open(write("a", "abc"));
  ASSERT_EQ(::unlink(path("a").c_str()), 0);
  EXPECT_EQ(file.data()[2], 'c');
}

TEST_F(MappedFileTest, BoundsAreSafeAgainstOverflow) {
  const MappedFile file = MappedFile::open(write("a", "abcd"));
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(file.contains(0, 4));
  EXPECT_TRUE(file.contains(4, 0));
  EXPECT_FALSE(file.contains(1, 4));
  EXPECT_FALSE(file.contains(5, 0));
  EXPECT_FALSE(file.contains(2, huge));
  EXPECT_FALSE(file.contains(huge, 2));
}

TEST_F(MappedFileTest, RefusesWhatIsNoRegularFile) {
  expect_error(folder_, Code::kInvalidArgument, "a directory");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  expect_error(path("fifo"), Code::kInvalidArgument, "a FIFO");  // and does not wait for a writer
  expect_error("/dev/null", Code::kInvalidArgument, "device");
  expect_error(write("a", "x") + std::string("\0b", 2), Code::kInvalidArgument, "NUL");
}

TEST_F(MappedFileTest, NamesTheFileThatIsMissing) {
  expect_error(path("absent"), Code::kNotFound, path("absent"));
  expect_error(write("a", "x") + "/b", Code::kNotFound, "/b");
  expect_error("", Code::kNotFound, "cannot open");
}

TEST_F(MappedFileTest, LeavesNoDescriptorOpen) {
  write("a", "abc");
  const int before = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(before);
  const MappedFile file = MappedFile::open(path("a"));
  EXPECT_ANY_THROW(MappedFile::open(folder_));
  const int after = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(after);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace hawser
