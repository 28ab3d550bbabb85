// Device: what the engine asks of the machine that a rank computes on. The CPU stands behind it (cpu/), and
// so do plugins (plugin.h), which are other libraries: hence pure-virtual calls, plain structs and status
// codes, and no exceptions, RTTI, types of the C++ library or foreign frees. Inside the engine this is called
// through HostLink and Arena, which turn a status into an Error.
//
// One Device is one rank's: it has two streams of its own, on which work runs in the order in which it was
// given. A call that takes a StreamId may return before its work is done (on the CPU none does); what it
// names belongs to it until then. Several Devices may share one GPU.
//
// Threading: one thread at a time, not always the same, but for release and release_host (any thread, nothing
// of theirs in flight) and for the communication stream: calls that name it, wait_on_host, error and message
// may come from one more thread.
#pragma once

#include <stdint.h>

#include "engine/base/stream.h"
#include "engine/device/peer_link.h"
#include "kernels/include/table.h"

namespace hawser::device {

// Status: 0, or the number of a Code (engine/base/error.h). The text is Device::message().

enum class Kind : int32_t { kCpu = 0, kCuda = 1 };

/// In the plan's words: modules compute on the first, transfers between ranks run on the second.
enum class StreamId : int32_t { kCompute = 0, kCommunication = 1 };

struct DeviceInfo {
  Kind kind = Kind::kCpu;
  int32_t index = 0;      ///< among devices of its kind
  const char* name = "";  ///< of the hardware; as long as the library or the Device that told it
  int64_t total_bytes = 0;
  /// What `allocate` returns may be read and written by the host, whenever nothing of this rank runs that
  /// uses it. The engine then works in place and copies nothing.
  bool host_visible = false;
  /// What would make it faster and is not there (a library, and what the loader says of it); "" if nothing.
  /// Lives as `name` does.
  const char* without = "";
  /// begin_capture is there.
  bool captures = false;
  /// Of the hardware, the same for all who use it: ranks whose ids are equal share a device.
  uint8_t hardware_id[16] = {};
};

// Event (peer_link.h): a point in a stream; made and freed by its device.
/// Work that was captured and can be launched again; made and freed by its device.
struct Graph;

class Device {
 public:
  virtual DeviceInfo info() const noexcept = 0;
  /// What computes here, and how its functions are called: with stream(id). That is the first member of
  /// whatever its kernels need; only they are called with it, so that `run` may be null. `num_workers` of
  /// both streams is the same and goes into workspace sizes. Neither changes; both live as long as the
  /// device.
  virtual const kernels::KernelTable& kernels() const noexcept = 0;
  virtual Stream& stream(StreamId id) noexcept = 0;

  // Memory. Errors: kOutOfMemory.

  /// Bytes that this process may still take, and those of the device.
  virtual Status memory(int64_t* available, int64_t* total) noexcept = 0;
  /// bytes > 0 of device memory, zeroed, aligned to 4096 bytes.
  virtual Status allocate(int64_t bytes, void** out) noexcept = 0;
  virtual void release(void* memory, int64_t bytes) noexcept = 0;
  /// bytes > 0 of host memory, zeroed, aligned to 4096 bytes, that copies reach without another copy
  /// (pinned).
  virtual Status allocate_host(int64_t bytes, void** out) noexcept = 0;
  virtual void release_host(void* memory, int64_t bytes) noexcept = 0;

  // Work on a stream, after all that the stream was given before. Pointers into device memory are those of
  // `allocate`; host memory is that of allocate_host, or any other, which copies may then wait for. bytes >=
  // 0.

  virtual Status copy_to_device(void* to, const void* host, int64_t bytes, StreamId on) noexcept = 0;
  virtual Status copy_to_host(void* host, const void* from, int64_t bytes, StreamId on) noexcept = 0;
  /// Inside the device; no overlap.
  virtual Status copy_inside(void* to, const void* from, int64_t bytes, StreamId on) noexcept = 0;
  virtual Status fill_zero(void* to, int64_t bytes, StreamId on) noexcept = 0;

  // Order. Events are made before a step; one that was never recorded has happened.

  virtual Status make_event(Event** out) noexcept = 0;
  virtual void free_event(Event* event) noexcept = 0;
  /// The event is now this point of the stream.
  virtual Status record(Event* event, StreamId on) noexcept = 0;
  /// What the stream is given from now on waits for the event; the host does not.
  virtual Status wait(Event* event, StreamId on) noexcept = 0;
  /// The host waits for the event; returns the sticky error if there is one.
  virtual Status wait_on_host(Event* event) noexcept = 0;
  /// The host waits until the stream has done all that it was given; likewise.
  virtual Status synchronize(StreamId on) noexcept = 0;
  /// Seconds between two recorded events that have happened.
  virtual Status elapsed(Event* from, Event* to, double* seconds) noexcept = 0;

  // Capture: work given between begin and end is not run but noted, and launch runs all of it. Pointers and
  // sizes are noted as they were; values in memory are read at each launch. kUnimplemented unless
  // info().captures.

  virtual Status begin_capture(StreamId on) noexcept = 0;
  virtual Status end_capture(StreamId on, Graph** out) noexcept = 0;
  virtual Status launch(Graph* graph, StreamId on) noexcept = 0;
  virtual void free_graph(Graph* graph) noexcept = 0;

  /// This device's end of a group of devices (DevicePlugin::peers says whether there can be one); the
  /// request's pointers outlive it. Ends before the device.
  virtual Status make_peer_link(const PeerLinkRequest& request, PeerLink** out) noexcept = 0;

  // Choices: which of several ways it takes for what the table's prepare_... functions were given. All ranks
  // take the first one's.

  /// The choices made so far, as text: a line for who made them (what must be the same for another device to
  /// take them), then a line for each. Fields are separated by ';'; of a choice these are what it is for,
  /// what was chosen, and its nanoseconds (0: not timed). "" where nothing is chosen. Valid until the next
  /// call of this, null only without memory.
  virtual const char* choices() noexcept = 0;
  /// From now on what is prepared takes these. Before anything is prepared. kFailedPrecondition where they
  /// were made for another kind of device, with both in words.
  virtual Status take_choices(const char* choices) noexcept = 0;

  // Errors. Kernels return nothing: what goes wrong in one, or in work that was given earlier, is kept here.

  /// 0, or the first error of anything run here. It stays: the device computes nothing sensible any more.
  virtual Status error() noexcept = 0;
  /// What this thread's last call that failed, or else the sticky error, has to say; until its next call.
  /// Never null.
  virtual const char* message() const noexcept = 0;

  /// Frees the device; memory, events and graphs of it must be gone.
  virtual void destroy() noexcept = 0;

 protected:
  ~Device() = default;  // never deleted from outside: the one who made it frees it
};

}  // namespace hawser::device
