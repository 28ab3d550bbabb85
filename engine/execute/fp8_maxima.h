// Fp8Maxima: the largest magnitudes of fp8 operands (nn/fp8_operands.h) in a rank's device memory: those of
// earlier steps, from which products take their scales, and those that the products of this step record.
// Their addresses never change, so graphs that read them stay valid. A step reads back the second once, with
// the gradient norm, and folds those of all ranks.
#pragma once

#include <cstdint>

#include "engine/device/host_link.h"
#include "engine/execute/step_maxima.h"

namespace hawser::train {

class Fp8Maxima {
 public:
  /// Returns the bytes of the slot for `count` operands. `records`: steps record maxima.
  static int64_t bytes(int64_t count, bool records) {
    return count * (records ? 2 : 1) * static_cast<int64_t>(sizeof(float));
  }

  /// No operand has a maximum if `count` is 0. `slot` and `host`: bytes(...) bytes on the device, and their
  /// copy on the host, which is the slot itself if the host works in place.
  Fp8Maxima(device::HostLink* link, int64_t count, bool records, float* slot, float* host,
            comm::ProcessGroup* ranks)
      : link_(link),
        count_(count),
        records_(records && count > 0),
        slot_(slot),
        host_(host),
        all_(records_ ? count : 0, ranks) {}

  /// From the next run on, scales follow from history[count], which must stay where it is.
  void follow(const float* history) { history_ = history; }
  /// Begins a run: sends the maxima of earlier steps to the device if they have changed.
  void send();
  /// Begins a step, which has recorded nothing.
  void clear();
  /// Ends a step's gradient phase: copies to the host what it has recorded. agree() must follow, after a
  /// HostLink::wait.
  void fetch();
  /// Replaces the maxima of this step by those of all ranks.
  void agree();

  /// The maxima of earlier steps, for kernels; null if there are none.
  const float* earlier() const { return history_ != nullptr ? slot_ : nullptr; }
  /// Where kernels record the maxima of this step; null if they do not.
  float* recorded() const { return records_ ? slot_ + count_ : nullptr; }
  /// The maxima of this step, after agree().
  const std::vector<float>& values() const { return all_.values(); }

 private:
  int64_t bytes() const { return count_ * static_cast<int64_t>(sizeof(float)); }

  device::HostLink* link_;
  int64_t count_;
  bool records_, sent_ = false;
  const float* history_ = nullptr;
  float *slot_, *host_;
  StepMaxima all_;
};

}  // namespace hawser::train
