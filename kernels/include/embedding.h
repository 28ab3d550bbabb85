// Embedding of tokens and of learned positions, and its gradient.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// x[r,:] = scale * tokens_weight[tokens[r],:] + positions_weight[positions[r],:], computed in f32 and stored
/// in x_type (f32 or bf16). Weights are [vocab,d] and [max_positions,d] of weight_type; positions_weight may
/// be null. tokens, positions: int32 [rows], in range (checked at intake). The table may hold only `words`
/// rows of the vocabulary from id `first_word` on; other tokens count as zero.
struct EmbeddingForward {
  void* x = nullptr;
  const void* tokens_weight = nullptr;
  const void* positions_weight = nullptr;
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  DType x_type = DType::kF32, weight_type = DType::kF32;
  int64_t rows = 0, d = 0;
  float scale = 1.0f;
  int64_t first_word = 0;
  int64_t words = INT64_MAX;
};

/// dweight[index[r],:] (+)= scale * dx[r,:], with rows added in ascending r, so the bits do not depend on the
/// thread count. dweight: f32 [table_rows,d], overwritten (zero for rows without an index) unless accumulate.
/// Its first row has index `first`; rows of dx with an index outside of the table add nothing. Used for both
/// tokens and positions.
struct EmbeddingBackward {
  float* dweight = nullptr;
  const float* dx = nullptr;
  const int32_t* index = nullptr;
  int64_t rows = 0, d = 0, table_rows = 0;
  int32_t skip = -1;  ///< rows with this index add nothing (a padding token)
  float scale = 1.0f;
  bool accumulate = false;
  int64_t first = 0;
  bool distinct = false;      ///< no index in the table occurs twice
  void* workspace = nullptr;  ///< embedding_backward_workspace_bytes(args)
};

}  // namespace hawser::kernels
