// The kernel table: what a backend offers. Each CPU level and (later) CUDA fill one; nn, optim and train call
// kernels through it only. Every function is noexcept in effect: it reports nothing, arguments are the
// caller's duty and stated in each op's header. Zero-sized calls are no-ops.
#pragma once

#include "kernels/include/activation.h"
#include "kernels/include/attention.h"
#include "kernels/include/cross_entropy.h"
#include "kernels/include/embedding.h"
#include "kernels/include/matmul.h"
#include "kernels/include/norm.h"
#include "kernels/include/optimizer.h"
#include "kernels/include/ordered_sum.h"
#include "kernels/include/reduce.h"
#include "kernels/include/residual.h"
#include "kernels/include/rope.h"

namespace hawser::kernels {

// Every kernel that computes: its name, and its arguments. All that names kernels one by one is made of this list: the
// table, each backend's declarations and entries, walks over the table, costs, and the check that op cases are whole.
#define HWS_EACH_KERNEL(KERNEL)                   \
  KERNEL(matmul, Matmul)                          \
  KERNEL(embedding_forward, EmbeddingForward)     \
  KERNEL(embedding_backward, EmbeddingBackward)   \
  KERNEL(norm_forward, NormForward)               \
  KERNEL(norm_backward, NormBackward)             \
  KERNEL(activation_forward, ActivationForward)   \
  KERNEL(activation_backward, ActivationBackward) \
  KERNEL(rope, Rope)                              \
  KERNEL(residual_forward, ResidualForward)       \
  KERNEL(residual_backward, ResidualBackward)     \
  KERNEL(attention_forward, AttentionForward)     \
  KERNEL(attention_backward, AttentionBackward)   \
  KERNEL(cross_entropy, CrossEntropy)             \
  KERNEL(soft_cap, SoftCap)                       \
  KERNEL(column_sum, ColumnSum)                   \
  KERNEL(sum_of_squares, SumOfSquares)            \
  KERNEL(add, Add)                                \
  KERNEL(convert, Convert)                        \
  KERNEL(ordered_sum, OrderedSum)                 \
  KERNEL(adamw, AdamW)                            \
  KERNEL(sgd, Sgd)                                \
  KERNEL(adamw_bf16, AdamWBf16)                   \
  KERNEL(sgd_bf16, SgdBf16)

/// What suits a backend, where callers may choose.
struct Suited {
  /// Under precision bf16, logits and their gradient are best stored as bf16; else as f32.
  bool narrow_logits;
  /// Products take what follows them along (Matmul::epilogue, aux, bias_gradient). Where not, these stay
  /// unset, and the kernels of their own are called.
  bool epilogues;
  /// The most bytes, and rows, of logits that are best made at a time.
  int64_t logit_bytes, logit_rows;
};

struct KernelTable {
  const char* name;  ///< "generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16"

#define HWS_MEMBER(name, Args) void (*name)(const Args&, Stream&);
  HWS_EACH_KERNEL(HWS_MEMBER)
#undef HWS_MEMBER

  // What a backend makes once for each shape (descriptors, plans, the choice among several algorithms), made
  // before the call itself, which then makes nothing. Null: there is nothing to make. Arguments are as the
  // call will have them, alignments included; values are not looked at, and memory of outputs, inputs and
  // workspace may be overwritten.
  void (*prepare_matmul)(const Matmul&, Stream&) = nullptr;
  void (*prepare_attention_forward)(const AttentionForward&, Stream&) = nullptr;
  void (*prepare_attention_backward)(const AttentionBackward&, Stream&) = nullptr;

  // Bytes of `workspace` for these arguments (of pointers only whether they are null) on a stream of
  // num_workers; a pure function, the same whether something is added to or not.
  int64_t (*matmul_workspace_bytes)(const Matmul&, int32_t num_workers);
  int64_t (*norm_backward_workspace_bytes)(const NormBackward&, int32_t num_workers);
  int64_t (*attention_forward_workspace_bytes)(const AttentionForward&, int32_t num_workers);
  int64_t (*attention_backward_workspace_bytes)(const AttentionBackward&, int32_t num_workers);
  int64_t (*column_sum_workspace_bytes)(const ColumnSum&, int32_t num_workers);

  const Suited* suited;
};

}  // namespace hawser::kernels
