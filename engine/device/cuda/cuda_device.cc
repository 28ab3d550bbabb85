// Creates and destroys a CUDA device, and reports its errors.
#include "engine/device/cuda/cuda_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <new>

#include "engine/device/cuda/libraries.h"
#include "engine/device/cuda/peers.h"
#include "kernels/cuda/table.h"

namespace hawser::device {

using kernels::cuda::Context;
using kernels::cuda::ContextScope;
using kernels::cuda::CudaStream;
using kernels::cuda::StickyError;

namespace {

int32_t code_of(cudaError_t result) {
  return static_cast<int32_t>(result == cudaErrorMemoryAllocation ? Code::kOutOfMemory
                                                                  : Code::kDeviceUnavailable);
}

/// Stores an error unless our kernels run on the GPU.
bool is_new_enough(const cudaDeviceProp& properties, int32_t index, StickyError* failure) {
  if (properties.major >= CudaDevice::kOldestMajor) return true;
  char needed[96], found[384];
  snprintf(needed, sizeof needed, "device \"cuda\" needs a GPU of compute capability %d.0 or newer",
           CudaDevice::kOldestMajor);
  snprintf(found, sizeof found, "GPU %d (%s) has %d.%d", static_cast<int>(index), properties.name,
           properties.major, properties.minor);
  failure->keep(static_cast<int32_t>(Code::kDeviceUnavailable), needed, found,
                "choose another GPU with CUDA_VISIBLE_DEVICES, or use \"cpu\"");
  return false;
}

}  // namespace

CudaDevice::CudaDevice(const Context& context) : context_(context) {}

CudaDevice* CudaDevice::open(const DeviceRequest& request, StickyError* failure) {
  const char* operation = "";
  const auto fails = [&](cudaError_t result) {
    if (result == cudaSuccess) return false;
    char what[64];
    snprintf(what, sizeof what, "GPU %d: %s", static_cast<int>(request.index), cudaGetErrorName(result));
    failure->keep(code_of(result), operation, what, cudaGetErrorString(result));
    return true;
  };
  Context context;
  if (fails(kernels::cuda::retain_context(request.index, &context, &operation))) return nullptr;
  auto* const device = new (std::nothrow) CudaDevice(context);
  if (device == nullptr) {
    kernels::cuda::release_context(request.index);
    failure->keep(static_cast<int32_t>(Code::kOutOfMemory), "CudaDevice", "no host memory is left", "");
    return nullptr;
  }
  cudaDeviceProp properties;
  if (fails(device->describe(request.index, &properties, &operation)) ||
      !is_new_enough(properties, request.index, failure) || fails(device->make_streams(&operation)) ||
      !device->make_libraries(request, failure)) {
    device->destroy();
    return nullptr;
  }
  return device;
}

cudaError_t CudaDevice::describe(int32_t index, cudaDeviceProp* properties, const char** operation) {
  info_.kind = Kind::kCuda;
  info_.index = index;
  info_.name = name_;
  info_.captures = true;
  *operation = "cudaGetDeviceProperties";
  const cudaError_t result = cudaGetDeviceProperties(properties, index);
  if (result != cudaSuccess) return result;
  snprintf(name_, sizeof name_, "%s", properties->name);
  info_.total_bytes = static_cast<int64_t>(properties->totalGlobalMem);
  static_assert(sizeof info_.hardware_id == sizeof properties->uuid);
  memcpy(info_.hardware_id, &properties->uuid, sizeof info_.hardware_id);
  for (Queue& queue : queues_) {
    queue.stream.multiprocessors = properties->multiProcessorCount;
    queue.stream.most_shared_bytes = properties->sharedMemPerBlockOptin;
    queue.stream.context = &context_;
  }
  return cudaSuccess;
}

cudaError_t CudaDevice::make_streams(const char** operation) {
  const cudaError_t result = make_next_stream(operation);
  return result == cudaSuccess ? make_next_stream(operation) : result;
}

/// Streams for transfers have priority, because other ranks wait for transfers.
cudaError_t CudaDevice::make_next_stream(const char** operation) {
  const ContextScope scope(&context_);
  int lowest = 0, highest = 0;
  *operation = "cudaDeviceGetStreamPriorityRange";
  const cudaError_t result = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
  if (result != cudaSuccess) return result;
  *operation = "cudaStreamCreateWithPriority";
  const int priority = streams_ == static_cast<int32_t>(StreamId::kCompute) ? lowest : highest;
  const cudaError_t made =
      cudaStreamCreateWithPriority(&queues_[streams_].stream.handle, cudaStreamNonBlocking, priority);
  if (made == cudaSuccess) ++streams_;
  return made;
}

/// Only the compute stream gets these libraries, because only modules use products and attention.
bool CudaDevice::make_libraries(const DeviceRequest& request, StickyError* failure) {
  const ContextScope scope(&context_);
  info_.without = without_;
  CudaStream& compute = at(StreamId::kCompute);
  compute.without = {without_, sizeof without_};
  return start_libraries(&compute, request, name_, compute.without, failure);
}

const kernels::KernelTable& CudaDevice::kernels() const noexcept { return kernels::cuda::cuda_kernels(); }

/// Releases the context; its last user destroys it.
void CudaDevice::destroy() noexcept {
  {
    const ContextScope scope(&context_);
    for (Queue& queue : queues_) {
      CudaStream& stream = queue.stream;
      if (stream.handle == nullptr) continue;
      cudaStreamSynchronize(stream.handle);
      end_libraries(&stream);
      cudaStreamDestroy(stream.handle);
    }
    cudaGetLastError();
  }
  kernels::cuda::release_context(info_.index);
  delete[] choices_;
  delete this;
}

namespace {

/// The error of this thread's last failed call on any device. It is per thread because two threads use a
/// device.
thread_local StickyError failure;

Status keep_failure(int32_t code, const char* operation, const char* what, const char* value) {
  failure = {};
  failure.keep(code, operation, what, value);
  return code;
}

}  // namespace

const char* CudaDevice::message() const noexcept { return failure.message; }

Status CudaDevice::make_stream(StreamId* out) noexcept {
  failure = {};
  if (streams_ == kMostStreams)
    return keep_failure(static_cast<int32_t>(Code::kOutOfMemory), "make_stream", "a device has at most",
                        "32 streams");
  const char* operation = "";
  const Status status = done(make_next_stream(&operation), operation);
  if (status == 0) *out = static_cast<StreamId>(streams_ - 1);
  return status;
}

Status CudaDevice::make_peer_link(const PeerLinkRequest& request, PeerLink** out) noexcept {
  failure = {};
  *out = open_peer_link(at(request.stream), request, &failure);
  return failure.code;
}

Status CudaDevice::queued(cudaError_t result, const char* operation, StreamId on) {
  if (result == cudaSuccess) return 0;
  cudaGetLastError();
  at(on).succeeded(result, operation);
  return sticky();
}

Status CudaDevice::done(cudaError_t result, const char* operation) {
  if (result == cudaSuccess) return 0;
  cudaGetLastError();
  return keep_failure(code_of(result), operation, cudaGetErrorName(result), cudaGetErrorString(result));
}

Status CudaDevice::failed(Code code, const char* format, ...) {
  failure.code = static_cast<int32_t>(code);
  va_list values;
  va_start(values, format);
  vsnprintf(failure.message, sizeof failure.message, format, values);
  va_end(values);
  return failure.code;
}

Status CudaDevice::failed(const StickyError& error) {
  failure = error;
  return failure.code;
}

/// Each stream's thread stores its own error. Once there is a code, the message no longer changes.
Status CudaDevice::sticky() {
  for (const Queue& queue : queues_)
    if (__atomic_load_n(&queue.sticky.code, __ATOMIC_ACQUIRE) != 0) return failed(queue.sticky);
  return 0;
}

}  // namespace hawser::device
