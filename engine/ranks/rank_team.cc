#include "engine/ranks/rank_team.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/signals_blocked.h"

namespace hawser::train {

RankTeam::RankTeam(int32_t members) : members_(members) {
  const SignalsBlocked blocked;  // these threads must not receive the host program's signals
  try {
    for (int32_t i = 1; i < members; ++i) threads_.emplace_back([this, i] { member_main(i); });
  } catch (const std::system_error& e) {
    const size_t made = threads_.size();
    stop();
    fail(Code::kUnavailable, "cannot make the thread of rank {} of {}: {}; raise the limit on threads",
         made + 1, members, e.what());
  } catch (...) {
    stop();
    throw;
  }
}

RankTeam::~RankTeam() { stop(); }

void RankTeam::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  begin_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

void RankTeam::guarded(Call call, void* fn, int32_t member) noexcept {
  try {
    call(fn, member);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!first_error_) first_error_ = std::current_exception();
  }
}

void RankTeam::dispatch(Call call, void* fn) {
  if (members_ == 1) return call(fn, 0);
  const std::lock_guard turn(turn_);
  {
    const std::lock_guard lock(mutex_);
    call_ = call, fn_ = fn;
    busy_ = members_ - 1;
    ++epoch_;
  }
  begin_.notify_all();
  guarded(call, fn, 0);
  std::unique_lock lock(mutex_);
  end_.wait(lock, [this] { return busy_ == 0; });
  if (first_error_) std::rethrow_exception(std::exchange(first_error_, nullptr));
}

void RankTeam::member_main(int32_t member) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begin_.wait(lock, [&] { return stopping_ || epoch_ != seen; });
    if (stopping_) return;
    seen = epoch_;
    const Call call = call_;
    void* const fn = fn_;
    lock.unlock();
    guarded(call, fn, member);
    lock.lock();
    if (--busy_ == 0) end_.notify_one();
  }
}

}  // namespace hawser::train
