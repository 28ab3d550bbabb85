// RankTeam: the threads that run the ranks of one process. Rank 0 of the team runs on the caller's thread, so
// a single rank needs no thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hawser::train {

class RankTeam {
 public:
  /// Throws kUnavailable if a thread cannot be created; then no thread is left running.
  explicit RankTeam(int32_t members);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  int32_t size() const { return members_; }

  /// Calls fn(i) for every member i in parallel, waits for all of them, and rethrows the first exception.
  /// Allocates nothing. Concurrent calls take turns. fn must not call run on the same team.
  template <typename Fn>
  void run(Fn&& fn) {
    using Type = std::remove_reference_t<Fn>;
    dispatch([](void* f, int32_t i) { (*static_cast<Type*>(f))(i); },
             const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using Call = void (*)(void* fn, int32_t member);
  void dispatch(Call call, void* fn);
  void guarded(Call call, void* fn, int32_t member) noexcept;
  void member_main(int32_t member);
  void stop();

  const int32_t members_;
  std::mutex turn_;  // held for the whole of run
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  uint64_t epoch_ = 0;  // counts calls of run
  int32_t busy_ = 0;
  bool stopping_ = false;
  Call call_ = nullptr;
  void* fn_ = nullptr;
  std::exception_ptr first_error_;
  std::vector<std::thread> threads_;
};

}  // namespace hawser::train
