#include "kernels/cuda/algorithm_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/code.h"
#include "engine/base/descriptor.h"
#include "engine/base/file_size_signal.h"

namespace hawser::kernels::cuda {
namespace {

// Form of a line: hawser-cublaslt-3;GPU;version of cuBLASLt;deterministic;text of write_algorithm
constexpr const char* kHead = "hawser-cublaslt-";
constexpr const char* kFormat = "3";  // lines of other formats are ignored

/// Writes the text before the fields that vary, which is the same for all lines of an owner; returns its
/// length.
size_t write_prefix(char* out, const AlgorithmOwner& owner) {
  const int length = snprintf(out, kAlgorithmLine, "%s%s;%s;%zu;%s;", kHead, kFormat, owner.gpu,
                              owner.library_version, owner.deterministic ? "deterministic" : "any");
  return static_cast<size_t>(length);
}

bool refuse(StickyError& failure, const char* what, const char* path, const char* why) {
  char text[512];
  snprintf(text, sizeof(text), "%.300s%.200s", path, why);  // limited to what an error stores
  failure.keep(static_cast<int32_t>(Code::kIo), "/cuda/algorithm_cache", what, text);
  return false;
}

/// Like refuse, with the system's error text.
bool refuse_call(StickyError& failure, const char* what, const char* path, const char* todo = "") {
  char why[200];
  snprintf(why, sizeof(why), ": %s%s", strerror(errno), todo);
  return refuse(failure, what, path, why);
}

/// Writes in one call, so that lines of engines that share the file do not mix. A partial line would damage
/// the file, so it is removed again.
bool append(int file, const char* line, size_t length) {
  const FileSizeSignalBlocked blocked;
  const ssize_t written = write(file, line, length);
  if (written == static_cast<ssize_t>(length)) return true;
  const int error = written < 0 ? errno : ENOSPC;
  const off_t end = lseek(file, 0, SEEK_END);
  [[maybe_unused]] const bool whole = written <= 0 || end < written || ftruncate(file, end - written) == 0;
  errno = error;
  return false;
}

}  // namespace

/// Returns false if the line is damaged. Ignores lines of other owners.
bool AlgorithmCache::read_line(const char* line) {
  char prefix[kAlgorithmLine];
  const size_t prefix_length = write_prefix(prefix, owner_), length = strlen(line);
  if (strncmp(line, kHead, strlen(kHead)) != 0 || length < 2 || line[length - 1] != '\n') return false;
  if (strncmp(line, prefix, prefix_length) != 0) return true;
  ChosenAlgorithm chosen;
  if (!read_algorithm(line + prefix_length, &chosen)) return false;
  known_.keep(chosen);
  return true;
}

bool AlgorithmCache::open(const char* path, const AlgorithmOwner& owner, StickyError& failure) {
  owner_ = owner;
  if (strlen(path) >= sizeof(path_)) return refuse(failure, "the path is too long", path, "");
  snprintf(path_, sizeof(path_), "%s", path);
  FILE* const file = fopen(path, "re");
  if (file == nullptr) return errno == ENOENT || refuse_call(failure, "cannot read", path);
  char line[kAlgorithmLine];
  int number = 0;
  bool sound = true;
  while (sound && fgets(line, sizeof(line), file) != nullptr) {
    ++number;
    sound = read_line(line);
  }
  const bool failed = ferror(file) != 0;
  if (failed) refuse_call(failure, "cannot read", path);
  fclose(file);
  if (failed || sound) return !failed;
  char where[96];
  snprintf(where, sizeof(where), ", line %d; remove the file to create it again", number);
  return refuse(failure, "is damaged at", path, where);
}

bool AlgorithmCache::add(const ChosenAlgorithm& chosen, StickyError& failure) {
  known_.keep(chosen);
  char line[kAlgorithmLine];
  size_t length = write_prefix(line, owner_);
  length += write_algorithm(chosen, line + length, sizeof(line) - length);
  const int file = beyond_standard(::open(path_, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  const bool added = file >= 0 && append(file, line, length);
  if (!added)
    refuse_call(failure, "cannot add to", path_,
                "; name a file that can be written, or one that has all products of this model already");
  if (file >= 0) close(file);
  return added;
}

}  // namespace hawser::kernels::cuda
