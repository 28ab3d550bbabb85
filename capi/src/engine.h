// Engine: a trainer behind a handle, with the host program's metrics callback and data source.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "capi/include/hawser.h"
#include "capi/src/callback.h"
#include "capi/src/handle_table.h"
#include "capi/src/structs.h"
#include "engine/run/trainer.h"

namespace hawser::capi {

/// The metrics callback and its user data.
struct Metrics {
  hws_metrics_fn fn;
  UserData user;
};

/// The data source and its user data.
struct Source {
  hws_source_fn fn;
  UserData user;
};

class Engine : public Object {
 public:
  static constexpr HandleType kType = HandleType::kEngine;
  Engine(Slot* s, std::unique_ptr<train::Trainer> t) : slot(s), trainer(std::move(t)) {}

  Slot* const slot;
  std::shared_ptr<Metrics> metrics;  ///< outlives the trainer, which calls it
  std::shared_ptr<Source> source;    ///< outlives the trainer, which calls it
  std::unique_ptr<train::Trainer> trainer;

  /// Runs a call that every process of a world makes. A process that runs out of memory aborts it on the
  /// other processes.
  template <typename Fn>
  auto together(Fn&& fn) {
    try {
      return fn(*trainer);
    } catch (const std::bad_alloc&) {
      trainer->abort_out_of_memory();
      throw;
    }
  }
};

/// Copies the fields that hws_step_result and hws_train_record share; they have the same names and types in
/// both.
template <typename Host>
void copy_step(const train::StepResult& from, Host* to) {
  to->outcome = static_cast<int32_t>(from.outcome);
  to->step = from.step;
  to->loss = from.loss;
  to->grad_norm = from.grad_norm;
  to->learning_rate = from.learning_rate;
  to->tokens = from.tokens;
  to->samples = from.samples;
  to->skipped = from.skipped;
  to->seconds = from.seconds;
}

/// Returns the host program's batch in the trainer's form, after all checks that need no model. Throws.
train::BatchView batch_view(const Call& call, const hws_batch* batch, bool needs_targets);

// Sizes of the structs in the first version of the ABI. A smaller struct_size is an error.
inline constexpr uint32_t kStepResultSize = 72;
inline constexpr uint32_t kTrainRecordSize = 112;
inline constexpr uint32_t kSizesSize = 32;
inline constexpr uint32_t kProgressSize = 144;
inline constexpr uint32_t kBatchSize = 24 + 3 * sizeof(void*);
inline constexpr uint32_t kGenerateRequestSize = sizeof(void*) == 8 ? 64 : 56;

}  // namespace hawser::capi
