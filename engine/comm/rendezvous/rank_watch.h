// RankWatch: one rank's end of the connection to the rendezvous for the rest of the job's life, on a thread
// of its own, so that a rank that computes for minutes is not taken for dead. It gives signs of life, expects
// them, hears what broke the job, and says so when this rank fails. Ranks that are about to connect learn over
// it where the others listen.
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

  /// `socket` is what StoreClient::watch handed over. `told` is called at most once, on the watching thread:
  /// with what broke the job, or kUnavailable if rank 0 is gone or silent for `silence_seconds`. Throws
  /// kUnavailable if the thread cannot be made. `told` takes no memory.
  RankWatch(Socket socket, int32_t rank, int32_t world_size, double silence_seconds, Told told);
  /// Leaves in peace.
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// This rank has failed: all others will be told, unless the job is broken already. Any thread; never
  /// waits, takes no memory.
  void tell(const Error& error) noexcept;
  void tell(Code code, std::string_view text) noexcept;

  /// Says `text` to the ranks that meet under `key`, and returns what each of `ranks` has said there; "" for
  /// those that did not come in time. A rank meets once under a key. Throws kUnavailable if the job breaks
  /// meanwhile; `told` knows why. One thread at a time.
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
  std::mutex mutex_;  ///< for writing
  bool ending_ = false;
  std::mutex met_mutex_;  ///< for these three
  std::condition_variable met_changed_;
  std::optional<std::string> met_;  ///< the answer to meet
  bool over_ = false;               ///< nothing more will be heard
  std::thread thread_;
};

}  // namespace hawser::comm
