// The calls that bench_memory measures: each kernel that waits for memory, with operands of a training step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/include/table.h"
#include "tests/bench/plain_stream.h"

namespace hawser::bench {

/// A case repeats its operands up to this size, several times that of the caches.
constexpr int64_t kOperandBytes = int64_t{160} << 20;

/// Memory in huge pages, like the engine's arena, from which the operands of one case are taken.
class Pool {
 public:
  explicit Pool(int64_t bytes);
  ~Pool();
  Pool(const Pool&) = delete;

  int64_t bytes() const { return bytes_; }
  float* floats() const { return reinterpret_cast<float*>(memory_); }
  void clear() { used_ = 0; }
  void* take(int64_t bytes);

 private:
  char* memory_;
  int64_t bytes_, used_ = 0;
};

struct MemoryCase {
  std::vector<std::function<void(Stream&)>> calls;  ///< one for each copy of the operands
  int64_t bytes = 0;                                ///< that a call must read and write
  int64_t elements = 0;
  StreamShape plain;
};

struct MemoryCaseMaker {
  std::string name;
  std::function<MemoryCase(const kernels::KernelTable& table, Pool& pool, int32_t workers)> make;
};

/// Cases of a model: "124M" (GPT-2) or "0.5B" (Qwen2.5).
std::vector<MemoryCaseMaker> memory_cases(const std::string& model);

}  // namespace hawser::bench
