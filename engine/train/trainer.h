// Trainer: the second room of a training step: a step as a transaction. Nothing durable changes before commit.
// It holds what an engine is made of: the ranks, and an object for each other thing that can be asked of it.
//
// Threading: one mutating call at a time (the C API enforces it); `const` members may run beside each other
// but not beside a mutating call unless their object says otherwise.
// With ranks in several processes every call is collective: all make it, with the same arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/config/config_tree.h"
#include "engine/data/dataset.h"
#include "engine/train/assembly/assemble.h"
#include "engine/train/cancel.h"
#include "engine/train/data_fingerprint.h"
#include "engine/train/inference.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"
#include "engine/train/report/metrics.h"
#include "engine/train/report/reports.h"
#include "engine/train/report/traces.h"
#include "engine/train/save/export.h"
#include "engine/train/save/loads.h"
#include "engine/train/save/saves.h"
#include "engine/train/tensors.h"
#include "engine/train/train_loop.h"

namespace hawser::train {

class Trainer {
 public:
  /// `cancel` outlives the trainer; storing true ends train, eval and generate at their next step boundary.
  /// `comm`: the ranks that this process holds; null: one, and a mesh of one.
  static std::unique_ptr<Trainer> create(const config::ConfigTree& config, bool inference,
                                         std::atomic<bool>* cancel,
                                         std::shared_ptr<comm::Comm> comm = nullptr);

  /// The batch of the next step, in place of the config's data. Copied. Throws kBusy where one waits already.
  void push(const BatchView& batch);
  /// The first half: loss, gradients and their norm.
  StepResult forward_backward();
  /// The second half: weights, moments, schedule.
  StepResult commit();
  /// No second half. rewind: the next step takes the same rows of the config's data again.
  StepResult discard(bool rewind);
  /// Both halves, unless the guard (/guard) lets the step be skipped. Throws kNumeric after too many in a row.
  StepResult train_step();
  /// This process alone has no memory for a call that all make: the others are told, who would wait for it.
  void ran_dry() noexcept { ranks_.ran_dry(); }

  /// Safe beside a running step.
  const config::ResolvedConfig& config() const { return assembly_.config; }
  /// Of the next step, or of the one that is pending. Throws kFailedPrecondition for inference.
  double learning_rate() const;

  const Ranks& ranks() const { return ranks_; }
  const data::Dataset* dataset() const { return dataset_.get(); }  ///< null where batches are pushed
  DataFingerprint& data_fingerprint() { return fingerprint_; }
  Saves& saves() { return saves_; }
  Loads& loads() { return loads_; }
  const Export& exports() const { return export_; }
  Tensors& tensors() { return tensors_; }
  const Tensors& tensors() const { return tensors_; }
  Inference& inference() { return inference_; }
  TrainLoop& loop() { return loop_; }
  Metrics& metrics() { return metrics_; }
  const Metrics& metrics() const { return metrics_; }
  Traces& traces() { return traces_; }
  const Traces& traces() const { return traces_; }
  const Reports& reports() const { return reports_; }

 private:
  Trainer(Assembly assembly, bool inference, std::atomic<bool>* cancel,
          std::shared_ptr<Connection> connection);
  template <typename Fn>
  void on_ranks(Fn&& fn);
  StepResult end_step(Outcome outcome, bool advance);

  const Assembly assembly_;
  const std::unique_ptr<data::Dataset> dataset_;
  Ranks ranks_;
  std::vector<Run> runs_;  // of the step, by rank of this process
  Progress progress_;
  Cancel cancel_;
  DataFingerprint fingerprint_;
  Saves saves_;
  Loads loads_;
  Tensors tensors_;
  Export export_;
  Inference inference_;
  Metrics metrics_;
  Traces traces_;
  Reports reports_;
  TrainLoop loop_;
};

}  // namespace hawser::train
