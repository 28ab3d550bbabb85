#include "engine/save/background_saver.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <system_error>
#include <utility>

#include "engine/base/signals_blocked.h"
#include "engine/base/utf8.h"

namespace hawser::train {
namespace {

/// Lowers the priority of this thread and its children to seven nice levels below training. On fully loaded
/// cores the scheduler then gives it about a sixth of one. A smaller share would leave the disk idle; a
/// larger one would slow training.
void step_back() {
  constexpr int kLevels = 7;
  const auto thread = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + kLevels);  // best effort
}

}  // namespace

BackgroundSaver::~BackgroundSaver() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSaver::await_or_refuse() {
  if (!last_ || last_->ended()) return;
  if (config_.when_busy == config::SaveBusy::kRefuse)
    fail(Code::kBusy,
         "the checkpoint {} is still being written; wait for it, save less often, or set "
         "/checkpoint/when_busy "
         "to wait",
         last_->path());
  last_->wait_until_ended();
}

void BackgroundSaver::wait() const {
  if (last_) last_->wait_until_ended();
}

void BackgroundSaver::start(std::shared_ptr<SaveOperation> operation, std::function<void()> write) {
  HWS_CHECK(!last_ || last_->ended());
  if (thread_.joinable()) thread_.join();  // it has finished its work
  const SignalsBlocked blocked;
  running_ = true;
  try {
    thread_ = std::thread([this, operation, write = std::move(write)] { write_and_end(operation, write); });
  } catch (const std::system_error& e) {
    running_ = false;
    fail(Code::kUnavailable,
         "cannot make the thread that writes {}: {}; raise the limit on threads, or save "
         "without it",
         operation->path(), e.what());
  } catch (...) {
    running_ = false;
    throw;
  }
  last_ = std::move(operation);
}

void BackgroundSaver::write_and_end(const std::shared_ptr<SaveOperation>& operation,
                                    const std::function<void()>& write) noexcept {
  step_back();
  std::optional<Error> error;
  try {
    write();
  } catch (...) {
    error = Error::caught();
  }
  if (error && error->code() != Code::kCancelled) count({operation, &operation->path()}, *error);
  running_ = false;
  operation->end(error);
}

void BackgroundSaver::rethrow_unreported_error() {
  if (config_.on_error != config::SaveFailure::kStop || !last_ || !last_->ended()) return;
  if (const std::optional<Error> error = last_->take_unreported_error())
    throw Error(error->code(),
                fmt::format("an asynchronous save has failed, {}: {}", last_->path(), error->message()),
                error->details());
}

void BackgroundSaver::count_failure(const std::string& path, const Error& error) {
  count(std::make_shared<const std::string>(path), error);
}

void BackgroundSaver::count(std::shared_ptr<const std::string> path, const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  failures_ += 1;
  failed_path_ = std::move(path);
  failed_with_ = error;
}

BackgroundSaver::Failures BackgroundSaver::failures() const {
  const std::lock_guard lock(mutex_);
  if (failures_ == 0) return {};
  // The folder's name may not be valid UTF-8.
  return {failures_, as_utf8(fmt::format("{}: {}", *failed_path_, failed_with_->message()))};
}

}  // namespace hawser::train
