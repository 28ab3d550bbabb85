// Turns file errors into Failures.
#include "bindings/cli/file_failure.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bindings/cli/client.h"

namespace hawser::cli {
namespace {

const char* advice(int error) {
  if (error == ENOSPC || error == EDQUOT) return "; free some space or choose another location";
  return "";
}

/// Returns the kind of the file (S_IFMT), or 0 if there is none. A dangling link counts as a file: a new file
/// could not take its name.
mode_t kind_of(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) return status.st_mode & S_IFMT;
  if (errno != ENOENT && errno != ENOTDIR) fail_file("cannot look at " + path, errno);
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(path, error).string();
  if (!error)
    throw Failure(HWS_NOT_FOUND, path + " is a symbolic link to " + target +
                                     ", which does not exist; remove the link or create its target");
  return 0;
}

}  // namespace

int32_t file_status(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return HWS_NOT_FOUND;
    case EISDIR:
    case ENAMETOOLONG:
    case EINVAL:
    case ELOOP:
      return HWS_INVALID_ARGUMENT;
    case EACCES:
    case EPERM:
    case EROFS:
      return HWS_PERMISSION;
    default:
      return HWS_IO;
  }
}

bool exists(const std::string& path) { return kind_of(path) != 0; }
bool is_folder(const std::string& path) { return kind_of(path) == S_IFDIR; }

void fail_file(const std::string& what, int error) {
  throw Failure(file_status(error), what + ": " + std::strerror(error) + advice(error));
}

}  // namespace hawser::cli
