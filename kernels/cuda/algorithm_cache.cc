#include "kernels/cuda/algorithm_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/code.h"

namespace hawser::kernels::cuda {
namespace {

// hawser-cublaslt-2;GPU;version of cuBLASLt;deterministic;numbers of the product;words of the
// algorithm;microseconds
constexpr const char* kHead = "hawser-cublaslt-";  // of lines of every format
constexpr const char* kFormat = "2";               // how products are written
constexpr size_t kLongestLine = 1024;

/// The text before the fields that vary, the same for all of an owner's lines.
void write_prefix(char* out, const AlgorithmOwner& owner) {
  snprintf(out, kLongestLine, "%s%s;%s;%zu;%s;", kHead, kFormat, owner.gpu, owner.library_version,
           owner.deterministic ? "deterministic" : "any");
}

/// Reads `count` numbers, a blank before each but the first, and the ';' behind them.
template <class Number>
bool read_numbers(const char*& at, Number* out, size_t count, const char* format) {
  for (size_t i = 0; i < count; ++i) {
    int length = 0;
    if (sscanf(at, format, &out[i], &length) != 1 || length == 0) return false;
    at += length;
  }
  return *at++ == ';';
}

}  // namespace

/// False: it is damaged. Of another owner: nothing to do.
bool AlgorithmCache::read_line(const char* line) {
  char prefix[kLongestLine];
  write_prefix(prefix, owner_);
  const size_t length = strlen(line);
  if (strncmp(line, kHead, strlen(kHead)) != 0 || length < 2 || line[length - 1] != '\n') return false;
  if (strncmp(line, prefix, strlen(prefix)) != 0) return true;
  Entry entry = {};
  const char* at = line + strlen(prefix);
  if (!read_numbers(at, entry.product.data(), entry.product.size(), "%" SCNd64 "%n") ||
      !read_numbers(at, entry.algorithm.data, sizeof(entry.algorithm) / sizeof(uint64_t), "%" SCNx64 "%n")) {
    return false;
  }
  keep(entry);
  return true;
}

/// A later line says it better.
void AlgorithmCache::keep(const Entry& entry) {
  for (size_t i = 0; i < count_; ++i) {
    if (entries_[i].product != entry.product) continue;
    entries_[i] = entry;
    return;
  }
  if (count_ < entries_.size()) entries_[count_++] = entry;
}

bool AlgorithmCache::open(const char* path, const AlgorithmOwner& owner, bool adds, StickyError& failure) {
  constexpr const char* kWhat = "/cuda/algorithm_cache";
  const auto refuse = [&](const char* what, const char* value) {
    failure.keep(static_cast<int32_t>(Code::kIo), kWhat, what, value);
    return false;
  };
  owner_ = owner;
  if (strlen(path) >= sizeof(path_)) return refuse("the path is too long", path);
  snprintf(path_, sizeof(path_), "%s", path);
  char text[512];
  FILE* const file = fopen(path, "re");
  if (file == nullptr && errno != ENOENT) {
    snprintf(text, sizeof(text), "%s: %s", path, strerror(errno));
    return refuse("cannot read", text);
  }
  char line[kLongestLine];
  int number = 0;
  bool sound = true;
  while (file != nullptr && sound && fgets(line, sizeof(line), file) != nullptr) {
    ++number;
    sound = read_line(line);
  }
  if (file != nullptr) fclose(file);
  if (!sound) {
    snprintf(text, sizeof(text), "%s, line %d; remove the file, and it is made anew", path, number);
    return refuse("is damaged at", text);
  }
  const int appended = adds ? ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (adds && appended < 0) {
    snprintf(text, sizeof(text), "%s: %s", path, strerror(errno));
    return refuse("cannot add to", text);
  }
  if (appended >= 0) close(appended);
  return true;
}

bool AlgorithmCache::find(const ProductNumbers& product, cublaslt::Algorithm* out) const {
  for (size_t i = 0; i < count_; ++i) {
    if (entries_[i].product != product) continue;
    *out = entries_[i].algorithm;
    return true;
  }
  return false;
}

void AlgorithmCache::add(const ProductNumbers& product, const cublaslt::Algorithm& algorithm,
                         float microseconds) {
  keep({product, algorithm});
  char line[kLongestLine];
  write_prefix(line, owner_);
  size_t length = strlen(line);
  const auto append = [&](const char* format, auto value) {
    length += static_cast<size_t>(snprintf(line + length, sizeof(line) - length, format, value));
  };
  for (size_t i = 0; i < product.size(); ++i) append(i == 0 ? "%" PRId64 : " %" PRId64, product[i]);
  append("%s", ";");
  for (const uint64_t word : algorithm.data) append(&word == algorithm.data ? "%" PRIx64 : " %" PRIx64, word);
  append(";%.2f\n", static_cast<double>(microseconds));
  const int file = ::open(path_, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  // One call, so that lines of engines that share the file do not mix.
  [[maybe_unused]] const ssize_t written = write(file, line, length);
  close(file);
}

}  // namespace hawser::kernels::cuda
