// StepMirror: the host's copy of what an executor sends to and fetches from its device in a step. If the host
// accesses device memory in place, the copy is the arena's slots themselves. Otherwise it is pinned memory
// with a place for every micro-batch, so that the host need not wait for the device between micro-batches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/execute/step_values.h"

namespace hawser::train {

class StepMirror {
 public:
  /// Returns the bytes of pinned memory for `micro_batches` of `batch` rows of `columns` and for the host's
  /// copies of a LookupGradient and of Fp8Maxima. `noted`: noted_words.
  static int64_t bytes(int64_t micro_batches, int64_t batch, int64_t columns, const MicroBatchForm& form,
                       int64_t lookup_gradient, int64_t noted, int64_t fp8_maxima);

  /// Makes a mirror for a device whose memory the host accesses in place.
  StepMirror() = default;
  /// `memory` has bytes(...) bytes and must outlive this object.
  StepMirror(char* memory, int64_t micro_batches, int64_t batch, int64_t columns, const MicroBatchForm& form,
             int64_t noted, int64_t fp8_maxima);

  // Each function takes the device's pointer and returns the host's.

  char* micro_batch(int32_t number, char* slot) const { return place(inputs_, number, input_bytes_, slot); }
  float* losses(int32_t number, float* slot) const {
    return reinterpret_cast<float*>(place(losses_, number, loss_bytes_, reinterpret_cast<char*>(slot)));
  }
  StepScalars* scalars(StepScalars* slot) const { return scalars_ ? scalars_ : slot; }
  StepSums* sums(StepSums* slot) const { return sums_ ? sums_ : slot; }
  float* fp8_maxima(float* slot) const { return fp8_maxima_ ? fp8_maxima_ : slot; }
  char* lookup_gradient(char* slot) const { return lookup_gradient_ ? lookup_gradient_ : slot; }

 private:
  static char* place(char* array, int32_t number, int64_t bytes, char* slot) {
    return array ? array + std::max(number, 0) * bytes : slot;
  }

  int64_t input_bytes_ = 0, loss_bytes_ = 0;
  char* inputs_ = nullptr;
  char* losses_ = nullptr;
  StepScalars* scalars_ = nullptr;
  StepSums* sums_ = nullptr;
  float* fp8_maxima_ = nullptr;
  char* lookup_gradient_ = nullptr;
};

}  // namespace hawser::train
