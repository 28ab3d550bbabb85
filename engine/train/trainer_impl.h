// The Trainer behind the interface. Its parts, by file: trainer.cc (creation, steps), train_loop.cc,
// inference.cc (eval, forward, generate), trainer_tensors.cc, trainer_checkpoint.cc, trainer_export.cc,
// trainer_saves.cc, trainer_reports.cc.
//
// It decides for all ranks: what every process does with the same numbers comes out the same everywhere.
// Tensors and plans are the ranks' (rank.h), each on its own thread.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/config/resolved_config.h"
#include "engine/data/dataset.h"
#include "engine/optim/step_guard.h"
#include "engine/train/assembly/assemble.h"
#include "engine/train/assembly/engine_plans.h"
#include "engine/train/ranks/agreement.h"
#include "engine/train/ranks/choose_transport.h"
#include "engine/train/ranks/machine.h"
#include "engine/train/ranks/rank.h"
#include "engine/train/ranks/rank_team.h"
#include "engine/train/save/background_saver.h"
#include "engine/train/save/run_checkpoints.h"
#include "engine/train/save/run_state.h"
#include "engine/train/save/staging.h"
#include "engine/train/step/batch_sources.h"
#include "engine/train/step/rehearsal.h"
#include "engine/train/step/step_trace.h"
#include "engine/train/step/step_traffic.h"
#include "engine/train/trainer.h"

namespace hawser::train {

/// The comm, and the ends of the ranks that this process holds; no ends in a world of one.
struct ConnectedRanks {
  std::shared_ptr<comm::Comm> comm;
  std::vector<std::unique_ptr<comm::RankComm>> ends;
};

class TrainerImpl final : public Trainer {
 public:
  TrainerImpl(Assembly assembly, bool inference, std::atomic<bool>* cancel,
              std::shared_ptr<ConnectedRanks> connected);

  void ran_dry() noexcept override;
  StepResult train_step() override;
  StepResult forward_backward() override;
  StepResult commit() override;
  StepResult discard(bool rewind) override;
  void train(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn) override;
  void push(const BatchView& batch) override;
  Evaluation eval(const BatchView* batch, int64_t max_batches) override;
  void forward(const BatchView& batch, float* logits, size_t logits_bytes) override;
  void generate(const GenerateRequest& request, const std::function<bool(int32_t)>& fn) override;

  const data::Vocabulary& vocabulary() const override { return a_.vocabulary; }
  void tensor_get(TensorKind kind, std::string_view name, float* data, size_t bytes) const override;
  void tensor_set(TensorKind kind, std::string_view name, const float* data, size_t bytes) override;
  TensorLocation tensor_location(TensorKind kind, std::string_view name) const override;

  void save(const std::string& path) override;
  std::shared_ptr<SaveOperation> save_async(const std::string& path) override;
  void load(const std::string& path, bool allow_other_data) override;
  std::string load_latest(const std::string& folder, bool allow_other_data) override;  // load_latest.cc
  void export_hf(const std::string& folder, const std::string& dtype) const override;

  Sizes sizes() const override;
  double learning_rate() const override;
  std::string info_json() const override;
  std::string data_json() const override;
  std::string tensors_json() const override;
  std::string statistics_json() const override;
  std::string metrics_json() const override;
  void set_trace(bool on, bool kernels) override;
  std::string trace_report(bool json) const override;
  std::string profile_report(bool json) const override;
  std::string flight_report(bool json) const override;  // flight_report.cc
  plan::Timeline timeline(int32_t index) const override;
  const plan::Plan& train_plan() const override { return plans_.train; }
  void set_metrics(std::function<void(const std::string&)> fn) override { metrics_fn_ = std::move(fn); }

 private:
  // trainer.cc
  template <typename Fn>
  void on_ends(Fn&& fn) const;
  const kernels::KernelTable& agree_on_kernels() const;
  std::vector<std::unique_ptr<Machine>> make_machines() const;
  TransportChoice agree_on_peers() const;
  Target target() const;
  void make_ranks();
  /// fn(rank, its index here) on every rank of this process, each on its thread; throws what was thrown
  /// first. A rank that fails alone makes all others fail.
  template <typename Fn>
  void on_ranks(Fn&& fn) const;
  /// The same, and what the first rank sends belongs to the step.
  template <typename Fn>
  void step_on_ranks(Fn&& fn);
  void check_ranks() const;
  Rank& first() const { return *ranks_.front(); }
  bool all_here() const { return world_ == static_cast<int64_t>(ranks_.size()); }
  StepResult end_step(Outcome outcome, bool advance);
  void require_training(const char* what) const;
  void require_pending(bool pending) const;
  // train_loop.cc
  bool take_cancel() { return cancel_->exchange(false); }
  bool take_steps(int64_t total, const std::function<bool(const TrainRecord&)>& fn, int64_t* kept);
  std::exception_ptr step_and_validate(TrainRecord* record);
  void validate_if_due(bool last, TrainRecord* record);
  struct Wishes {
    bool end = false, save = false;
  };
  Wishes agree(Wishes here) const;
  bool stop_requested();
  bool on_any_process(bool here) const;
  std::vector<std::string> from_all_processes(const std::function<std::string()>& make) const;
  bool on_first_process(const std::function<bool()>& fn) const;
  double validation_loss();
  /// For what may run on its own or inside train: there the flag stays, so that the run ends at its step
  /// boundary.
  bool cancelled() { return training_ ? cancel_->load() : take_cancel(); }
  // inference.cc
  Evaluation eval_rows(Rank& rank, const BatchView* batch, int64_t rows, int64_t cols);
  void run_for_all(const plan::Plan& plan, const Run& run);
  void round_to_bf16(float* values, int64_t n);
  void feed(const int32_t* tokens, int64_t n, int64_t cached, float* logits);
  // trainer_tensors.cc
  StateArray state_of(const Rank& rank, TensorKind kind, int32_t group) const;
  void check_kind(TensorKind kind) const;
  void collect(TensorKind kind, const nn::Parameter& p, float* out) const;
  void scatter(TensorKind kind, const nn::Parameter& p, const float* data);
  const checkpoint::hf::Binding& binding(std::string_view name) const;
  // trainer_export.cc
  using WriteTensors = std::function<void(const checkpoint::hf::ParameterSource& source,
                                          const std::function<void()>& written)>;
  void export_with_others(const WriteTensors& write) const;
  void gather_for_export() const;
  // trainer_saves.cc
  using Write = std::function<void(const std::string& path)>;
  /// Writes with the first, and tells the second at which of the operation's checkpoints it is.
  using SaveJob = std::function<void(const Write& write, const std::function<void(size_t)>& begin)>;
  void write_now(const std::string& path);
  void lay_out_staging();
  void take_staging();
  std::shared_ptr<SaveOperation> save_beside(std::vector<std::string> paths, SaveJob job);
  void write_staged(const std::string& path, const checkpoint::Description& d,
                    checkpoint::SaveProgress* progress) const;
  void require_one_process(const char* what) const;
  void hold_run_folder();
  std::function<std::string()> run_place();
  bool save_into_run(const DueCheckpoints& due);
  void write_due_now(const DueCheckpoints& due, const std::function<std::string()>& where, size_t* at);
  void end_run(bool saved);
  void end_failed_run(bool saved);
  void write_last_step(bool saved);
  // trainer_checkpoint.cc
  void initialize_weights();
  void load_tensors(const checkpoint::Reader& reader, bool moments);
  void import_hf(const std::string& folder);
  std::shared_ptr<const checkpoint::Reader> open_checkpoint(const std::string& path,
                                                            bool allow_other_data) const;
  std::shared_ptr<const checkpoint::Reader> open_the_same(const std::string& path, bool allow_other_data);
  void verify_together(const checkpoint::Reader& reader) const;
  void take_over(const checkpoint::Reader& reader);
  std::vector<checkpoint::PieceView> pieces_of(const Rank& rank) const;
  checkpoint::Description description();
  const std::string& data_fingerprint();
  std::string data_as_saved();

  Assembly a_;
  const config::ResolvedConfig& config_;
  const bool inference_;
  std::atomic<bool>* const cancel_;
  nn::Model model_;
  const std::shared_ptr<ConnectedRanks> connected_;
  mutable RankTeam team_;
  const int64_t world_;
  std::unique_ptr<data::Dataset> dataset_;
  DeviceChoice device_;
  const kernels::KernelTable& kernels_;             // of the CPU
  int32_t threads_;                                 // of each rank
  std::vector<std::unique_ptr<Machine>> machines_;  // by rank of this process
  TransportChoice transport_;
  EnginePlans plans_;
  optim::Optimizer optimizer_;
  optim::StepGuard guard_;
  Rank::Shared shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Choices choices_;
  mutable std::atomic<bool> broken_{false};  // ranks lost each other
  std::atomic<bool> half_loaded_{false};     // a load failed when it had begun to change weights
  checkpoint::hf::ExtraFiles extra_files_;   // carried along to every checkpoint and export
  std::vector<checkpoint::hf::Binding> bindings_;

  std::string data_fingerprint_;  // with what the files hold; "": not asked yet
  RunState state_;
  PushedBatch pushed_;
  bool training_ = false;  // inside train
  // The step between forward_backward and commit or discard.
  bool pending_ = false;
  std::vector<Run> runs_;       // by rank of this process
  bool agreed_cancel_ = false;  // some process wished to stop, and all know
  StepResult result_;

  std::function<void(const std::string&)> metrics_fn_;
  std::optional<StepTraffic> traffic_;  // of the first rank here
  std::vector<StepTrace> traces_;       // by rank of this process; empty: nothing is recorded
  mutable std::mutex metrics_mutex_;    // guards last_...: metrics may be pulled beside a step
  StepResult last_;
  StepTraffic::Totals last_traffic_{};
  std::vector<Staging> staging_;  // by rank of this process; empty before it is needed
  std::shared_ptr<const checkpoint::Folder>
      run_folder_;         // checkpoint.path, where rank 0 is here and the run has begun
  BackgroundSaver saver_;  // last: while it is destroyed, its thread still reads the rest
};

template <typename Fn>
void TrainerImpl::step_on_ranks(Fn&& fn) {
  traffic_->begin();
  on_ranks(std::forward<Fn>(fn));
  traffic_->end();
}

template <typename Fn>
void TrainerImpl::on_ranks(Fn&& fn) const {
  check_ranks();
  team_.run([&](int32_t i) {
    Rank& rank = *ranks_[static_cast<size_t>(i)];
    try {
      fn(rank, i);
    } catch (const AgreedError&) {
      throw;
    } catch (...) {
      if (!rank.comm()) throw;
      broken_ = true;
      throw told_others(rank.comm(), Error::caught());
    }
  });
}

}  // namespace hawser::train
