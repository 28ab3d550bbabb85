// LookupGradient: what look-ups add to the gradient of a tied embedding, apart from what the head adds. The
// head's product writes every row of the table; look-ups touch as many rows as there are different tokens. So
// only those rows stand here, in order of first occurrence, until they are added to the head's.
#pragma once

#include <cstdint>

#include "engine/nn/region.h"

namespace hawser::nn {

/// A view of zeroed memory that keeps its contents between calls: the host's, where rows are looked up, and
/// the device's, which holds them (on the CPU one and the same). Rows are f32 of `width` elements.
class LookupGradient {
 public:
  /// Of one step or micro-batch.
  struct Sizes {
    int64_t vocab = 0, width = 0;
    int64_t tokens = 0;  ///< most tokens between clear() and the joining
    int64_t batch = 0;   ///< most tokens of one call of find_rows
    int64_t rows() const { return tokens < vocab ? tokens : vocab; }
  };
  static int64_t bytes(const Sizes& sizes);       ///< on the device
  static int64_t host_bytes(const Sizes& sizes);  ///< on a host that cannot reach the device's
  LookupGradient() = default;
  LookupGradient(void* host, void* device, const Sizes& sizes);

  /// Forgets all rows.
  void clear();
  /// Gives each of `count` tokens in [0, vocab) a row; host_index() then names the rows. `skipped` (a padding
  /// token, or -1) gets none: -1. Returns how many rows are new: the last ones, which the caller makes zero.
  int64_t find_rows(const int32_t* tokens, int64_t count, int32_t skipped);
  int64_t count() const { return *host_.count; }
  const int32_t* host_index() const { return host_.index; }    ///< of the last find_rows
  const int32_t* host_tokens() const { return host_.tokens; }  ///< [count()]: whose row it is

  // On the device; index and tokens are as of the caller's last copy.
  float* rows() const { return rows_; }  ///< [count(), width]
  int32_t* index() const { return device_.index; }
  int32_t* tokens() const { return device_.tokens; }
  const Sizes& sizes() const { return sizes_; }

 private:
  struct Numbers {
    int32_t* tokens = nullptr;
    int32_t* index = nullptr;
    int32_t* count = nullptr;   // used on the host alone, like row_of
    int32_t* row_of = nullptr;  // by token: its row + 1, or 0
    Numbers() = default;
    Numbers(Region* region, const Sizes& sizes);
  };

  Sizes sizes_;
  Numbers host_, device_;
  float* rows_ = nullptr;
};

}  // namespace hawser::nn
