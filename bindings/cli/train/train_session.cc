// Displays and records a training run.
#include "bindings/cli/train/train_session.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/report/profile_table.h"
#include "bindings/cli/report/report.h"
#include "bindings/cli/report/seconds.h"
#include "bindings/cli/train/order1.h"
#include "bindings/cli/train/sample.h"

namespace hawser::cli {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr double kSecondsBetweenReports = 15.0;
constexpr double kPeakSeconds = 0.07, kProfileMeasureSeconds = 1.5;
constexpr int kMostMeasurements = 8;

/// Adds the metrics that the record of a step leaves out: the loss of each validation set, whether the run
/// ends there, the rewards of pairs and the load of experts. Returns true if the step has rewards or loads,
/// because then every step has them.
bool add_metrics(const hws_engine* engine, MetricRow* row) {
  const auto metrics = parse_json(text_of(hws_engine_metrics, engine));
  for (const auto& [name, loss] : metrics.at("validation_losses").items())
    row->validation_losses.emplace_back(
        name, loss.is_number() ? loss.get<double>() : std::numeric_limits<double>::quiet_NaN());
  row->ended_early = metrics.at("ended_early").get<bool>();
  if (metrics.contains("preferences")) row->preferences = preferences_of(metrics["preferences"]);
  if (metrics.contains("validation_preferences") && !std::isnan(row->validation_loss))
    row->validation_preferences = preferences_of(metrics["validation_preferences"]);
  if (!metrics.contains("experts")) return !row->preferences.empty();
  row->experts = metrics["experts"].dump();
  for (const auto& layer : metrics["experts"]) {
    row->least_load = std::fmin(row->least_load, layer.at("least").get<double>());
    row->most_load = std::fmax(row->most_load, layer.at("most").get<double>());
  }
  return true;
}

}  // namespace

TrainSession::TrainSession(hws_engine* engine, RunFolder* folder, RunFacts facts, SessionSettings settings,
                           const PromptSamples& samples, std::vector<MetricRow> rows, int64_t first_step)
    : engine_(engine),
      folder_(folder),
      facts_(std::move(facts)),
      settings_(std::move(settings)),
      samples_(samples),
      rows_(std::move(rows)),
      first_step_(first_step),
      rows_on_disk_(rows_.size()),
      answers_on_disk_(facts_.answers.size()),
      live_(&facts_, first_step, settings_.log_every),
      text_(can_draw_samples(engine)),
      reported_at_(Clock::now()) {
  tell_of_missing_rows();
  for (const MetricRow& row : rows_) {
    if (std::isfinite(row.validation_loss) && !(row.validation_loss >= facts_.best_validation)) {
      facts_.best_validation = row.validation_loss;
      facts_.best_step = row.step;
    }
  }
}

/// Reports the steps whose rows an earlier process could not write, and did not write later either because it
/// was killed.
void TrainSession::tell_of_missing_rows() {
  const std::string steps = missing_steps(rows_, first_step_);
  if (steps.empty()) return;
  facts_.table.emplace_back("missing rows", "steps " + steps);
  std::fprintf(stderr,
               "hawser: note: metrics.jsonl has no rows of steps %s, which an interrupted process could not "
               "write; the "
               "weights are complete, and the report says so\n",
               steps.c_str());
}

int32_t TrainSession::on_step(void* user, const hws_train_record* record) {
  auto* session = static_cast<TrainSession*>(user);
  try {
    session->step(*record);
    return 0;
  } catch (...) {  // no exception may cross the C API
    session->callback_error_ = std::current_exception();
    return 1;
  }
}

void TrainSession::step(const hws_train_record& record) {
  MetricRow row = row_of(record);
  if (more_ || !std::isnan(row.validation_loss)) more_ = add_metrics(engine_, &row);
  rows_.push_back(row);
  if (folder_ != nullptr) write_or_go_on([this] { write_rows(); });
  facts_.total_steps = record.total_steps;
  if (std::isfinite(row.validation_loss) && !(row.validation_loss >= facts_.best_validation)) {
    facts_.best_validation = row.validation_loss;
    facts_.best_step = row.step;
  }
  if (record.save_failures > failed_saves_) tell_of_failed_saves();
  const bool peak_due = row.step < record.total_steps && peak_is_due(row);
  // A step cannot be faster than the peak, so the machine was busy when the peak was measured.
  if (const double share = facts_.mfu(row.tokens_per_second); share > 1.0) facts_.peak_flops *= share;
  live_.step(row, record.saved != 0, newly_saved(), record.best != 0);
  if (record.saved != 0) saving_ = {row.step, record.save_failures};
  if (peak_due) measure_peak();
  if (text_ && settings_.sample_every > 0 && row.step % settings_.sample_every == 0) show_sample(row.step);
  if (samples_.due(record)) answer_samples(row.step);
  const bool first = row.step == first_step_ + 1, validated = std::isfinite(row.validation_loss);
  if (first || validated || seconds_since(reported_at_) > kSecondsBetweenReports) {
    write_report();
    look_at_events();
  }
  look_at_stdout();
}

/// Stops the run as Ctrl-C does if the reader of the output has closed the pipe (`| head`). If output fails
/// for another reason, the run continues, because it matters more than its output.
void TrainSession::look_at_stdout() {
  if (stdout_lost_ || !output().lost()) return;
  stdout_lost_ = true;
  if (output().pipe_closed()) return check(hws_engine_cancel(engine_));
  std::fprintf(stderr, "hawser: note: cannot write to stdout: %s; the run continues\n",
               std::strerror(output().error()));
}

/// Returns false if `write` failed and checkpoint.on_error lets the run continue. The failure is reported
/// once and counted; the user may still free some space.
bool TrainSession::write_or_go_on(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const Failure& failure) {
    if (!settings_.go_on) throw;
    write_error_ = failure.what();
  }
  if (failed_writes_++ == 0)
    live_.print(write_error_ + "; the run continues and tries again after each step");
  return false;
}

/// Writes all rows and answers that are not on disk yet, in order.
void TrainSession::write_rows() {
  for (; rows_on_disk_ < rows_.size(); ++rows_on_disk_) folder_->append(rows_[rows_on_disk_]);
  for (; answers_on_disk_ < facts_.answers.size(); ++answers_on_disk_)
    folder_->append(facts_.answers[answers_on_disk_]);
}

/// Returns the step whose checkpoint has become durable since the last call; 0 if none.
int64_t TrainSession::newly_saved() {
  if (saving_.step == 0) return 0;
  const auto metrics = parse_json(text_of(hws_engine_metrics, engine_));
  if (metrics.value("saving", false)) return 0;
  const bool failed = metrics.value("save_failures", int64_t{0}) > saving_.failures;
  return std::exchange(saving_, {}).step * (failed ? 0 : 1);
}

/// True if the peak must be measured: after the first step, because it is only needed to judge the speed; and
/// again if a step was faster than the measured peak, because then the machine was busy during the
/// measurement.
bool TrainSession::peak_is_due(const MetricRow& row) const {
  if (measurements_ == 0) return row.step == first_step_ + 1;
  return facts_.mfu(row.tokens_per_second) > 1.0 && measurements_ < kMostMeasurements;
}

/// Keeps the highest peak measured. Other processes are assumed to be as fast. If measuring fails (no
/// memory), the run continues without MFU.
void TrainSession::measure_peak() {
  ++measurements_;
  const Clock::time_point begin = Clock::now();
  double flops = 0;
  const int32_t status = hws_device_peak(settings_.threads * settings_.ranks_here,
                                         settings_.bf16 ? "bf16" : "fp32", kPeakSeconds, &flops);
  live_.exclude(seconds_since(begin));
  if (status == HWS_OK) facts_.peak_flops = std::fmax(facts_.peak_flops, flops * settings_.processes);
}

void TrainSession::show_sample(int64_t step) {
  std::string text;
  const int32_t status = draw_sample(engine_, step, &text);
  if (status == HWS_CANCELLED) return;
  check(status);
  facts_.samples.emplace_back(step, text);
  live_.print(format_text("--- sample after step %lld ---\n", static_cast<long long>(step)) + text + "\n---");
}

/// Has the model answer the prompts of /telemetry/samples.
void TrainSession::answer_samples(int64_t step) {
  const Clock::time_point begin = Clock::now();
  for (SampleAnswer& answer : samples_.answer(engine_, step)) {
    live_.print(format_text("--- sample %lld after step %lld ---\n", static_cast<long long>(answer.sample),
                            static_cast<long long>(step)) +
                (answer.problem.empty() ? answer.answer : "no answer: " + answer.problem) + "\n---");
    facts_.answers.push_back(std::move(answer));
  }
  live_.exclude(seconds_since(begin));
  if (folder_ != nullptr) write_or_go_on([this] { write_rows(); });
}

/// Reports failed saves at once, because the user may still free some space before the run ends.
void TrainSession::tell_of_failed_saves() {
  const auto metrics = parse_json(text_of(hws_engine_metrics, engine_));
  const auto count = metrics.value("save_failures", int64_t{0});
  if (count == failed_saves_) return;
  failed_saves_ = count;
  save_error_ = metrics.value("save_error", std::string());
  facts_.failed_saves = count;
  live_.print("a checkpoint could not be written: " + save_error_);
}

/// Reports once that records for TensorBoard are lost.
void TrainSession::look_at_events() {
  const auto metrics = parse_json(text_of(hws_engine_metrics, engine_));
  const bool told = lost_events_ > 0;
  lost_events_ = metrics.value("event_failures", int64_t{0});
  event_error_ = metrics.value("event_error", std::string());
  if (lost_events_ > 0 && !told)
    live_.print("a record for TensorBoard could not be written: " + event_error_);
}

void TrainSession::write_report() {
  reported_at_ = Clock::now();
  if (folder_ == nullptr) return;
  report_on_disk_ =
      write_or_go_on([this] { replace_file(folder_->report_path(), report_html(facts_, last_rows(rows_))); });
}

void TrainSession::finish(const std::string& state) {
  live_.finish();
  if (folder_ != nullptr) write_or_go_on([this] { write_rows(); });
  look_at_events();
  facts_.state = state;
  if (folder_ != nullptr && rows_on_disk_ < rows_.size())
    facts_.table.emplace_back("missing rows", "steps " + std::to_string(rows_[rows_on_disk_].step) + " to " +
                                                  std::to_string(rows_.back().step));
  if (!settings_.text_file.empty() && std::isfinite(facts_.best_validation)) {
    facts_.order1_loss = order1_validation_loss(engine_, settings_.text_file, settings_.validation_fraction);
  }
  write_report();
}

void TrainSession::print_summary() {
  const auto info = parse_json(text_of(hws_engine_info, engine_));
  if (const std::string without = info.value("graphs_without", ""); !without.empty())
    std::fprintf(stderr, "hawser: note: running slower than possible: %s\n", without.c_str());
  if (failed_saves_ > 0) {
    output().print("%s could not be written; the last error: %s\n",
                   counted(failed_saves_, "checkpoint").c_str(), save_error_.c_str());
  }
  if (lost_events_ > 0) {
    output().print("%s for TensorBoard could not be written; the last error: %s\n",
                   counted(lost_events_, "record").c_str(), event_error_.c_str());
  }
  if (failed_writes_ > 0) {
    output().print("%s to the run's folder failed, and metrics.jsonl lacks %s; the last error: %s\n",
                   counted(failed_writes_, "write").c_str(),
                   counted(static_cast<int64_t>(rows_.size() - rows_on_disk_), "row").c_str(),
                   write_error_.c_str());
  }
  if (std::isfinite(facts_.best_validation)) {
    const bool of_pairs = !rows_.empty() && !rows_.back().preferences.empty();
    output().print("validation loss %.4f%s (best, step %lld)", facts_.best_validation,
                   of_pairs ? "" : " nats", static_cast<long long>(facts_.best_step));
    if (std::isfinite(facts_.order1_loss)) {
      const double below = facts_.order1_loss - facts_.best_validation;
      output().print(", %.4f %s the %.4f of an order-1 model fitted on the training part", std::fabs(below),
                     below >= 0 ? "below" : "above", facts_.order1_loss);
    }
    output().print("\n");
  }
  const double speed = median_tokens_per_second(rows_);
  if (std::isfinite(speed)) {
    output().print("%s tok/s", count_text(speed).c_str());
    if (std::isfinite(facts_.mfu(speed))) output().print(", MFU %.0f%%", 100.0 * facts_.mfu(speed));
    output().print("\n");
  }
  if (folder_ != nullptr) {
    output().print("report       %s\n", folder_->report_path().c_str());
    output().print("checkpoints  %s\n", folder_->checkpoints_path().c_str());
  }
}

/// Prints the profile table. Measures the limits now, with nothing else running. A value measured during the
/// run could come from a moment when the machine was busy.
void TrainSession::show_profile() {
  if (!settings_.profile || rows_.empty()) return;
  hws_buffer* raw = nullptr;
  // The run ended before the first step was complete
  if (hws_engine_profile(engine_, HWS_FORMAT_JSON, &raw) != HWS_OK) return;
  const Buffer profile(raw);
  raw = nullptr;
  ordered_json measured;
  if (hws_device_measure(settings_.threads * settings_.ranks_here, kProfileMeasureSeconds, &raw) == HWS_OK)
    measured = parse_json(static_cast<const char*>(hws_buffer_data(raw)));
  const Buffer owner(raw);
  output().print(
      "\n%s",
      profile_table(parse_json(static_cast<const char*>(hws_buffer_data(profile.get()))), measured).c_str());
  if (measured.is_object())
    output().print("limits measured now: %.0f GFLOP/s fp32, %.0f bf16, %.0f GB/s\n",
                   measured.at("fp32_gflops").get<double>(), measured.at("bf16_gflops").get<double>(),
                   measured.at("bandwidth_gbs").get<double>());
  if (folder_ != nullptr) {
    replace_file(folder_->trace_path(), text_of(hws_engine_trace, engine_, HWS_FORMAT_JSON));
    output().print("trace        %s (open in ui.perfetto.dev)\n", folder_->trace_path().c_str());
  }
}

/// Returns the exit code of a finished run: 1 if one of its files is not on disk.
int TrainSession::exit_code() const {
  const bool complete = rows_on_disk_ == rows_.size() && answers_on_disk_ == facts_.answers.size();
  if (report_on_disk_ && (folder_ == nullptr || complete)) return kExitOk;
  std::fprintf(stderr, "hawser: error: the run finished, but its folder is incomplete: %s\n",
               write_error_.c_str());
  return kExitRuntime;
}

int TrainSession::run() {
  int32_t status = HWS_OK;
  if (settings_.profile) check(hws_engine_set_trace(engine_, HWS_TRACE_KERNELS));
  {
    const InterruptScope interrupt;
    status = hws_engine_train(engine_, 0, on_step, this, nullptr);
  }
  const auto step = static_cast<long long>(rows_.empty() ? first_step_ : rows_.back().step);
  if (callback_error_ != nullptr) {  // the engine has saved the last step
    live_.finish();
    std::rethrow_exception(callback_error_);
  }
  if (status == HWS_OK) {
    tell_of_failed_saves();
    const bool early = !rows_.empty() && rows_.back().ended_early;
    finish(early ? "ended early" : "finished");
    if (early)
      output().print(
          "ended early at step %lld: the validation loss has not fallen since step %lld "
          "(/train/patience)\n",
          step, static_cast<long long>(facts_.best_step));
    print_summary();
    show_profile();
    return exit_code();
  }
  if (status == HWS_CANCELLED) {  // a signal on any rank, or a closed output pipe
    tell_of_failed_saves();
    finish("interrupted");
    output().print("interrupted after step %lld\n", step);
    print_summary();
    show_profile();
    if (folder_ != nullptr)
      output().print("continue with: hawser train --resume %s\n", folder_->path().c_str());
    return output().pipe_closed() ? kExitPipeClosed : kExitInterrupted;
  }
  try {
    check(status);
  } catch (const Failure& failure) {
    tell_of_failed_saves();
    finish(std::string("failed: ") + failure.what());
    throw;
  }
  return kExitRuntime;
}

}  // namespace hawser::cli
