// Writes the cuBLASLt algorithms that a CUDA device has chosen as text, and reads those of another device.
// Attention plans are not included: cuDNN chooses them itself, by its version and the GPU, which the first
// line therefore states.
#include <stdio.h>
#include <string.h>

#include <new>

#include "engine/device/cuda/cuda_device.h"
#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/sdpa.h"

namespace hawser::device {

using kernels::cuda::AlgorithmList;
using kernels::cuda::ChosenAlgorithm;
using kernels::cuda::kAlgorithmLine;

namespace {

constexpr size_t kChooserLine = 512;

size_t length_of_line(const char* text) { return strcspn(text, "\n"); }

}  // namespace

size_t CudaDevice::write_chooser(char* out, size_t bytes) const {
  const kernels::cuda::Sdpa* const sdpa = at(StreamId::kCompute).sdpa;
  const int length = snprintf(out, bytes, "%s;cuBLASLt %zu;cuDNN %lld;%s", name_, cublaslt()->version(),
                              sdpa != nullptr ? static_cast<long long>(sdpa->version()) : 0,
                              cublaslt()->deterministic() ? "deterministic" : "any");
  return static_cast<size_t>(length);
}

const char* CudaDevice::choices() noexcept {
  if (cublaslt() == nullptr) return "";
  const AlgorithmList& chosen = cublaslt()->prepared();
  const size_t bytes = kChooserLine + static_cast<size_t>(chosen.end() - chosen.begin()) * kAlgorithmLine;
  delete[] choices_;
  choices_ = new (std::nothrow) char[bytes];
  if (choices_ == nullptr) return nullptr;
  size_t at = write_chooser(choices_, kChooserLine - 1);
  at += static_cast<size_t>(snprintf(choices_ + at, bytes - at, "\n"));
  for (const ChosenAlgorithm& one : chosen) at += write_algorithm(one, choices_ + at, bytes - at);
  return choices_;
}

Status CudaDevice::take_choices(const char* choices) noexcept {
  if (cublaslt() == nullptr) return 0;
  char own[kChooserLine];
  const size_t length = write_chooser(own, sizeof own);
  if (length_of_line(choices) != length || strncmp(choices, own, length) != 0)
    return failed(Code::kFailedPrecondition, "algorithms were chosen by \"%.*s\", this one is \"%s\"",
                  static_cast<int>(length_of_line(choices)), choices, own);
  auto* const list = new (std::nothrow) AlgorithmList;
  if (list == nullptr) return failed(Code::kOutOfMemory, "no host memory is left");
  bool sound = true;
  for (const char* line = choices + length + 1; *line != '\0' && sound; line += length_of_line(line) + 1) {
    ChosenAlgorithm one;
    sound = read_algorithm(line, &one);
    list->keep(one);
  }
  if (sound) cublaslt()->take(*list);
  delete list;
  return sound ? 0 : failed(Code::kInternal, "the first rank's choices cannot be read");
}

}  // namespace hawser::device
