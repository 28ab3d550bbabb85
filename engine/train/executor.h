// Executor: runs a plan's instructions over the arena: one switch. It decides nothing; the plan did.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/device/arena.h"
#include "engine/nn/model.h"
#include "engine/optim/optimizer.h"
#include "engine/plan/plan.h"

namespace hawser::train {

/// One micro-batch in its staging slot; arrays as nn::Context names them.
struct MicroBatch {
  int64_t batch = 0, seq = 0;
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;
  int32_t* positions = nullptr;
  int32_t* kv_begin = nullptr;
  uint64_t* samples = nullptr;
  /// Bytes of the slot for [batch, seq].
  static int64_t bytes(int64_t batch, int64_t seq);
  static MicroBatch in_slot(char* slot, int64_t batch, int64_t seq);
};

/// Fills micro-batches. Allocates nothing.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual void load(int32_t micro_batch, const MicroBatch& out) = 0;
};

/// What changes from step to step and is read by kernels.
struct StepScalars {
  kernels::OptimizerScalars optimizer;
  float grad_scale = 0;  ///< 1 / unmasked targets of the global batch
};

/// The long-lived buffers in the arena. master is the weights themselves in fp32.
struct StateBuffers {
  char* weights = nullptr;
  float* master = nullptr;
  float* gradients = nullptr;
  float* head_gradient = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  float* rope_table = nullptr;
  StepScalars* scalars = nullptr;
  double* partials = nullptr;
};

/// One execution: what goes in beside the plan, and what comes out.
struct Run {
  BatchSource* source = nullptr;
  int64_t batch = 0, seq = 0;  ///< of each micro-batch; at most the planned sizes
  bool training = false;
  bool documents = false;   ///< kv_begin matters
  float* logits = nullptr;  ///< kLogits: where they go; in generation those of the last row only
  int64_t cached = -1;      ///< generation: positions in the caches already; -1: no caches
  // Results.
  int64_t tokens = 0;  ///< unmasked targets
  double loss_sum = 0;
  double grad_norm = 0;
};

class Executor {
 public:
  struct Setup {
    const nn::Model* model = nullptr;
    const optim::Optimizer* optimizer = nullptr;  ///< null for inference
    const kernels::KernelTable* kernels = nullptr;
    Stream* stream = nullptr;
    std::shared_ptr<device::Arena> arena;
    DType type = DType::kF32;
    uint64_t seed = 0;
  };
  /// All plans run here share their persistent slots with `plan`.
  Executor(Setup setup, const plan::Plan& plan);

  /// Runs instructions [begin, end). Allocates nothing.
  void run(const plan::Plan& plan, size_t begin, size_t end, Run* run);

  const StateBuffers& state() const { return state_; }
  /// End of the highest slot ever live, and live bytes by category when they were most: equal to the plan's.
  int64_t high_water() const { return high_water_; }
  const plan::MemoryByCategory& live_at_peak() const { return live_at_peak_; }

 private:
  void execute(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  void forward(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx,
               const Run& run);
  void backward(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx);
  void loss(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx, Run* run);
  void logits(const plan::Plan& plan, const plan::Instruction& instruction, const nn::Context& ctx,
              const Run& run);
  void count_tokens(const plan::Plan& plan, const plan::Instruction& instruction, Run* run);
  nn::Context context(const plan::Plan& plan, const plan::Instruction& instruction, const Run& run,
                      nn::Region* workspace);
  char* at(const plan::Plan& plan, plan::SlotId slot) const;
  template <typename T>
  T* as(const plan::Plan& plan, plan::SlotId slot) const {
    return reinterpret_cast<T*>(at(plan, slot));
  }
  void acquire(const plan::Slot& slot);
  void release(const plan::Slot& slot);

  Setup s_;
  StateBuffers state_;
  plan::MemoryByCategory live_{}, live_at_peak_{};
  int64_t live_bytes_ = 0, most_live_ = 0, high_water_ = 0;
};

}  // namespace hawser::train
