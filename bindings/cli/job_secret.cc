#include "bindings/cli/job_secret.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace hawser::cli {
namespace {

constexpr size_t kBytes = 32;
using Bytes = std::array<char, kBytes>;

struct Wipe {
  Bytes& bytes;
  ~Wipe() { explicit_bzero(bytes.data(), bytes.size()); }
};

[[noreturn]] void fail_system(const char* what) {
  throw Failure(HWS_UNAVAILABLE, std::string("the job's secret: ") + what + ": " + std::strerror(errno));
}

int32_t write_secret(void* user, void* data, size_t capacity, size_t* bytes) {
  const auto& secret = *static_cast<const std::string*>(user);
  if (secret.size() > capacity) return HWS_INVALID_ARGUMENT;
  std::memcpy(data, secret.data(), secret.size());
  *bytes = secret.size();
  return HWS_OK;
}

}  // namespace

JobSecret JobSecret::random() {
  Bytes bytes;
  const Wipe wipe{bytes};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail_system("cannot get random bytes from the system");
  return JobSecret(std::string(bytes.data(), bytes.size()));
}

JobSecret JobSecret::take(int descriptor) {
  Bytes bytes;
  const Wipe wipe{bytes};
  ssize_t got = 0;
  do {
    got = ::read(descriptor, bytes.data(), bytes.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) fail_system("--secret-fd cannot be read");
  close(descriptor);
  if (got != static_cast<ssize_t>(bytes.size()))
    throw Failure(HWS_INVALID_ARGUMENT, "--secret-fd does not hold a launcher's secret");
  return JobSecret(std::string(bytes.data(), bytes.size()));
}

JobSecret::~JobSecret() { explicit_bzero(bytes_.data(), bytes_.size()); }

int JobSecret::hand_over() const {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_system("pipe");
  const ssize_t put = write(ends[1], bytes_.data(), bytes_.size());  // fits the pipe's buffer
  const int error = errno;
  close(ends[1]);
  if (put == static_cast<ssize_t>(bytes_.size())) return ends[0];
  close(ends[0]);
  errno = error;
  fail_system("write");
}

void JobSecret::lend_to(hws_comm_address* address) const {
  address->secret = write_secret;
  address->secret_user = const_cast<std::string*>(&bytes_);
}

}  // namespace hawser::cli
