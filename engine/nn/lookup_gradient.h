// LookupGradient: the part of a tied embedding's gradient that comes from look-ups; the other part comes
// from the head. The head's product writes every row of the table, look-ups only those of the tokens that
// occur. So this keeps only those rows, in order of first occurrence, until they are added to the head's
// part.
//
// The host knows the tokens and finds the rows of a whole step beforehand. The work of the device is then
// the same in every step, whatever the tokens are, so it can be captured: unused rows are zero and belong to
// no token.
#pragma once

#include <cstdint>

#include "engine/nn/region.h"

namespace hawser::nn {

/// A view of zeroed memory that keeps its contents between calls: the host's, where rows are looked up, and
/// the device's, which holds them (on the CPU one and the same). Rows are f32 of `width` elements.
class LookupGradient {
 public:
  /// Of one step.
  struct Sizes {
    int64_t vocab = 0, width = 0;
    int64_t batch = 0;  ///< most tokens of a micro-batch
    int64_t micro_batches = 1;
    bool joins_each = false;  ///< the rows are joined, and begin anew, after every micro-batch
    int64_t rows() const;     ///< most that stand together
    int64_t joinings() const { return joins_each ? micro_batches : 1; }
  };
  static int64_t bytes(const Sizes& sizes);       ///< on the device
  static int64_t host_bytes(const Sizes& sizes);  ///< on a host that cannot reach the device's
  LookupGradient() = default;
  LookupGradient(void* host, void* device, const Sizes& sizes);

  /// Gives each of `count` tokens in [0, vocab) of a micro-batch a row; micro-batches in order, from 0, which
  /// begins a step. `skipped` (a padding token, or -1) gets none: -1.
  void look_up(int32_t micro_batch, const int32_t* tokens, int64_t count, int32_t skipped);

  // What look_up found, as one block of the host's memory, which the caller copies to the device.

  const void* host_numbers() const { return host_.tokens; }
  void* numbers() const { return device_.tokens; }
  int64_t numbers_bytes() const;

  // On the device.

  float* rows() const { return rows_; }  ///< [sizes().rows(), width]
  /// By token of the micro-batch: its row, or -1.
  int32_t* index(int32_t micro_batch) const { return device_.index + micro_batch * sizes_.batch; }
  /// [sizes().rows()]: whose row it is once the micro-batch is done, or -1: no one's.
  int32_t* tokens(int32_t micro_batch) const { return device_.tokens + tokens_at(micro_batch); }
  const Sizes& sizes() const { return sizes_; }

 private:
  struct Numbers {
    int32_t* tokens = nullptr;  // by joining
    int32_t* index = nullptr;   // by micro-batch
    int32_t* row_of = nullptr;  // used on the host alone; by token: its row + 1, or 0
    Numbers() = default;
    Numbers(Region* region, const Sizes& sizes);
  };
  int64_t tokens_at(int32_t micro_batch) const { return sizes_.joins_each ? micro_batch * sizes_.rows() : 0; }
  void forget();

  Sizes sizes_;
  Numbers host_, device_;
  float* rows_ = nullptr;
  int32_t* taken_ = nullptr;  // the host's tokens of the rows that stand together now
  int64_t count_ = 0;         // of them
};

}  // namespace hawser::nn
