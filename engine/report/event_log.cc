#include "engine/report/event_log.h"

#include "engine/base/steady_clock.h"
#include "engine/base/utf8.h"

namespace hawser::train {
namespace {

constexpr double kSecondsBetweenTries = 30;

}  // namespace

void EventLog::record(const StepResult& result, double tokens_per_second,
                      int64_t communication_bytes) noexcept {
  if (folder_.empty()) return;
  const bool goes_on = result.step > last_step_;  // otherwise a checkpoint was loaded
  last_step_ = result.step;
  const Scalar scalars[] = {{"train/loss", result.loss},
                            {"train/grad_norm", result.grad_norm},
                            {"train/learning_rate", result.learning_rate},
                            {"train/tokens_per_second", tokens_per_second},
                            {"train/step_seconds", result.seconds},
                            {"train/tokens", static_cast<double>(result.tokens)},
                            {"train/samples", static_cast<double>(result.samples)},
                            {"train/skipped", static_cast<double>(result.skipped)},
                            {"communication/bytes", static_cast<double>(communication_bytes)}};
  if (!goes_on && file_) {
    try {
      file_->start(result.step);
    } catch (...) {
      count_failure(Error::caught());
    }
  }
  write(result.step, scalars);
}

void EventLog::validated(int64_t step, double loss) noexcept {
  if (folder_.empty()) return;
  const Scalar scalar = {"validation/loss", loss};
  write(step, {&scalar, 1});
}

void EventLog::write(int64_t step, std::span<const Scalar> scalars) noexcept {
  try {
    if (!file_ && steady_seconds() >= try_again_at_) {
      file_ = EventFile::create(folder_);
      file_->start(step);
    }
    if (file_) return file_->add(step, scalars);
    const std::lock_guard lock(mutex_);
    failures_ += 1;
  } catch (...) {
    count_failure(Error::caught());
  }
}

void EventLog::count_failure(const Error& error) noexcept {
  file_.reset();
  try_again_at_ = steady_seconds() + kSecondsBetweenTries;
  const std::lock_guard lock(mutex_);
  failures_ += 1;
  failed_with_ = error;
}

EventLog::Failures EventLog::failures() const {
  const std::lock_guard lock(mutex_);
  if (!failed_with_) return {};
  return {failures_, as_utf8(failed_with_->message())};  // a folder's name may be invalid UTF-8
}

}  // namespace hawser::train
