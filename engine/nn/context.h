// Context: the inputs and resources of one call of a module. Shapes: B = batch rows, T = positions, C =
// width, H = heads, K = kv_heads, D = head_dim, F = mlp_width, V = vocabulary (in attention, the size of a
// head's values). A token row is the activations of one (b, t); modules call it a row for short.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/nn/column_exchange.h"
#include "engine/nn/exchange.h"
#include "engine/nn/fp8_operands.h"
#include "engine/nn/moe/expert_exchange.h"
#include "engine/nn/parameter.h"
#include "engine/nn/recompute_set.h"
#include "engine/nn/region.h"
#include "kernels/include/table.h"

namespace hawser::nn {

class TiledSums;

/// The memory of a ParameterGroup during one call: its weights (in the compute type if matrix products read
/// them, otherwise in the look-up type) and its gradients (null if frozen or not wanted).
struct GroupPointers {
  const char* weights = nullptr;
  void* gradients = nullptr;
  const float* scales = nullptr;      ///< scales of weights in NF4 (nn/nf4.h)
  DType gradient_type = DType::kF32;  ///< narrower only for a block whose kernels write rounded gradients
};

/// Where a backward writes the gradient of a parameter.
struct GradientPlace {
  void* data = nullptr;  ///< null if the parameter is absent or has no gradient
  DType type = DType::kF32;
};

/// What the depths of multi-token prediction read in LOSS (nn/ahead_loss.h): [depths, B, T] each, at position
/// t of depth d, counted from 1, what the row has at position t + d.
struct AheadInputs {
  int64_t depths = 0;
  const int32_t* tokens_DBT = nullptr;   ///< -1 beyond the document
  const int32_t* targets_DBT = nullptr;  ///< -100 beyond the document
  const float* weights_DBT = nullptr;    ///< loss weights of the targets; null: all 1
  const float* grad_scales = nullptr;    ///< factor of the gradients of each depth
  const float* share = nullptr;          ///< of each depth in the loss, times the loss scale
  const float* cos_sin = nullptr;        ///< rotary angles of their blocks
};

/// Data types of weights, by how they are read, and whether products round them further; and of the residual
/// stream.
struct WeightTypes {
  DType product = DType::kF32, lookup = DType::kF32;
  Fp8Operands fp8;
  DType residual = DType::kF32;
  WeightTypes(DType product_, DType lookup_ = DType::kF32, Fp8Operands fp8_ = {},
              DType residual_ = DType::kF32)
      : product(product_), lookup(lookup_), fp8(fp8_), residual(residual_) {}
};

struct Context {
  const kernels::KernelTable* kernels = nullptr;
  Stream* stream = nullptr;
  Region* workspace = nullptr;
  const Exchange* exchange = &kAlone;
  const ColumnExchange* columns = &kAllColumns;
  const ExpertExchange* experts = &kAllExperts;
  int64_t expert_call = 0;  ///< number of the call within `experts` (ExpertCalls)

  int64_t batch = 0, seq = 0;  ///< seq: local columns of each row
  // Set for a branch that works on the local rows of the residual stream (nn/feed_forward.h): the first row,
  // the number of rows, and the exchange with the ranks that have the other rows.
  int64_t first_row = 0, only_rows = -1;  ///< -1: all rows
  const Exchange* row_peers = &kAlone;
  int64_t rows() const { return only_rows < 0 ? batch * seq : only_rows; }
  LocalRows own_rows() const { return exchange->own_rows(rows()); }  ///< rows of the residual stream

  // Inputs of the micro-batch, [B, T] each; kv_begin is null if every row is one document.
  const int32_t* tokens_BT = nullptr;
  const int32_t* targets_BT = nullptr;
  const float* weights_BT = nullptr;  ///< loss weights of the targets; null: all 1
  kernels::Teacher teacher;           ///< of the targets in training; without ids if there is none
  AheadInputs ahead;                  ///< in LOSS
  const int32_t* positions_BT = nullptr;
  const int32_t* kv_begin_BT = nullptr;
  int64_t documents = 0;  ///< documents in the micro-batch, if kv_begin is not null
  const int32_t* row_begins =
      nullptr;  ///< kv_begin of all columns of the rows, with padding; null if kv_begin is null
  const uint64_t* samples_B = nullptr;  ///< global sample numbers (dropout)

  /// Data type of weights and inputs of matrix products (which sum in fp32), and of the activations that
  /// branches store between products. Norms and residual sums compute in f32.
  DType type = DType::kF32;
  DType residual_type =
      DType::kF32;  ///< type of the stored residual stream, f32 or bf16; its gradient is f32
  Fp8Operands fp8;  ///< rounding of the blocks' operands under precision fp8; type is then bf16
  DType lookup_type = DType::kF32;  ///< type of looked-up weights, norms and biases: f32 or bf16
  /// Indexed by ParameterGroup; only the parameter groups that the call needs are set.
  const GroupPointers* groups = nullptr;
  bool accumulate = false;           ///< add to gradients (in micro-batches after the first)
  const TiledSums* tiled = nullptr;  ///< set in the backward of a tile: the sums to which the tile adds
  bool training = false;             ///< dropout is on
  RecomputeSet remakes;              ///< activations that blocks recompute
  CompressSet compress;              ///< saved activations that blocks keep as records of fp8
  /// Counts of routers (nn/moe/balance.h), one layer after the other. If null, routers do not count, as in a
  /// recomputed forward.
  int64_t* tallies = nullptr;
  /// The largest attention score of each head so far, layer by layer; a training forward updates it
  /// (optim/score_clip.h). If null, scores are not recorded, as in a recomputed forward. Each layer has
  /// entries for the heads of all tensor-parallel ranks, including padding.
  float* head_scores = nullptr;
  int64_t step_rows = 1;  ///< rows of the step, on all ranks: the losses of routers are means over them
  /// The factor of all gradients of a step, which the losses of routers apply to theirs; null: 1.
  const float* loss_scale = nullptr;
  uint64_t seed = 0;

  DType weight_type(Place p) const {
    if (p.read == Read::kNf4) return DType::kNf4;
    if (p.read == Read::kInt8) return DType::kI8Block;
    return p.read == Read::kExact ? DType::kF32 : p.read == Read::kLookup ? lookup_type : type;
  }
  const char* weight(Place p) const {
    return groups[p.group].weights + dtype_bytes(weight_type(p), p.offset);
  }
  /// Decodes a weight in records to y[elements] of the activation type.
  void decode(void* y, Place p, int64_t elements) const {
    if (p.read == Read::kInt8)
      return kernels->block_decode({y, type, weight(p), DType::kI8Block, elements}, *stream);
    kernels->nf4_decode({y, type, weight(p), groups[p.group].scales + p.scales, elements}, *stream);
  }
  /// Returns the weights of a norm, bias or table, in lookup_type; null if the parameter is absent.
  const void* lookup(Place p) const { return p ? weight(p) : nullptr; }
  /// Returns the same weights as f32 [elements], converted into the workspace if needed.
  const float* lookup_f32(Place p, int64_t elements) const {
    if (!p || lookup_type == DType::kF32) return static_cast<const float*>(lookup(p));
    auto* const wide = workspace->take_as<float>(elements);
    kernels->convert({wide, weight(p), DType::kF32, lookup_type, elements}, *stream);
    return wide;
  }
  GradientPlace gradient_place(Place p) const {
    if (!p || groups[p.group].gradients == nullptr) return {};
    const GroupPointers& group = groups[p.group];
    return {static_cast<char*>(group.gradients) + dtype_bytes(group.gradient_type, p.offset),
            group.gradient_type};
  }
  /// Returns the place of an f32 gradient; null if the parameter is absent or has no gradient.
  float* gradient(Place p) const {
    const GradientPlace place = gradient_place(p);
    HWS_CHECK(place.type == DType::kF32);
    return static_cast<float*>(place.data);
  }
  /// Returns f32 memory for the gradient of a kernel that sums in f32: the gradient itself, or workspace,
  /// from which `round_gradient` rounds it. Null if the parameter is absent or has no gradient.
  float* summed_gradient(Place p, int64_t elements) const {
    const GradientPlace place = gradient_place(p);
    if (place.type == DType::kF32) return static_cast<float*>(place.data);
    return workspace->take_as<float>(elements);
  }
  void round_gradient(Place p, const float* sums, int64_t elements) const {
    const GradientPlace place = gradient_place(p);
    if (place.type != DType::kF32)
      kernels->convert({place.data, sums, place.type, DType::kF32, elements}, *stream);
  }

  kernels::Dropout dropout(double p, int64_t layer, int64_t site) const {
    if (!training || p <= 0) return {};
    kernels::Dropout d;
    d.p = static_cast<float>(p);
    d.key = philox_derive(seed, static_cast<uint64_t>(layer), static_cast<uint64_t>(site));
    d.samples = samples_B;
    d.first_row = own_rows().first;
    const LocalColumns& own = columns->own();
    if (own.ranks == 1) return d;
    d.chunk = this->seq / 2;
    d.low = own.begin(own.rank, 0, this->seq), d.high = own.begin(own.rank, 1, this->seq);
    return d;
  }
  /// Returns this context for `count` of its rows, from row `begin` on.
  Context of_rows(int64_t begin, int64_t count) const {
    Context part = *this;
    part.first_row += begin, part.only_rows = count;
    return part;
  }
  /// Runs the product m with workspace for its duration.
  void matmul(kernels::Matmul m) const {
    m.round_to = type;
    RegionScope scope(*workspace);
    m.workspace = workspace->take(matmul_workspace_bytes(m));
    kernels->matmul(m, *stream);
  }
  int64_t matmul_workspace_bytes(const kernels::Matmul& m) const;
  /// Returns the type of a branch's output, or of the gradient of its input, if one product writes it. If
  /// several ranks compute a branch together, they add their parts, which stay f32.
  DType branch_type() const {
    return kernels->suited->narrow_branches && exchange->ranks() == 1 ? type : DType::kF32;
  }
  /// If `to` has a gradient, compute it by a product or a sum over rows, or add to it.
  void sum_rows(kernels::Matmul m, Place to) const;
  void sum_rows(kernels::ColumnSum s, Place to) const;
  /// Runs attention with workspace for its duration.
  void attend(kernels::AttentionForward a) const {
    RegionScope scope(*workspace);
    a.workspace = workspace->take(kernels->attention_forward_workspace_bytes(a, stream->num_workers));
    kernels->attention_forward(a, *stream);
  }
  void attend(kernels::AttentionBackward a) const {
    RegionScope scope(*workspace);
    a.workspace = workspace->take(kernels->attention_backward_workspace_bytes(a, stream->num_workers));
    kernels->attention_backward(a, *stream);
  }
  /// Takes scratch memory for `elements` of `type` from the workspace.
  void* take(int64_t elements) const { return workspace->take(elements * dtype_bytes(type)); }
};

/// The sites at which dropout is applied. The numbers are part of the random key, so they must never change.
enum DropoutSite : int64_t { kSiteEmbedding = 0, kSiteAttention = 1, kSiteAttentionOut = 2, kSiteMlpOut = 3 };

/// Returns p + elements, for pointers whose element type is known only at run time.
inline void* advance(void* p, int64_t elements, DType type) {
  return static_cast<char*>(p) + elements * dtype_bytes(type);
}
inline const void* advance(const void* p, int64_t elements, DType type) {
  return static_cast<const char*>(p) + elements * dtype_bytes(type);
}

}  // namespace hawser::nn
