// PeerLink: one rank's end of a group of devices that exchange data without the host (NCCL between GPUs). It
// only moves bytes; kernels add, in an order that Hawser defines (comm/device). A plugin implements it, so
// the rules of device.h apply.
//
// Calls queue work on the request's stream, in order, and return at once. All ranks of the group make the
// same calls. Threading: only the thread of that stream makes calls; meanwhile one more thread may wait.
#pragma once

#include <stdint.h>

namespace hawser::device {

using Status = int32_t;
struct Event;

/// Modules compute on kCompute. Transfers between ranks run on kCommunication and on the streams that
/// Device::make_stream adds, which are numbered from 2 on.
enum class StreamId : int32_t { kCompute = 0, kCommunication = 1 };

/// The name of a group, by which its ranks find each other: one rank creates it and sends it to all. The
/// bytes are opaque.
struct PeerId {
  char bytes[128];
};

struct PeerLinkRequest {
  const char* group = "";  ///< for messages; lives as long as the link
  int32_t rank = 0, ranks = 1;
  /// Time limit of each wait for the other ranks.
  double timeout_seconds = 60;
  /// Polled in every wait. A status other than 0 ends the wait and closes the link with that status.
  Status (*stop)(void* user) = nullptr;
  void* user = nullptr;
  StreamId stream = StreamId::kCommunication;  ///< the stream on which its calls run
  /// Multiprocessors of the device that a call may occupy, also while it waits; 0: the link decides.
  int32_t most_processors = 0;
};

/// After a failure the link is closed: its peers fail too, and later calls return the same status.
class PeerLink {
 public:
  virtual Status make_id(PeerId* out) noexcept = 0;
  /// Connects to the other ranks. Each of them calls it once, before anything else.
  virtual Status connect(const PeerId& id) noexcept = 0;
  /// Registers memory of Device::allocate_for_peers, so that calls can read and write it without a copy in
  /// between. All ranks register all memory that their calls access, or none. Call it after connect and
  /// before the first call. Returns false if the library cannot, with the reason in message(); the link stays
  /// open. The memory must outlive its registration, which ends with deregister_memory or with the link.
  virtual bool register_memory(void* memory, int64_t bytes) noexcept = 0;
  virtual Status deregister_memory() noexcept = 0;

  // Pointers are to device memory; bytes >= 0.

  /// Copies rank r's `shard` to full + r * bytes on all ranks. The own shard may already be in its place.
  virtual Status all_gather(void* full, const void* shard, int64_t bytes) noexcept = 0;
  /// Sends in_bytes[r] bytes at in + in_offsets[r] to rank r, whose out_bytes for this rank must be equal.
  /// Input and output must not overlap.
  virtual Status all_to_all(void* out, const int64_t* out_offsets, const int64_t* out_bytes, const void* in,
                            const int64_t* in_offsets, const int64_t* in_bytes) noexcept = 0;
  virtual Status broadcast(void* data, int64_t bytes, int32_t root) noexcept = 0;
  virtual Status send(const void* data, int64_t bytes, int32_t to) noexcept = 0;
  virtual Status recv(void* data, int64_t bytes, int32_t from) noexcept = 0;

  /// Waits until the event `done` of the stream is reached. The time limit starts when `reached` is reached:
  /// until then, this rank's own work causes the delay.
  virtual Status wait(Event* reached, Event* done) noexcept = 0;

  /// Returns why the last call failed. Never null.
  virtual const char* message() const noexcept = 0;
  virtual void destroy() noexcept = 0;

 protected:
  ~PeerLink() = default;
};

}  // namespace hawser::device
