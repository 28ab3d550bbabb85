// Submits work to a GPU's streams and orders it by events.
#include "engine/device/cuda/cuda_device.h"

namespace hawser::device {

using kernels::cuda::ContextScope;

namespace {

cudaEvent_t cuda_event(Event* event) { return reinterpret_cast<cudaEvent_t>(event); }

}  // namespace

Status CudaDevice::copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, StreamId on,
                        const char* operation) {
  if (bytes == 0) return 0;
  const ContextScope scope(&context_);
  return queued(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, handle(on)), operation, on);
}

Status CudaDevice::copy_to_device(void* to, const void* host, int64_t bytes, StreamId on) noexcept {
  return copy(to, host, bytes, cudaMemcpyHostToDevice, on, "copy_to_device");
}

Status CudaDevice::copy_to_host(void* host, const void* from, int64_t bytes, StreamId on) noexcept {
  return copy(host, from, bytes, cudaMemcpyDeviceToHost, on, "copy_to_host");
}

Status CudaDevice::copy_inside(void* to, const void* from, int64_t bytes, StreamId on) noexcept {
  return copy(to, from, bytes, cudaMemcpyDeviceToDevice, on, "copy_inside");
}

Status CudaDevice::fill_zero(void* to, int64_t bytes, StreamId on) noexcept {
  if (bytes == 0) return 0;
  const ContextScope scope(&context_);
  return queued(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), handle(on)), "fill_zero", on);
}

Status CudaDevice::make_event(Event** out) noexcept {
  const ContextScope scope(&context_);
  cudaEvent_t event = nullptr;
  const Status status = done(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreate");
  *out = reinterpret_cast<Event*>(event);
  return status;
}

void CudaDevice::free_event(Event* event) noexcept {
  const ContextScope scope(&context_);
  cudaEventDestroy(cuda_event(event));
  cudaGetLastError();
}

Status CudaDevice::record(Event* event, StreamId on) noexcept {
  const ContextScope scope(&context_);
  return queued(cudaEventRecord(cuda_event(event), handle(on)), "cudaEventRecord", on);
}

Status CudaDevice::wait(Event* event, StreamId on) noexcept {
  const ContextScope scope(&context_);
  return queued(cudaStreamWaitEvent(handle(on), cuda_event(event), cudaEventWaitDefault),
                "cudaStreamWaitEvent", on);
}

Status CudaDevice::wait_on_host(Event* event) noexcept {
  const ContextScope scope(&context_);
  queued(cudaEventSynchronize(cuda_event(event)), "cudaEventSynchronize");
  return sticky();
}

Status CudaDevice::synchronize(StreamId on) noexcept {
  const ContextScope scope(&context_);
  queued(cudaStreamSynchronize(handle(on)), "cudaStreamSynchronize", on);
  return sticky();
}

Status CudaDevice::elapsed(Event* from, Event* to, double* seconds) noexcept {
  const ContextScope scope(&context_);
  float milliseconds = 0;
  const Status status =
      done(cudaEventElapsedTime(&milliseconds, cuda_event(from), cuda_event(to)), "cudaEventElapsedTime");
  *seconds = static_cast<double>(milliseconds) * 1e-3;
  return status;
}

}  // namespace hawser::device
