// FarDevice: a device without a GPU that behaves as remotely as one. Its kernels are the CPU's, but the
// engine must not access its memory, and nothing runs until the host waits:
//   memory  is PROT_NONE except while work of this device runs, so any stray access of the host crashes.
//   work    (kernels, copies, fills) is only queued, and runs when the host waits for it. If the host changes
//           memory too early after a send, or reads it too early after a fetch, results are wrong.
// Captured work is stored, with the work of streams that wait for it, and launched as one piece. Operations
// that cannot be captured (waits of the host, sends from memory that is not pinned) invalidate the capture.
// Two threads may use the device, one for each stream. Links between devices (far_link.h) are queued work
// too: a rank's data are read when its stream runs, and a rank waits for data that another must send first.
// The device is built as a plugin (hawser-0/libhawser_cuda.so) and is used through the complete plugin
// interface.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/device/plugin.h"

namespace hawser::testing {

inline constexpr const char* kFarName = "far memory";
inline constexpr const char* kFarWithout = "no library is faster here";
inline constexpr int64_t kFarBytes = int64_t{256} << 20;  ///< bytes of each device

class FarDevice final : public device::Device {
 public:
  using Status = device::Status;
  using StreamId = device::StreamId;

  explicit FarDevice(const device::DeviceRequest& request);

  device::DeviceInfo info() const noexcept override;
  const kernels::KernelTable& kernels() const noexcept override { return kernels_; }
  Stream& stream(StreamId id) noexcept override { return queue(id).stream.base; }
  Status make_stream(StreamId* out) noexcept override;

  Status memory(int64_t* available, int64_t* total) noexcept override;
  Status allocate(int64_t bytes, void** out) noexcept override;
  void release(void* memory, int64_t bytes) noexcept override;
  Status allocate_for_peers(int64_t bytes, void** out) noexcept override;
  void release_for_peers(void* memory, int64_t bytes) noexcept override;
  Status allocate_host(int64_t bytes, void** out) noexcept override;
  void release_host(void* memory, int64_t bytes) noexcept override;

  Status copy_to_device(void* to, const void* host, int64_t bytes, StreamId on) noexcept override;
  Status copy_to_host(void* host, const void* from, int64_t bytes, StreamId on) noexcept override;
  Status copy_inside(void* to, const void* from, int64_t bytes, StreamId on) noexcept override;
  Status fill_zero(void* to, int64_t bytes, StreamId on) noexcept override;

  Status make_event(device::Event** out) noexcept override;
  void free_event(device::Event* event) noexcept override;
  Status record(device::Event* event, StreamId on) noexcept override;
  Status wait(device::Event* event, StreamId on) noexcept override;
  Status wait_on_host(device::Event* event) noexcept override;
  Status synchronize(StreamId on) noexcept override;
  Status elapsed(device::Event* from, device::Event* to, double* seconds) noexcept override;

  Status begin_capture(StreamId on) noexcept override;
  Status end_capture(StreamId on, device::Graph** out) noexcept override;
  Status launch(device::Graph* graph, StreamId on) noexcept override;
  void free_graph(device::Graph* graph) noexcept override;

  Status make_peer_link(const device::PeerLinkRequest& request, device::PeerLink** out) noexcept override;

  const char* choices() noexcept override { return ""; }
  Status take_choices(const char*) noexcept override { return 0; }

  Status error() noexcept override { return 0; }
  const char* message() const noexcept override { return message_.c_str(); }
  void destroy() noexcept override { delete this; }

  int64_t graphs() const { return graphs_; }  ///< number that exist now

  /// Returns false if the work cannot run yet because another rank must run first; it is retried.
  using Work = std::function<bool()>;
  Status give(StreamId on, Work work);
  /// Runs the stream up to the event (null: all its work), as far as possible. Returns true if it got that
  /// far.
  bool try_run(StreamId on, device::Event* until);

 private:
  struct Queue;
  /// The Stream by which a queued kernel finds its queue.
  struct FarStream {
    Stream base;
    FarDevice* device;
    StreamId id;
  };
  struct Queue {
    FarStream stream;
    std::deque<Work> work;
    int64_t given = 0, done = 0;  // number of pieces of work
    bool captures = false;
    bool joined = true;  ///< captured: another stream waits for its last work
  };
  struct Block {
    void* memory;
    int64_t bytes;
  };

  template <auto kKernel, typename Args>
  static void queued(const Args& args, Stream& stream);
  template <auto kKernel, typename Args>
  void wrap(void (*)(const Args&, Stream&)) {
    kernels_.*kKernel = queued<kKernel, Args>;
  }
  void wrap_kernels();
  Queue& queue(StreamId id);
  Status give_done(StreamId on, std::function<void()> work);
  Status put(StreamId on, Work work);
  bool is_pinned(const void* host) const;
  /// Invalidates a capture of the stream.
  void spoil(StreamId on, const char* why);
  /// Runs the stream's work until `count` pieces are done; returns false if that is not possible yet.
  bool run(StreamId on, int64_t count);
  void finish(StreamId on, int64_t count);
  Status failed(int32_t code, std::string message);

  const device::DeviceRequest request_;
  kernels::KernelTable kernels_;
  std::deque<Queue> queues_;            // indexed by StreamId
  mutable std::recursive_mutex mutex_;  // held while work runs
  std::vector<Block> pinned_;
  std::vector<Work> captured_;  // by all streams of the capture, in the order of submission
  std::atomic<int64_t> graphs_{0};
  StreamId origin_ = StreamId::kCompute;
  int64_t captures_ = 0;             // number of captures begun so far
  std::string spoilt_;               // why the capture is invalid
  int open_ = 0;                     // depth of running work
  std::vector<const void*> opened_;  // memory that running work may use
  std::string message_;
};

}  // namespace hawser::testing
