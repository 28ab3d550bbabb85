// Device: the interface to the hardware that a rank computes on. The CPU implements it (cpu/), and so do
// plugins (plugin.h). A plugin is another library, so only pure-virtual calls, plain structs and status codes
// cross the boundary: no exceptions, RTTI or C++ library types, and each side frees its own memory. The
// engine calls it through HostLink and Arena, which turn a status into an Error.
//
// A Device belongs to one rank. It has two streams, and one more for each further lane of transfers; each
// stream runs its work in order. A call that takes a StreamId may return before its work is done (never on
// the CPU) and borrows its arguments until then. Several Devices may share one GPU.
//
// Threading: one thread uses a device at a time, not always the same one. There are two exceptions: any
// thread may call release and release_host for memory that no work uses, and one more thread may use each
// communication stream, by the calls that name it, wait_on_host, error and message.
#pragma once

#include <stdint.h>

#include "engine/base/stream.h"
#include "engine/device/peer_link.h"
#include "kernels/include/table.h"

namespace hawser::device {

// A Status is 0 or the number of a Code (engine/base/code.h). Device::message() has the text.

enum class Kind : int32_t { kCpu = 0, kCuda = 1 };

struct DeviceInfo {
  Kind kind = Kind::kCpu;
  int32_t index = 0;      ///< among devices of its kind
  const char* name = "";  ///< name of the hardware; valid as long as the library or Device that returned it
  int64_t total_bytes = 0;
  /// True if the host may read and write memory from `allocate` while no work of this rank uses it. The
  /// engine then works in place and copies nothing.
  bool host_visible = false;
  /// A missing library that would make the device faster, with the loader's reason; "" if none is missing.
  /// Lives as long as `name`.
  const char* without = "";
  /// True if begin_capture is available.
  bool captures = false;
  /// Identifies the hardware: ranks with equal ids share a device.
  uint8_t hardware_id[16] = {};
};

// An Event (peer_link.h) is a point in a stream; its device makes and frees it.
/// Captured work that can be launched again; its device makes and frees it.
struct Graph;

class Device {
 public:
  virtual DeviceInfo info() const noexcept = 0;
  /// The kernels of this device. The engine calls them with stream(id). That Stream is the first member of a
  /// larger struct, which only these kernels read, so its `run` may be null. All streams have the same
  /// `num_workers`, which sizes workspaces. Kernels and streams are constant and live as long as the device.
  virtual const kernels::KernelTable& kernels() const noexcept = 0;
  virtual Stream& stream(StreamId id) noexcept = 0;
  /// Adds a communication stream, which lives as long as the device. Returns kOutOfMemory if the device
  /// already has kMostStreams.
  virtual Status make_stream(StreamId* out) noexcept = 0;
  static constexpr int32_t kMostStreams = 32;

  // Memory. These calls may return kOutOfMemory.

  /// Bytes that this process may still use, and the total bytes of the device.
  virtual Status memory(int64_t* available, int64_t* total) noexcept = 0;
  /// Allocates bytes > 0 of device memory, zeroed, aligned to 4096 bytes.
  virtual Status allocate(int64_t bytes, void** out) noexcept = 0;
  virtual void release(void* memory, int64_t bytes) noexcept = 0;
  /// Like allocate, but for memory that peer links can register (PeerLink::register_memory). Fails if the
  /// device has no such memory; the caller may then use allocate.
  virtual Status allocate_for_peers(int64_t bytes, void** out) noexcept = 0;
  virtual void release_for_peers(void* memory, int64_t bytes) noexcept = 0;
  /// Allocates bytes > 0 of pinned host memory, zeroed, aligned to 4096 bytes: copies access it without a
  /// staging copy.
  virtual Status allocate_host(int64_t bytes, void** out) noexcept = 0;
  virtual void release_host(void* memory, int64_t bytes) noexcept = 0;

  // Work on a stream. It runs after all earlier work of that stream. Device pointers come from `allocate`.
  // Host pointers come from allocate_host; copies of other host memory may block. bytes >= 0.

  virtual Status copy_to_device(void* to, const void* host, int64_t bytes, StreamId on) noexcept = 0;
  virtual Status copy_to_host(void* host, const void* from, int64_t bytes, StreamId on) noexcept = 0;
  /// Copies within the device; the ranges must not overlap.
  virtual Status copy_inside(void* to, const void* from, int64_t bytes, StreamId on) noexcept = 0;
  virtual Status fill_zero(void* to, int64_t bytes, StreamId on) noexcept = 0;

  // Order. Events are made before a step. An event that was never recorded counts as reached.

  virtual Status make_event(Event** out) noexcept = 0;
  virtual void free_event(Event* event) noexcept = 0;
  /// Sets the event to this point of the stream.
  virtual Status record(Event* event, StreamId on) noexcept = 0;
  /// Later work of the stream waits for the event; the host does not.
  virtual Status wait(Event* event, StreamId on) noexcept = 0;
  /// Blocks the host until the event is reached; returns the sticky error if there is one.
  virtual Status wait_on_host(Event* event) noexcept = 0;
  /// Blocks the host until the stream is idle; returns the sticky error if there is one.
  virtual Status synchronize(StreamId on) noexcept = 0;
  /// Seconds between two recorded events that have been reached.
  virtual Status elapsed(Event* from, Event* to, double* seconds) noexcept = 0;

  // Capture. Work between begin and end is recorded instead of run, and launch runs all of it. Pointers and
  // sizes are those at the time of capture; values in memory are read at each launch. Returns kUnimplemented
  // unless info().captures.

  virtual Status begin_capture(StreamId on) noexcept = 0;
  virtual Status end_capture(StreamId on, Graph** out) noexcept = 0;
  virtual Status launch(Graph* graph, StreamId on) noexcept = 0;
  virtual void free_graph(Graph* graph) noexcept = 0;

  /// Makes this device's end of a group of devices; DevicePlugin::peers reports whether that is possible. The
  /// request's pointers and the device must outlive the link.
  virtual Status make_peer_link(const PeerLinkRequest& request, PeerLink** out) noexcept = 0;

  // Choices: the algorithm that the device uses for each shape passed to the table's prepare_... functions.
  // All ranks use the choices of the first rank.

  /// Returns the choices so far as text. The first line identifies the device and the libraries that made
  /// them; a device can use them only if its own line is equal. Each further line is one choice: purpose;
  /// algorithm; nanoseconds (0: not timed). Returns "" if there are none. The text is valid until the next
  /// call; null only if memory has run out.
  virtual const char* choices() noexcept = 0;
  /// Uses these choices from now on; call it before any shape is prepared. Returns kFailedPrecondition if
  /// another kind of device made them; the text names both devices.
  virtual Status take_choices(const char* choices) noexcept = 0;

  // Errors. Kernels return nothing, so the device stores the error of a kernel, or of work that was queued
  // earlier.

  /// Returns 0, or the first error of any work. The error is sticky: results after it are invalid.
  virtual Status error() noexcept = 0;
  /// Returns the text of this thread's last failed call, or else of the sticky error; valid until the
  /// thread's next call. Never null.
  virtual const char* message() const noexcept = 0;

  /// Frees the device. The caller must have freed its memory, events and graphs before.
  virtual void destroy() noexcept = 0;

 protected:
  ~Device() = default;  // only the library that made it frees it
};

}  // namespace hawser::device
