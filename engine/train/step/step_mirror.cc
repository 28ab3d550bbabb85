#include "engine/train/step/step_mirror.h"

namespace hawser::train {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

constexpr int64_t kScalarBytes = sizeof(StepScalars), kSumBytes = sizeof(StepSums);

}  // namespace

int64_t MicroBatch::sent_bytes(int64_t batch, int64_t seq, bool weights) {
  return (weights ? 5 : 4) * aligned(batch * seq * 4) + aligned(batch * 8);
}

int64_t MicroBatch::bytes(int64_t batch, int64_t seq) { return sent_bytes(batch, seq, true); }

MicroBatch MicroBatch::in_slot(char* slot, int64_t batch, int64_t seq) {
  const int64_t array = aligned(batch * seq * 4);
  const auto ints = [&](int64_t i) { return reinterpret_cast<int32_t*>(slot + i * array); };
  char* const samples = slot + 4 * array;
  return {batch,
          seq,
          ints(0),
          ints(1),
          ints(2),
          ints(3),
          reinterpret_cast<uint64_t*>(samples),
          reinterpret_cast<float*>(samples + aligned(batch * 8))};
}

int64_t StepMirror::bytes(int64_t micro_batches, int64_t batch, int64_t seq, int64_t lookup_gradient) {
  return micro_batches * (MicroBatch::bytes(batch, seq) + aligned(batch * seq * 4)) + aligned(kScalarBytes) +
         aligned(kSumBytes) + aligned(lookup_gradient);
}

StepMirror::StepMirror(char* memory, int64_t micro_batches, int64_t batch, int64_t seq)
    : input_bytes_(MicroBatch::bytes(batch, seq)), loss_bytes_(aligned(batch * seq * 4)) {
  inputs_ = memory;
  losses_ = inputs_ + micro_batches * input_bytes_;
  char* const scalars = losses_ + micro_batches * loss_bytes_;
  scalars_ = reinterpret_cast<StepScalars*>(scalars);
  sums_ = reinterpret_cast<StepSums*>(scalars + aligned(kScalarBytes));
  lookup_gradient_ = scalars + aligned(kScalarBytes) + aligned(kSumBytes);
}

}  // namespace hawser::train
