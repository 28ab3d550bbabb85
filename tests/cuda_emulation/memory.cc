// The emulated GPUs, their memory and their contexts. New memory is full of NaN.
#include <stdlib.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "tests/cuda_emulation/streams.h"

namespace hawser::cuda_emulation {
namespace {

constexpr int kRuntimeVersion = 13000;

struct Memory {
  std::mutex mutex;
  int devices = 1;
  int driver = kRuntimeVersion;
  void (*before_count)() = nullptr;
  int capability = 90;  // ten times the compute capability
  const char* names[4] = {"emulated GPU", "emulated GPU", "emulated GPU", "emulated GPU"};
  int64_t bytes = int64_t{2} << 30, taken = 0, contexts = 0;
  std::map<void*, size_t> on_device, pinned;
};

Memory& memory() {
  static Memory& memory = *new Memory;
  return memory;
}

using Lock = std::lock_guard<std::mutex>;

/// Alignment as by the driver: multiples of 512 bytes, and of its pieces of 2 MiB if complete pieces are
/// requested.
constexpr size_t kSteps = 512, kPiece = size_t{2} << 20, kPages = 4096;

bool holds(const std::map<void*, size_t>& blocks, const void* p) {
  auto after = blocks.upper_bound(const_cast<void*>(p));
  if (after == blocks.begin()) return false;
  const auto& [begin, bytes] = *--after;
  return p < static_cast<char*>(begin) + bytes;
}

/// True for device memory and pinned memory.
bool is_known(const void* p) {
  const Lock lock(memory().mutex);
  return holds(memory().on_device, p) || holds(memory().pinned, p);
}

cudaError_t take(std::map<void*, size_t>& from, void** out, size_t bytes) {
  const size_t before = bytes % kPiece == 0 ? 0 : kSteps;
  void* memory = nullptr;
  if (posix_memalign(&memory, kPages, before + bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(memory, 0xff, before + bytes);
  *out = static_cast<char*>(memory) + before;
  from[*out] = bytes;
  return cudaSuccess;
}

void give_back(std::map<void*, size_t>::iterator taken) {
  free(static_cast<char*>(taken->first) - (taken->second % kPiece == 0 ? 0 : kSteps));
}

// Driver calls. A context is its GPU's number plus one.

thread_local void* current_context = nullptr;

int init(unsigned) { return 0; }
int device_get(int* out, int ordinal) {
  *out = ordinal;
  return ordinal < memory().devices ? 0 : cudaErrorInvalidDevice;
}
int retain(void** context, int device) {
  const Lock lock(memory().mutex);
  ++memory().contexts;
  *context = reinterpret_cast<void*>(static_cast<uintptr_t>(device + 1));
  return 0;
}
int release(int) {
  const Lock lock(memory().mutex);
  --memory().contexts;
  return 0;
}
int get_current(void** context) {
  *context = current_context;
  return 0;
}
int push_current(void* context) {
  current_context = context;
  return 0;
}
int pop_current(void** context) {
  *context = current_context;
  current_context = nullptr;
  return 0;
}

template <class Call>
bool name_is(std::string_view symbol, std::string_view name, Call call, void** out) {
  if (symbol == name) *out = reinterpret_cast<void*>(call);
  return symbol == name;
}

}  // namespace

void set_devices(int devices) { memory().devices = devices; }
void set_driver(int version) { memory().driver = version; }
void before_count(void (*call)()) { memory().before_count = call; }
void set_name(int device, const char* name) { memory().names[device] = name; }
void set_capability(int tenfold) { memory().capability = tenfold; }
void set_memory(int64_t bytes) { memory().bytes = bytes; }

int64_t allocations_alive() {
  const Lock lock(memory().mutex);
  return static_cast<int64_t>(memory().on_device.size() + memory().pinned.size());
}
int64_t contexts_alive() { return memory().contexts; }
void* current() { return current_context; }

}  // namespace hawser::cuda_emulation

using namespace hawser::cuda_emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  if (memory().before_count != nullptr) memory().before_count();
  *count = 0;
  if (memory().driver < kRuntimeVersion) return cudaErrorInsufficientDriver;
  *count = memory().devices;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (device >= memory().devices) return cudaErrorInvalidDevice;
  *out = {{},
          static_cast<size_t>(memory().bytes),
          227 << 10,
          2,
          memory().capability / 10,
          memory().capability % 10,
          {}};
  std::strncpy(out->name, memory().names[device % 4], sizeof(out->name) - 1);
  out->uuid.bytes[0] = static_cast<char>(device + 1);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = memory().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntimeVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* answer) {
  const bool found = name_is(symbol, "cuInit", &init, out) ||
                     name_is(symbol, "cuDeviceGet", &device_get, out) ||
                     name_is(symbol, "cuDevicePrimaryCtxRetain", &retain, out) ||
                     name_is(symbol, "cuDevicePrimaryCtxRelease", &release, out) ||
                     name_is(symbol, "cuCtxGetCurrent", &get_current, out) ||
                     name_is(symbol, "cuCtxPushCurrent", &push_current, out) ||
                     name_is(symbol, "cuCtxPopCurrent", &pop_current, out);
  *answer = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const Lock lock(memory().mutex);
  *free_bytes = static_cast<size_t>(memory().bytes - memory().taken);
  *total_bytes = static_cast<size_t>(memory().bytes);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, size_t bytes) {
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  const Lock lock(memory().mutex);
  if (static_cast<int64_t>(bytes) > memory().bytes - memory().taken) return cudaErrorMemoryAllocation;
  const cudaError_t result = take(memory().on_device, out, bytes);
  if (result == cudaSuccess) memory().taken += static_cast<int64_t>(bytes);
  return result;
}

cudaError_t cudaFree(void* pointer) {
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  const Lock lock(memory().mutex);
  const auto at = memory().on_device.find(pointer);
  if (at == memory().on_device.end()) return cudaErrorInvalidValue;
  memory().taken -= static_cast<int64_t>(at->second);
  give_back(at);
  memory().on_device.erase(at);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  const Lock lock(memory().mutex);
  return take(memory().pinned, out, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  const Lock lock(memory().mutex);
  const auto at = memory().pinned.find(pointer);
  if (at == memory().pinned.end()) return cudaErrorInvalidValue;
  give_back(at);
  memory().pinned.erase(at);
  return cudaSuccess;
}

/// Copies from or to host memory that is not pinned may block, so captures must not contain them.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (!is_known(to) || !is_known(from)) {
    if (const cudaError_t refused = refuse_in_capture(stream); refused != cudaSuccess) return refused;
  }
  return give(stream, [=] {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return give(stream, [=] {
    std::memset(to, value, bytes);
    return cudaSuccess;
  });
}
