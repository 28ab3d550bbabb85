#include "tests/fuzz/input_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/fuzz/checks.h"

namespace hawser::fuzz {

InputFolder::InputFolder() : path_("/dev/shm/hawser-fuzz-XXXXXX") {
  FUZZ_REQUIRE(mkdtemp(path_.data()) != nullptr);
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void InputFolder::put(const std::string& name, const uint8_t* data, size_t size) const {
  const int fd = ::open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FUZZ_REQUIRE(fd >= 0);
  FUZZ_REQUIRE(::write(fd, data, size) == static_cast<ssize_t>(size));
  ::close(fd);
}

}  // namespace hawser::fuzz
