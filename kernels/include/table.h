// The kernel table: the functions of a backend. Each CPU level and CUDA fill one; nn, optim and train call
// kernels only through it. No function reports errors: callers must pass valid arguments, as each op's header
// states. Zero-sized calls do nothing.
#pragma once

#include "kernels/include/activation.h"
#include "kernels/include/attention.h"
#include "kernels/include/attention_sinks.h"
#include "kernels/include/block_records.h"
#include "kernels/include/cross_entropy.h"
#include "kernels/include/embedding.h"
#include "kernels/include/expert_activation.h"
#include "kernels/include/expert_bias.h"
#include "kernels/include/fp8_records.h"
#include "kernels/include/fp8_round.h"
#include "kernels/include/grouped_matmul.h"
#include "kernels/include/latent_keys.h"
#include "kernels/include/magnitude.h"
#include "kernels/include/matmul.h"
#include "kernels/include/muon.h"
#include "kernels/include/nf4.h"
#include "kernels/include/norm.h"
#include "kernels/include/optimizer.h"
#include "kernels/include/ordered_sum.h"
#include "kernels/include/reduce.h"
#include "kernels/include/residual.h"
#include "kernels/include/rope.h"
#include "kernels/include/routed_rows.h"
#include "kernels/include/router.h"

namespace hawser::kernels {

// Every computing kernel: its name and its arguments. All lists of kernels are generated from this one: the
// table, each backend's declarations and entries, visitors of the table, costs, and the check that op cases
// are complete.
#define HWS_EACH_KERNEL(KERNEL) \
  HWS_EACH_LEVEL_KERNEL(KERNEL) \
  HWS_EACH_BASELINE_KERNEL(KERNEL)
// Kernels that GPUs have as well.
#define HWS_EACH_SHARED_KERNEL(KERNEL) \
  HWS_EACH_SHARED_LEVEL_KERNEL(KERNEL) \
  HWS_EACH_BASELINE_KERNEL(KERNEL)
// Kernels that only the CPU has; null in other tables.
#define HWS_EACH_CPU_KERNEL(KERNEL)      \
  KERNEL(adamw8, AdamW8)                 \
  KERNEL(expert_bias, ExpertBias)        \
  KERNEL(expert_bias_sum, ExpertBiasSum) \
  KERNEL(spread_weights, SpreadWeights)  \
  KERNEL(add_chosen, AddChosen)

// Kernels that profit from the vectors of a CPU level.
#define HWS_EACH_LEVEL_KERNEL(KERNEL)  \
  HWS_EACH_SHARED_LEVEL_KERNEL(KERNEL) \
  HWS_EACH_CPU_KERNEL(KERNEL)
#define HWS_EACH_SHARED_LEVEL_KERNEL(KERNEL)                 \
  KERNEL(matmul, Matmul)                                     \
  KERNEL(embedding_forward, EmbeddingForward)                \
  KERNEL(embedding_backward, EmbeddingBackward)              \
  KERNEL(norm_forward, NormForward)                          \
  KERNEL(norm_backward, NormBackward)                        \
  KERNEL(activation_forward, ActivationForward)              \
  KERNEL(activation_backward, ActivationBackward)            \
  KERNEL(rope, Rope)                                         \
  KERNEL(residual_forward, ResidualForward)                  \
  KERNEL(residual_backward, ResidualBackward)                \
  KERNEL(attention_forward, AttentionForward)                \
  KERNEL(attention_backward, AttentionBackward)              \
  KERNEL(cross_entropy, CrossEntropy)                        \
  KERNEL(cross_entropy_statistics, CrossEntropyStatistics)   \
  KERNEL(cross_entropy_divided, CrossEntropyDivided)         \
  KERNEL(soft_cap, SoftCap)                                  \
  KERNEL(column_sum, ColumnSum)                              \
  KERNEL(sum_of_squares, SumOfSquares)                       \
  KERNEL(add, Add)                                           \
  KERNEL(convert, Convert)                                   \
  KERNEL(ordered_sum, OrderedSum)                            \
  KERNEL(block_encode, BlockEncode)                          \
  KERNEL(block_decode, BlockDecode)                          \
  KERNEL(fp8_encode, Fp8Encode)                              \
  KERNEL(fp8_decode, Fp8Decode)                              \
  KERNEL(fp8_maximum, Fp8Maximum)                            \
  KERNEL(fp8_round, Fp8Round)                                \
  KERNEL(adamw, AdamW)                                       \
  KERNEL(sgd, Sgd)                                           \
  KERNEL(lion, Lion)                                         \
  KERNEL(adamw_bf16, AdamWBf16)                              \
  KERNEL(sgd_bf16, SgdBf16)                                  \
  KERNEL(lion_bf16, LionBf16)                                \
  KERNEL(muon_momentum, MuonMomentum)                        \
  KERNEL(axpby, Axpby)                                       \
  KERNEL(muon_update, MuonUpdate)                            \
  KERNEL(grouped_matmul, GroupedMatmul)                      \
  KERNEL(expert_activation_forward, ExpertActivationForward) \
  KERNEL(expert_activation_backward, ExpertActivationBackward)

// Kernels that wait for memory or have little to do: the CPU has one version of them for all levels.
#define HWS_EACH_BASELINE_KERNEL(KERNEL)           \
  KERNEL(router_forward, RouterForward)            \
  KERNEL(router_statistics, RouterStatistics)      \
  KERNEL(router_tally, RouterTally)                \
  KERNEL(router_backward, RouterBackward)          \
  KERNEL(router_balance, RouterBalance)            \
  KERNEL(group_rows, GroupRows)                    \
  KERNEL(gather_rows, GatherRows)                  \
  KERNEL(combine_rows, CombineRows)                \
  KERNEL(sink_forward, SinkForward)                \
  KERNEL(sink_backward, SinkBackward)              \
  KERNEL(latent_keys, LatentKeys)                  \
  KERNEL(latent_keys_backward, LatentKeysBackward) \
  KERNEL(nf4_decode, Nf4Decode)                    \
  KERNEL(row_squares, RowSquares)                  \
  KERNEL(scale_columns, ScaleColumns)              \
  KERNEL(column_dot, ColumnDot)

/// Preferences of a backend, for callers that have a choice.
struct Suited {
  /// Under precision bf16, logits and their gradient are best stored as bf16; else as f32.
  bool narrow_logits;
  /// Products can fuse the following operation (Matmul::epilogue, aux, bias_gradient). Otherwise callers
  /// leave these fields unset and call separate kernels.
  bool epilogues;
  /// Products can round their operands to fp8 (Matmul::a_fp8). Otherwise callers round them (fp8_round.h).
  bool fp8_products;
  /// Under precision bf16, a branch of a block best writes its output, and the gradient of its input, as
  /// bf16; else as f32.
  bool narrow_branches;
  /// norm_backward can also write dx rounded to bf16 (NormBackward::rounded).
  bool rounded_gradients;
  /// True if a block should leave its last residual sum to the norm that reads the sum, in the block above or
  /// in the head (NormForward::residual), because memory is slow compared with arithmetic.
  bool defers_sums;
  /// The maximum bytes, and rows, of logits to compute at a time.
  int64_t logit_bytes, logit_rows;
};

struct KernelTable {
  const char* name;  ///< a name of levels.h, such as "x86-64-v3"

#define HWS_MEMBER(name, Args) void (*name)(const Args&, Stream&);
  HWS_EACH_KERNEL(HWS_MEMBER)
#undef HWS_MEMBER

  // Prepares what a backend needs once per shape (descriptors, plans, a choice of algorithm), so that the
  // call itself prepares nothing. Null if there is nothing to prepare. Arguments are as in the call,
  // including alignment. Values are ignored; memory of outputs, inputs and workspace may be overwritten.
  void (*prepare_matmul)(const Matmul&, Stream&) = nullptr;
  void (*prepare_attention_forward)(const AttentionForward&, Stream&) = nullptr;
  void (*prepare_attention_backward)(const AttentionBackward&, Stream&) = nullptr;

  // Return the bytes of `workspace` for these arguments on a stream with num_workers workers. They are pure
  // functions. Of a pointer, only whether it is null matters; accumulation does not change the result.
  int64_t (*matmul_workspace_bytes)(const Matmul&, int32_t num_workers);
  int64_t (*norm_backward_workspace_bytes)(const NormBackward&, int32_t num_workers);
  int64_t (*attention_forward_workspace_bytes)(const AttentionForward&, int32_t num_workers);
  int64_t (*attention_backward_workspace_bytes)(const AttentionBackward&, int32_t num_workers);
  int64_t (*column_sum_workspace_bytes)(const ColumnSum&, int32_t num_workers);
  int64_t (*embedding_backward_workspace_bytes)(const EmbeddingBackward&, int32_t num_workers);
  int64_t (*grouped_matmul_workspace_bytes)(const GroupedMatmul&, int32_t num_workers);

  /// Returns how products of values of a type sum k of them. Null if the order of these sums is not known;
  /// parts of k may then end anywhere, and their sum has other bits than one product.
  SumBlocks (*matmul_sum_blocks)(DType, int64_t k) = nullptr;

  const Suited* suited;
};

}  // namespace hawser::kernels
