#include "kernels/cuda/algorithm_list.h"

#include <inttypes.h>
#include <stdio.h>

namespace hawser::kernels::cuda {
namespace {

/// Reads `count` numbers separated by blanks, and the ';' after the last.
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

size_t write_algorithm(const ChosenAlgorithm& chosen, char* out, size_t bytes) {
  size_t length = 0;
  const auto append = [&](const char* format, auto value) {
    const int written = snprintf(out + length, bytes - length, format, value);
    length =
        length + static_cast<size_t>(written) < bytes ? length + static_cast<size_t>(written) : bytes - 1;
  };
  const char* separator = "";
  for (const int64_t number : chosen.product) {
    append("%s", separator);
    append("%" PRId64, number);
    separator = " ";
  }
  separator = ";";
  for (const uint64_t word : chosen.algorithm.data) {
    append("%s", separator);
    append("%" PRIx64, word);
    separator = " ";
  }
  append(";%" PRId64 "\n", chosen.nanoseconds);
  return length;
}

bool read_algorithm(const char* line, ChosenAlgorithm* out) {
  const char* at = line;
  int length = 0;
  return read_numbers(at, out->product.data(), out->product.size(), "%" SCNd64 "%n") &&
         read_numbers(at, out->algorithm.data, sizeof(out->algorithm) / sizeof(uint64_t), "%" SCNx64 "%n") &&
         sscanf(at, "%" SCNd64 "%n", &out->nanoseconds, &length) == 1 && at[length] == '\n';
}

const ChosenAlgorithm* AlgorithmList::find(const ProductNumbers& product) const {
  for (const ChosenAlgorithm& entry : *this) {
    if (entry.product == product) return &entry;
  }
  return nullptr;
}

void AlgorithmList::keep(const ChosenAlgorithm& chosen) {
  for (size_t i = 0; i < count_; ++i) {
    if (entries_[i].product != chosen.product) continue;
    entries_[i] = chosen;
    return;
  }
  if (count_ < kMost) entries_[count_++] = chosen;
}

}  // namespace hawser::kernels::cuda
