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

  void (*matmul)(const Matmul&, Stream&);
  void (*embedding_forward)(const EmbeddingForward&, Stream&);
  void (*embedding_backward)(const EmbeddingBackward&, Stream&);
  void (*norm_forward)(const NormForward&, Stream&);
  void (*norm_backward)(const NormBackward&, Stream&);
  void (*activation_forward)(const ActivationForward&, Stream&);
  void (*activation_backward)(const ActivationBackward&, Stream&);
  void (*rope)(const Rope&, Stream&);
  void (*residual_forward)(const ResidualForward&, Stream&);
  void (*residual_backward)(const ResidualBackward&, Stream&);
  void (*attention_forward)(const AttentionForward&, Stream&);
  void (*attention_backward)(const AttentionBackward&, Stream&);
  void (*cross_entropy)(const CrossEntropy&, Stream&);
  void (*soft_cap)(const SoftCap&, Stream&);
  void (*column_sum)(const ColumnSum&, Stream&);
  void (*sum_of_squares)(const SumOfSquares&, Stream&);
  void (*add)(const Add&, Stream&);
  void (*convert)(const Convert&, Stream&);
  void (*ordered_sum)(const OrderedSum&, Stream&);
  void (*adamw)(const AdamW&, Stream&);
  void (*sgd)(const Sgd&, Stream&);
  void (*adamw_bf16)(const AdamWBf16&, Stream&);
  void (*sgd_bf16)(const SgdBf16&, Stream&);

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
