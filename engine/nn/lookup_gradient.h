// LookupGradient: the part of a tied embedding's gradient that comes from look-ups. The other part comes from
// the head, whose product writes every row of the table. Look-ups touch only the rows of tokens that occur,
// so this class stores only those rows, in order of first occurrence, until they are added to the head's
// part.
//
// The host reads the tokens and assigns the rows of a whole step in advance. The device's work is then the
// same in every step, whatever the tokens are, so it can be captured as a graph. Unused rows are zero and
// belong to no token.
#pragma once

#include <cstdint>

#include "engine/nn/region.h"

namespace hawser::nn {

/// A view of zeroed memory that keeps its contents between calls: the host's part, which assigns rows, and
/// the device's part, which has them (on the CPU both are the same memory). Rows are f32 of `width` elements.
class LookupGradient {
 public:
  /// Sizes for one step.
  struct Sizes {
    int64_t vocab = 0, width = 0;  ///< rows and columns of this rank's table, with padding
    int64_t batch = 0;             ///< most tokens of a micro-batch
    int64_t micro_batches = 1;
    bool joins_each = false;  ///< rows are joined and cleared after every micro-batch
    int64_t rows() const;     ///< most rows in use at a time
    int64_t joinings() const { return joins_each ? micro_batches : 1; }
  };
  static int64_t bytes(const Sizes& sizes);       ///< on the device
  static int64_t host_bytes(const Sizes& sizes);  ///< host memory, if the host cannot access the device's
  LookupGradient() = default;
  /// `first`: token id of the table's first row.
  LookupGradient(void* host, void* device, const Sizes& sizes, int64_t first = 0);

  /// Assigns a row to each of `count` tokens of a micro-batch whose ids are in the table. Call it for
  /// micro-batches in order; number 0 begins a step. Tokens of other ranks' tables, and `skipped` (a padding
  /// token, or -1), get no row: -1.
  void look_up(int32_t micro_batch, const int32_t* tokens, int64_t count, int32_t skipped);

  // The results of look_up, in one block of host memory that the caller copies to the device.

  const void* host_numbers() const { return host_.tokens; }
  void* numbers() const { return device_.tokens; }
  int64_t numbers_bytes() const;

  // The following memory is on the device.

  float* rows() const { return rows_; }  ///< [sizes().rows(), width]
  /// Returns the row of each token of the micro-batch, or -1.
  int32_t* index(int32_t micro_batch) const { return device_.index + micro_batch * sizes_.batch; }
  /// Returns [sizes().rows()]: for each row in use at the end of the micro-batch its row of the table, or -1
  /// if it is unused.
  int32_t* tokens(int32_t micro_batch) const { return device_.tokens + tokens_at(micro_batch); }
  const Sizes& sizes() const { return sizes_; }

 private:
  struct Numbers {
    int32_t* tokens = nullptr;  // indexed by join
    int32_t* index = nullptr;   // by micro-batch
    int32_t* row_of = nullptr;  // host only; for each token id its row + 1, or 0
    Numbers() = default;
    Numbers(Region* region, const Sizes& sizes);
  };
  int64_t tokens_at(int32_t micro_batch) const { return sizes_.joins_each ? micro_batch * sizes_.rows() : 0; }
  void forget();

  Sizes sizes_;
  int64_t first_ = 0;
  Numbers host_, device_;
  float* rows_ = nullptr;
  int32_t* taken_ = nullptr;  // token ids of the rows in use (host)
  int64_t count_ = 0;         // number of rows in use
};

}  // namespace hawser::nn
