// CudaDevice: a GPU as the engine sees it. Two non-blocking streams, one block of device memory, events and
// graphs of the CUDA runtime behind the pure-virtual Device. It is compiled into the plugin only, throws
// nothing and needs nothing of the C++ library, so that nothing but calls and status codes crosses to the
// core.
//
// Errors: a call that could not do its work returns why and leaves the device as it was (no memory, no such
// event, a capture that cannot be: what a kernel or copy says in one is end_capture's). What fails in work
// that was queued is sticky: kernels and copies keep it in the StickyError of its stream, which one thread
// writes, and synchronize, wait_on_host and error tell either from then on. What a call has to say is kept by
// thread.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/base/code.h"
#include "engine/device/plugin.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_stream.h"

namespace hawser::device {

class CudaDevice final : public Device {
 public:
  /// Opens GPU request.index, whose context is made here if nobody has yet. On failure says why in `failure`
  /// and returns null.
  static CudaDevice* open(const DeviceRequest& request, kernels::cuda::StickyError* failure);

  DeviceInfo info() const noexcept override { return info_; }
  const kernels::KernelTable& kernels() const noexcept override;
  Stream& stream(StreamId id) noexcept override { return streams_[static_cast<int>(id)]; }

  Status memory(int64_t* available, int64_t* total) noexcept override;
  Status allocate(int64_t bytes, void** out) noexcept override;
  void release(void* memory, int64_t bytes) noexcept override;
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
  cudaError_t describe(int32_t index, const char** operation);
  cudaError_t make_streams(const char** operation);
  bool make_libraries(const DeviceRequest& request, kernels::cuda::StickyError* failure);

  cudaStream_t handle(StreamId on) const { return streams_[static_cast<int>(on)].handle; }
  Status copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, StreamId on,
              const char* operation);

  // Each returns a status and keeps its text for message().

  /// Of a call that queued work: its failure is sticky.
  Status queued(cudaError_t result, const char* operation, StreamId on = StreamId::kCompute);
  /// Of a call that stands alone: its failure is only its own.
  Status done(cudaError_t result, const char* operation);
  Status failed(Code code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  Status failed(const kernels::cuda::StickyError& error);
  Status sticky();

  /// Writes the first line of choices, without its end; returns its length.
  size_t write_chooser(char* out, size_t bytes) const;
  kernels::cuda::CublasLt* cublaslt() const {
    return streams_[static_cast<int>(StreamId::kCompute)].cublaslt;
  }

  kernels::cuda::Context context_;
  kernels::cuda::StickyError sticky_[2];   ///< by StreamId
  kernels::cuda::StickyError uncaptured_;  ///< what went wrong in the capture that is under way
  kernels::cuda::CudaStream streams_[2];   ///< by StreamId
  DeviceInfo info_;
  char name_[256] = {};
  char without_[320] = {};
  char* choices_ = nullptr;  ///< the text last given out
};

}  // namespace hawser::device
