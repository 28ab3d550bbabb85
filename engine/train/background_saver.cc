#include "engine/train/background_saver.h"

#include <fmt/format.h>

#include <new>
#include <system_error>
#include <utility>

#include "engine/base/signals_blocked.h"
#include "engine/base/utf8.h"

namespace hawser::train {

BackgroundSaver::~BackgroundSaver() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSaver::make_way() {
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
  if (thread_.joinable()) thread_.join();  // it has nothing left to do
  const SignalsBlocked blocked;
  running_ = true;
  try {
    thread_ =
        std::thread([this, operation, write = std::move(write)] { write_and_end(operation.get(), write); });
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

void BackgroundSaver::write_and_end(SaveOperation* operation, const std::function<void()>& write) noexcept {
  std::optional<Error> error;
  try {
    try {
      write();
    } catch (const Error& e) {
      error = e;
    } catch (const std::bad_alloc&) {
      error = Error(Code::kOutOfMemory, "out of memory while a checkpoint was written");
    } catch (const std::exception& e) {
      error = Error(Code::kInternal, e.what());
    }
    if (error && error->code() != Code::kCancelled) count_failure(operation->path(), *error);
  } catch (...) {  // no memory even for the words
    error.emplace(Code::kOutOfMemory, "out of memory");
  }
  running_ = false;
  operation->end(std::move(error));
}

void BackgroundSaver::raise_unheard() {
  if (config_.on_error != config::SaveFailure::kStop || !last_ || !last_->ended()) return;
  if (const std::optional<Error> error = last_->take_unheard())
    throw Error(error->code(),
                fmt::format("an asynchronous save has failed, {}: {}", last_->path(), error->message()),
                error->details());
}

void BackgroundSaver::count_failure(const std::string& path, const Error& error) {
  std::string words =
      as_utf8(fmt::format("{}: {}", path, error.message()));  // a folder may be renamed to anything
  const std::lock_guard lock(mutex_);
  failures_.count += 1;
  failures_.last.swap(words);
}

BackgroundSaver::Failures BackgroundSaver::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

}  // namespace hawser::train
