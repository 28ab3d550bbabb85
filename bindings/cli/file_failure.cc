// See file_failure.h.
#include "bindings/cli/file_failure.h"

#include <cerrno>
#include <cstring>

#include "bindings/cli/client.h"

namespace hawser::cli {
namespace {

const char* advice(int error) {
  if (error == ENOSPC || error == EDQUOT) return "; free some space or choose another place";
  return "";
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

void fail_file(const std::string& what, int error) {
  throw Failure(file_status(error), what + ": " + std::strerror(error) + advice(error));
}

}  // namespace hawser::cli
