// The plugin's entry: the only function that libhawser_cuda.so exports.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/code.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/peers.h"

namespace hawser::device {
namespace {

using kernels::cuda::StickyError;

constexpr auto kNoDevice = static_cast<Status>(Code::kDeviceUnavailable);

/// "13.0" for 13000, CUDA's encoding of versions.
struct VersionText {
  explicit VersionText(int version) {
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
  }
  char text[16];
};

/// Writes what was found instead of a GPU, what is needed, and what to do.
void explain_absence(cudaError_t result, char* error, int64_t error_bytes) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);  // 0 if there is none
  cudaRuntimeGetVersion(&runtime);
  const VersionText found(driver), needed(runtime);
  char reason[192];
  const char* advice = "install the driver";
  if (driver == 0) {
    snprintf(reason, sizeof reason,
             "this machine has no NVIDIA driver (libcuda.so.1 was not found), and this library needs one for "
             "CUDA %s or newer",
             needed.text);
  } else if (result == cudaErrorInsufficientDriver) {
    snprintf(reason, sizeof reason,
             "the NVIDIA driver here is for CUDA %s, and this library needs one for CUDA %s or newer",
             found.text, needed.text);
    advice = "update the driver";
  } else {
    snprintf(reason, sizeof reason,
             "the NVIDIA driver here, for CUDA %s, finds no GPU, and this library needs one of compute "
             "capability %d.0 or newer",
             found.text, CudaDevice::kOldestMajor);
    advice = "check which GPUs nvidia-smi lists and CUDA_VISIBLE_DEVICES allows";
  }
  snprintf(error, static_cast<size_t>(error_bytes),
           "no CUDA device: %s [cudaGetDeviceCount: %s (%d): %s]; %s, or use \"cpu\"", reason,
           cudaGetErrorName(result), static_cast<int>(result), cudaGetErrorString(result), advice);
}

/// Names of devices, which live as long as the library. Every call of list writes the same names.
struct Names {
  static constexpr int kMost = 64;
  char text[kMost][256];
};

Status list_into(Names& names, DeviceInfo* out, int32_t capacity, int32_t* count, char* error,
                 int64_t error_bytes) {
  *count = 0;
  int found = 0;
  const cudaError_t result = cudaGetDeviceCount(&found);
  cudaGetLastError();
  if (result != cudaSuccess) {
    explain_absence(result, error, error_bytes);
    return kNoDevice;
  }
  for (int i = 0; i < found && i < capacity && i < Names::kMost; ++i) {
    cudaDeviceProp properties;
    const cudaError_t asked = cudaGetDeviceProperties(&properties, i);
    if (asked != cudaSuccess) {
      cudaGetLastError();
      snprintf(error, static_cast<size_t>(error_bytes),
               "GPU %d does not answer [cudaGetDeviceProperties: %s: %s]", i, cudaGetErrorName(asked),
               cudaGetErrorString(asked));
      return kNoDevice;
    }
    snprintf(names.text[i], sizeof names.text[i], "%s", properties.name);
    out[i] = DeviceInfo{.kind = Kind::kCuda,
                        .index = i,
                        .name = names.text[i],
                        .total_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                        .captures = true};
    memcpy(out[i].hardware_id, &properties.uuid, sizeof out[i].hardware_id);
  }
  *count = found;
  return 0;
}

Status list(DeviceInfo* out, int32_t capacity, int32_t* count, char* error, int64_t error_bytes) {
  static Names names;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  const Status status = list_into(names, out, capacity, count, error, error_bytes);
  pthread_mutex_unlock(&mutex);
  return status;
}

Status open(const DeviceRequest* request, Device** out, char* error, int64_t error_bytes) {
  StickyError failure;
  *out = CudaDevice::open(*request, &failure);
  if (*out != nullptr) return 0;
  snprintf(error, static_cast<size_t>(error_bytes), "%s", failure.message);
  return failure.code;
}

constexpr DevicePlugin kPlugin = {HAWSER_DEVICE_BUILD_ID, &list, &open, &why_no_peers};

}  // namespace
}  // namespace hawser::device

extern "C" __attribute__((visibility("default"))) const hawser::device::DevicePlugin* hawser_device_plugin() {
  return &hawser::device::kPlugin;
}
