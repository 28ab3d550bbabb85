#include "engine/save/save_operation.h"

#include <chrono>

namespace hawser::train {
namespace {

constexpr double kLongestWait = 1e9;  // seconds; more would overflow the clock

}  // namespace

bool SaveOperation::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool SaveOperation::wait(double seconds) {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  if (seconds < 0 || seconds > kLongestWait)
    change_.wait(lock, ended);
  else if (!change_.wait_for(lock, std::chrono::duration<double>(seconds), ended))
    return false;
  heard_ = true;
  if (error_) throw *error_;
  return true;
}

void SaveOperation::wait_until_ended() const {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [this] { return ended_; });
}

void SaveOperation::end(std::optional<Error> error) {
  // Notify while holding the lock: a waiter may destroy the operation as soon as it wakes.
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  ended_ = true;
  change_.notify_all();
}

std::optional<Error> SaveOperation::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::optional<Error> SaveOperation::take_unreported_error() {
  const std::lock_guard lock(mutex_);
  if (heard_ || !error_ || error_->code() == Code::kCancelled) return std::nullopt;
  heard_ = true;
  return error_;
}

}  // namespace hawser::train
