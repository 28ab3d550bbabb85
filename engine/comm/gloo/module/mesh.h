// Mesh: one rank's connections to all others through Gloo's unbound buffers, and nothing else of Gloo (its
// old and new algorithms disturb each other's socket buffers). Each message has a slot number of its own, so
// that Gloo need not match them by order.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/gloo/gloo_module.h"

namespace hawser::comm {

class Mesh {
 public:
  /// Throws std::exception.
  explicit Mesh(const GlooRequest& request);
  ~Mesh();

  // As in HostTransport; these throw std::exception where Gloo does.
  int32_t send(int32_t to, const void* data, int64_t bytes, double seconds);
  int32_t recv(int32_t from, void* data, int64_t bytes, double seconds);
  int32_t exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                   double seconds);
  void abort(int32_t code);

  std::string message;  ///< why the last call failed

 private:
  using Buffer = gloo::transport::UnboundBuffer;
  static constexpr size_t kRing = 4;

  /// Small messages to one peer that are under way; a send returns once its message is copied here.
  struct Outbox {
    std::array<std::unique_ptr<Buffer>, kRing> buffers;
    std::array<bool, kRing> pending{};
    std::vector<char> bytes;
    size_t next = 0;
    uint64_t sent = 0, received = 0;  ///< messages: the slot numbers
  };

  int32_t wait_send(Buffer& buffer, double seconds);
  int32_t wait_recv(Buffer& buffer, double seconds);
  template <class Wait>
  int32_t wait_for(Buffer& buffer, double seconds, const Wait& wait);
  int32_t send_small(Outbox& box, int32_t to, const void* data, int64_t bytes, double seconds);
  std::unique_ptr<Buffer> over(const void* data, int64_t bytes) const;
  void timer_loop();

  std::shared_ptr<gloo::rendezvous::Context> context_;
  const double timeout_seconds_;
  std::vector<Outbox> outboxes_;
  std::vector<char> inbox_bytes_;
  std::unique_ptr<Buffer> inbox_;  ///< for small messages; not used again after a receive that gave up

  // Gloo closes every connection when one of its waits times out, which would hide who else is missing. So
  // its waits never do: the timer interrupts them, as abort does.
  std::mutex mutex_;
  std::condition_variable changed_;
  Buffer* waiting_ = nullptr;
  std::chrono::steady_clock::time_point deadline_;
  bool timed_out_ = false, gave_up_ = false, ending_ = false;
  int32_t aborted_ = 0;
  std::thread timer_;
};

}  // namespace hawser::comm
