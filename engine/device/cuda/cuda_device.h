// CudaDevice: the Device interface for a GPU. It uses the CUDA runtime for non-blocking streams, one block of
// device memory, events and graphs. It is compiled only into the plugin, throws nothing and uses nothing of
// the C++ library, so that only calls and status codes cross to the core.
//
// Errors. A call that fails (no memory, no such event, an impossible capture) returns the reason and leaves
// the device unchanged; errors of kernels or copies in a capture are reported by end_capture. Errors of
// queued work are sticky: kernels and copies store them in the StickyError of their stream, which one thread
// writes; from then on synchronize, wait_on_host and error report them. Messages of failed calls are stored
// per thread.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/base/code.h"
#include "engine/device/plugin.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::device {

class CudaDevice final : public Device {
 public:
  /// The oldest compute capability that our kernels support, which is also the oldest with bf16 products.
  static constexpr int kOldestMajor = 8;

  /// Opens GPU request.index, creating its context if there is none. On failure writes the reason to
  /// `failure` and returns null.
  static CudaDevice* open(const DeviceRequest& request, kernels::cuda::StickyError* failure);

  DeviceInfo info() const noexcept override { return info_; }
  const kernels::KernelTable& kernels() const noexcept override;
  Stream& stream(StreamId id) noexcept override { return at(id); }
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

  Status make_event(Event** out) noexcept override;
  void free_event(Event* event) noexcept override;
  Status record(Event* event, StreamId on) noexcept override;
  Status wait(Event* event, StreamId on) noexcept override;
  Status wait_on_host(Event* event) noexcept override;
  Status synchronize(StreamId on) noexcept override;
  Status elapsed(Event* from, Event* to, double* seconds) noexcept override;

  Status begin_capture(StreamId on) noexcept override;
  Status end_capture(StreamId on, Graph** out) noexcept override;
  Status launch(Graph* graph, StreamId on) noexcept override;
  void free_graph(Graph* graph) noexcept override;

  Status make_peer_link(const PeerLinkRequest& request, PeerLink** out) noexcept override;

  const char* choices() noexcept override;
  Status take_choices(const char* choices) noexcept override;

  Status error() noexcept override { return sticky(); }
  const char* message() const noexcept override;

  void destroy() noexcept override;

 private:
  explicit CudaDevice(const kernels::cuda::Context& context);
  ~CudaDevice() = default;
  cudaError_t describe(int32_t index, cudaDeviceProp* properties, const char** operation);
  cudaError_t make_streams(const char** operation);
  cudaError_t make_next_stream(const char** operation);
  /// Checks and clears new memory.
  Status prepare(void* memory, int64_t bytes, const char* allocator);
  bool make_libraries(const DeviceRequest& request, kernels::cuda::StickyError* failure);

  /// A stream and its sticky error.
  struct Queue {
    kernels::cuda::StickyError sticky;
    kernels::cuda::CudaStream stream = kernels::cuda::CudaStream(nullptr, 0, &sticky);
  };
  kernels::cuda::CudaStream& at(StreamId id) { return queues_[static_cast<int>(id)].stream; }
  const kernels::cuda::CudaStream& at(StreamId id) const { return queues_[static_cast<int>(id)].stream; }
  cudaStream_t handle(StreamId on) const { return at(on).handle; }
  Status copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, StreamId on,
              const char* operation);

  // Each of these functions returns a status and stores its text for message().

  /// For a call that queued work: its failure is sticky.
  Status queued(cudaError_t result, const char* operation, StreamId on = StreamId::kCompute);
  /// For any other call: its failure concerns only the call.
  Status done(cudaError_t result, const char* operation);
  Status failed(Code code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  Status failed(const kernels::cuda::StickyError& error);
  Status sticky();

  /// Writes the first line of choices(), without the line end; returns its length.
  size_t write_chooser(char* out, size_t bytes) const;
  kernels::cuda::CublasLt* cublaslt() const { return at(StreamId::kCompute).cublaslt; }

  kernels::cuda::Context context_;
  Queue queues_[kMostStreams];  ///< indexed by StreamId; the first streams_ exist
  int32_t streams_ = 0;
  kernels::cuda::StickyError uncaptured_;  ///< error in the current capture
  DeviceInfo info_;
  char name_[256] = {};
  char without_[320] = {};
  char* choices_ = nullptr;  ///< the text that choices() returned last
};

}  // namespace hawser::device
