// KernelCalls: what an instruction computes, as calls of kernels. A dry run of the modules records them, so
// that the work of a step is known before it runs, in the classes in which a profile of the real step reports
// it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"

namespace hawser {

/// The calls of one class: the same kernel, and the same shape if that determines the speed.
struct KernelCalls {
  std::string_view kernel;      ///< its name (nn/kernel_work.h), in static storage
  DType type = DType::kF32;     ///< as in nn::KernelWork
  int64_t m = 0, n = 0, k = 0;  ///< of a matrix product
  bool a_transposed = false, b_transposed = false;
  int64_t length = 0, head_dim = 0;  ///< of attention: keys of a call, and elements of a head
  int64_t calls = 0;
  double flops = 0, bytes = 0;  ///< of all calls; each operand is read or written once in a call

  bool same_class(const KernelCalls& o) const {
    return kernel == o.kernel && type == o.type && m == o.m && n == o.n && k == o.k &&
           a_transposed == o.a_transposed && b_transposed == o.b_transposed && length == o.length &&
           head_dim == o.head_dim;
  }
  void add(const KernelCalls& o) { calls += o.calls, flops += o.flops, bytes += o.bytes; }
  bool operator==(const KernelCalls&) const = default;
};

using WorkList = std::vector<KernelCalls>;

/// The work of an instruction that can overwrite its gradients, or add to them, which also reads them.
struct Work {
  WorkList calls, adding;
  bool operator==(const Work&) const = default;
};

/// Adds the calls to those of their class.
inline void add_calls(WorkList* list, const KernelCalls& calls) {
  for (KernelCalls& known : *list)
    if (known.same_class(calls)) return known.add(calls);
  list->push_back(calls);
}

}  // namespace hawser
