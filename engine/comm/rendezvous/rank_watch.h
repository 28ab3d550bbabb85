// RankWatch: one rank's connection to the rendezvous for the rest of the job's life. It has its own thread,
// so that a rank that computes for minutes is not considered dead. It sends and expects heartbeats, receives
// the error that broke the job, and reports this rank's failure. Ranks that are about to connect exchange
// their addresses over it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

class RankWatch {
 public:
  using Told = std::function<void(const Error&)>;

  /// `socket` comes from StoreClient::watch. `told` is called at most once, on the watching thread, with the
  /// error that broke the job, or kUnavailable if rank 0 is gone or silent for `silence_seconds`; it must not
  /// allocate. Throws kUnavailable if the thread cannot be created.
  RankWatch(Socket socket, int32_t rank, int32_t world_size, double silence_seconds, Told told);
  /// Leaves without an error.
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// Reports to all other ranks that this rank has failed, unless the job is already broken. Any thread may
  /// call it; it never waits and allocates nothing.
  void notify(const Error& error) noexcept;
  void notify(Code code, std::string_view text) noexcept;

  /// Publishes `text` under `key`, and returns the texts that each of `ranks` published under it; "" for
  /// ranks that did not in time. A rank publishes once under a key. Throws kUnavailable if the job breaks
  /// meanwhile; `told` receives the reason. Only one thread at a time may call it.
  std::vector<std::string> meet(const std::string& key, const std::string& text, std::vector<int32_t> ranks,
                                double timeout_seconds);

 private:
  void main_loop();
  bool read();
  bool take_answers();
  void watch();
  void say(std::string_view message) noexcept;

  Socket socket_;
  const int32_t rank_, world_size_;
  const double silence_seconds_;
  const Told told_;
  const std::string beat_, bye_;
  std::string in_;
  double heard_ = 0;
  std::mutex mutex_;  ///< guards writing
  bool ending_ = false;
  std::mutex met_mutex_;  ///< guards the next three
  std::condition_variable met_changed_;
  std::optional<std::string> met_;  ///< result of meet
  bool over_ = false;               ///< no more messages will arrive
  std::thread thread_;
};

}  // namespace hawser::comm
