// ActionList: builds the action list of a rank with two model chunks. Each call appends the next micro-batch
// of a chunk.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/plan/stage.h"

namespace hawser::parallel::pipeline {

class ActionList {
 public:
  explicit ActionList(int64_t micro_batches) : micro_batches_(micro_batches) {}

  // Each of these appends the next micro-batch of the chunk.

  void forward(int32_t chunk) { add(plan::Part::kForward, chunk); }
  void input(int32_t chunk) { add(plan::Part::kBackwardInput, chunk); }
  void weight(int32_t chunk) { add(plan::Part::kBackwardWeight, chunk); }
  /// Appends a forward of one chunk that overlaps with an input pass of the other, block by block.
  void pair(int32_t forward_of, int32_t input_of) {
    forward(forward_of);
    actions_.back().overlaps_next = true;
    input(input_of);
  }

  int64_t forwards(int32_t chunk) const { return next(plan::Part::kForward, chunk); }
  int64_t inputs(int32_t chunk) const { return next(plan::Part::kBackwardInput, chunk); }
  int64_t weights(int32_t chunk) const { return next(plan::Part::kBackwardWeight, chunk); }
  std::vector<plan::Action> take() { return std::move(actions_); }

 private:
  int32_t& next(plan::Part part, int32_t chunk) {
    return next_[static_cast<size_t>(part)][static_cast<size_t>(chunk)];
  }
  int32_t next(plan::Part part, int32_t chunk) const {
    return next_[static_cast<size_t>(part)][static_cast<size_t>(chunk)];
  }
  void add(plan::Part part, int32_t chunk) {
    HWS_CHECK(next(part, chunk) < micro_batches_);
    actions_.push_back({part, chunk, next(part, chunk)++});
  }

  const int64_t micro_batches_;
  std::vector<plan::Action> actions_;
  std::array<std::array<int32_t, 2>, 4> next_{};  // indexed by part and chunk
};

}  // namespace hawser::parallel::pipeline
