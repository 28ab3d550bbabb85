#include "engine/comm/identity/secret.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/error.h"
#include "engine/comm/identity/open_module.h"

namespace hawser::comm {
namespace {

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_io(const std::string& path, int error) {
  fail(error == ENOENT   ? Code::kNotFound
       : error == EACCES ? Code::kPermission
                         : Code::kIo,
       "the secret's file {} cannot be read: {}", path, std::system_category().message(error));
}

/// Rejects unsafe permissions, because anyone who can read the secret can join the job, and anyone who can
/// write its file decides who can.
void check_privacy(const std::string& path, const struct stat& facts) {
  const unsigned mode = facts.st_mode & 07777u;
  if ((mode & S_IROTH) != 0) {
    fail(Code::kPermission, "every user may read the secret's file {} (mode {:o}); do `chmod 600` on it",
         path, mode);
  }
  if ((mode & (S_IWGRP | S_IWOTH)) != 0) {
    fail(Code::kPermission, "other users may write the secret's file {} (mode {:o}); do `chmod 600` on it",
         path, mode);
  }
  if (facts.st_uid != 0 && facts.st_uid != geteuid()) {
    fail(Code::kPermission,
         "the secret's file {} belongs to user {}, who can change it, and this process runs as user {}; give "
         "a file that belongs to that user or to root",
         path, facts.st_uid, geteuid());
  }
}

}  // namespace

Secret::Secret(std::string_view bytes, const std::string& module_folder)
    : module_(open_identity_module(module_folder)) {
  if (bytes.size() < kLeastBytes || bytes.size() > kMostBytes) {
    fail(Code::kInvalidArgument,
         "the secret has {} bytes; it must have {} to {}: make one with `head -c 32 /dev/urandom | base64`",
         bytes.size(), kLeastBytes, kMostBytes);
  }
  bytes_ = bytes;
}

Secret::~Secret() { explicit_bzero(bytes_.data(), bytes_.size()); }

Proof Secret::prove(std::string_view text) const {
  Proof proof;
  module_.prove(bytes_.data(), bytes_.size(), text.data(), text.size(), proof.data());
  return proof;
}

bool Secret::proves(std::string_view text, const Proof& proof) const {
  return module_.equal(prove(text).data(), proof.data()) != 0;
}

std::shared_ptr<const Secret> read_secret(const std::string& path, const std::string& module_folder) {
  const File file(path);
  struct stat facts {};
  if (file.fd() < 0 || fstat(file.fd(), &facts) != 0) fail_io(path, errno);
  if (!S_ISREG(facts.st_mode)) {
    fail(Code::kInvalidArgument, "the secret's file {} is not a regular file", path);
  }
  check_privacy(path, facts);
  char bytes[Secret::kMostBytes + 2];
  const ssize_t got = ::read(file.fd(), bytes, sizeof(bytes));
  if (got < 0) fail_io(path, errno);
  std::string_view text(bytes, static_cast<size_t>(got));
  if (text.ends_with('\n')) text.remove_suffix(1);
  const struct Wipe {
    char* bytes;
    ~Wipe() { explicit_bzero(bytes, Secret::kMostBytes + 2); }
  } wipe{bytes};
  return std::make_shared<const Secret>(text, module_folder);
}

}  // namespace hawser::comm
