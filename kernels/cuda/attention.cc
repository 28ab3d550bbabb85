// Chooses the implementation of attention: a library's fused kernels on tensor cores, or ours if there is no
// library or none of its plans supports the case (soft-cap, dropout, whose bits must be ours, f32, odd heads,
// caches, parts of rows).
#include "kernels/cuda/attention.h"

#include <stdio.h>

#include "kernels/cuda/sdpa.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

bool is_empty(const AttentionShape& s) { return s.batch <= 0 || s.heads <= 0 || s.head_dim <= 0; }

bool is_aligned(std::initializer_list<const void*> pointers) {
  constexpr uintptr_t kBytes = 16;
  for (const void* p : pointers) {
    if (reinterpret_cast<uintptr_t>(p) % kBytes != 0) return false;
  }
  return true;
}

/// A problem in the library's form.
struct ByLibrary {
  SdpaShape shape;
  SdpaWorkspace workspace;

  bool takes(const AttentionShape& s, bool backward, CudaStream& stream) {
    if (stream.sdpa == nullptr || !sdpa_shape(s, backward, &shape)) return false;
    workspace = sdpa_workspace(shape);
    return stream.sdpa->offers(shape, workspace.library_bytes);
  }

  /// Creates the plan. If the library has none for this problem, our kernels compute it; reports the first
  /// such problem.
  void prepare(const AttentionShape& s, bool backward, CudaStream& stream) {
    if (is_empty(s) || takes(s, backward, stream)) return;
    if (shape.batch == 0 || stream.without.text == nullptr || stream.without.text[0] != '\0') return;
    char values[48] = "";
    if (shape.value_dim != shape.head_dim)
      snprintf(values, sizeof(values), ", values of %lld", static_cast<long long>(shape.value_dim));
    snprintf(
        stream.without.text, stream.without.bytes,
        "cuDNN %lld has no plan for the %s of attention%s (%lld x %lld positions, %lld heads of %lld%s); the "
        "engine's own kernel runs instead%s",
        static_cast<long long>(stream.sdpa->version()), backward ? "backward" : "forward",
        shape.documents > 0 ? " over documents" : "", static_cast<long long>(shape.batch),
        static_cast<long long>(shape.seq), static_cast<long long>(shape.heads),
        static_cast<long long>(shape.head_dim), values,
        stream.sdpa->deterministic() ? "; it may have one with /deterministic false" : "");
  }

  /// Sets the addresses of documents, their statistics and the library's workspace. Without documents, lse
  /// holds the statistics.
  void place(SdpaTensors* tensors, float* lse, void* memory, const int32_t* kv_begin,
             CudaStream& stream) const {
    char* const at = static_cast<char*>(memory);
    tensors->workspace = at + workspace.table_bytes + workspace.stats_bytes;
    tensors->stats = lse;
    if (shape.documents == 0) return;
    fill_document_table(shape, kv_begin, at, &tensors->documents, stream);
    tensors->stats = reinterpret_cast<float*>(at + workspace.table_bytes);
  }
};

void run_own(const AttentionForward& args, CudaStream& stream) {
  if (product_type(args.s) == DType::kBf16) return attention_forward_tensor(args, stream);
  attention_forward_tiled(args, stream);
}

void run_own(const AttentionBackward& args, CudaStream& stream) {
  attention_deltas(args, stream);
  if (product_type(args.s) == DType::kBf16) return attention_backward_tensor(args, stream);
  attention_backward_tiled(args, stream);
}

}  // namespace

void attention_forward(const AttentionForward& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (is_empty(args.s) || args.s.seq_q <= 0) return;
  ByLibrary library;
  if (!is_plain(args) || !is_aligned({args.q, args.k, args.v, args.o}) ||
      !library.takes(args.s, false, cuda)) {
    return run_own(args, cuda);
  }
  SdpaTensors tensors;
  tensors.q = args.q, tensors.k = args.k, tensors.v = args.v;
  tensors.o = args.o;
  library.place(&tensors, args.lse, args.workspace, args.s.kv_begin, cuda);
  cuda.sdpa->run(library.shape, tensors, cuda);
  if (library.shape.documents > 0) stats_to_lse(library.shape, args.lse, tensors.stats, cuda);
}

void attention_backward(const AttentionBackward& args, Stream& stream) {
  CudaStream& cuda = cuda_stream(stream);
  if (is_empty(args.s)) return;
  ByLibrary library;
  if (!is_plain(args) ||
      !is_aligned({args.q, args.k, args.v, args.o, args.dout, args.dq, args.dk, args.dv}) ||
      !library.takes(args.s, true, cuda)) {
    return run_own(args, cuda);
  }
  SdpaTensors tensors;
  tensors.q = args.q, tensors.k = args.k, tensors.v = args.v;
  tensors.o = const_cast<void*>(args.o);
  tensors.dout = args.dout;
  tensors.dq = args.dq, tensors.dk = args.dk, tensors.dv = args.dv;
  library.place(&tensors, const_cast<float*>(args.lse), args.workspace, args.s.kv_begin, cuda);
  if (library.shape.documents > 0) lse_to_stats(library.shape, tensors.stats, args.lse, cuda);
  cuda.sdpa->run(library.shape, tensors, cuda);
}

void prepare_attention_forward(const AttentionForward& args, Stream& stream) {
  if (is_plain(args)) ByLibrary{}.prepare(args.s, false, cuda_stream(stream));
}

void prepare_attention_backward(const AttentionBackward& args, Stream& stream) {
  if (is_plain(args)) ByLibrary{}.prepare(args.s, true, cuda_stream(stream));
}

}  // namespace hawser::kernels::cuda
