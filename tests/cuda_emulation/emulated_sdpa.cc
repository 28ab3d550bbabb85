#include "tests/cuda_emulation/emulated_sdpa.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/harness/test_stream.h"

namespace hawser::cuda_emulation {
namespace {

using kernels::AttentionShape;
using kernels::cuda::SdpaShape;
using kernels::cuda::SdpaTensors;

template <class T>
T* at(T* base, int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(base) + elements * dtype_bytes(DType::kBf16));
}

AttentionShape shape_of(const SdpaShape& shape, int64_t batch, int64_t seq) {
  AttentionShape s;
  s.type = DType::kBf16;
  s.batch = batch, s.seq_q = s.seq_k = s.kv_batch_rows = seq;
  s.heads = shape.heads, s.kv_heads = shape.kv_heads;
  s.head_dim = shape.head_dim, s.value_dim = shape.value_dim;
  s.q_stride = shape.q_stride, s.kv_stride = shape.kv_stride, s.o_stride = shape.o_stride;
  s.window = shape.window;
  s.scale = shape.scale;
  return s;
}

/// Computes attention in both directions by the CPU's table; lse is [batch, heads, seq].
void attend(const AttentionShape& s, const SdpaTensors& t, float* lse, bool backward) {
  const kernels::KernelTable& cpu = kernels::cpu_kernels(kernels::best_cpu_level());
  testing::SerialStream stream;
  std::vector<char> workspace;
  const auto take = [&](int64_t bytes) {
    workspace.resize(static_cast<size_t>(bytes) + 64);
    return workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  };
  if (!backward) {
    kernels::AttentionForward f = {s, t.o, lse, t.q, t.k, t.v, nullptr};
    f.workspace = take(cpu.attention_forward_workspace_bytes(f, 1));
    return cpu.attention_forward(f, stream);
  }
  kernels::AttentionBackward b = {s, t.dq, t.dk, t.dv, t.dout, t.o, lse, t.q, t.k, t.v, nullptr};
  b.workspace = take(cpu.attention_backward_workspace_bytes(b, 1));
  cpu.attention_backward(b, stream);
}

/// Computes one document, whose location is in the table. Its statistics are stored by rows.
void attend_document(const SdpaShape& shape, const SdpaTensors& t, int64_t d) {
  const int64_t q = t.documents.q[d], kv = t.documents.kv[d], o = t.documents.o[d],
                rows = t.documents.rows[d];
  SdpaTensors own = t;
  own.q = at(static_cast<const char*>(t.q), q);
  own.k = at(static_cast<const char*>(t.k), kv);
  own.v = at(static_cast<const char*>(t.v), kv);
  own.o = at(static_cast<char*>(t.o), o);
  if (shape.backward) {
    own.dout = at(static_cast<const char*>(t.dout), o);
    own.dq = at(static_cast<char*>(t.dq), q);
    own.dk = at(static_cast<char*>(t.dk), kv);
    own.dv = at(static_cast<char*>(t.dv), kv);
  }
  std::vector<float> lse(static_cast<size_t>(shape.heads * rows));
  const auto each = [&](const auto& move) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t i = 0; i < rows; ++i)
        move(lse[static_cast<size_t>(h * rows + i)], t.stats[t.documents.stats[d] + i * shape.heads + h]);
    }
  };
  if (shape.backward) each([](float& ours, float& theirs) { ours = theirs; });
  attend(shape_of(shape, 1, rows), own, lse.data(), shape.backward);
  if (!shape.backward) each([](float& ours, float& theirs) { theirs = ours; });
}

}  // namespace

int64_t& sdpa_needed_bytes() {
  static int64_t bytes = 1024;
  return bytes;
}

int64_t& sdpa_plans_made() {
  static int64_t made = 0;
  return made;
}

bool EmulatedSdpa::offers(const SdpaShape& shape, int64_t workspace_bytes) {
  if (std::find(plans.begin(), plans.end(), shape) == plans.end()) {
    plans.push_back(shape);
    __atomic_fetch_add(&sdpa_plans_made(), 1, __ATOMIC_RELAXED);
  }
  return needed_bytes <= workspace_bytes;
}

void EmulatedSdpa::run(const SdpaShape& shape, const SdpaTensors& tensors,
                       kernels::cuda::CudaStream& stream) {
  ++runs;
  const auto work = [shape, tensors, bytes = static_cast<size_t>(needed_bytes)] {
    std::memset(tensors.workspace, 0xff, bytes);
    if (shape.documents == 0)
      attend(shape_of(shape, shape.batch, shape.seq), tensors, tensors.stats, shape.backward);
    for (int64_t d = 0; d < shape.documents; ++d) {
      if (tensors.documents.rows[d] > 0) attend_document(shape, tensors, d);
    }
    return cudaSuccess;
  };
  stream.succeeded(give(stream.handle, work), "attention");
}

}  // namespace hawser::cuda_emulation
