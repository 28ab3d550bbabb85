// A plugin for a machine whose driver, GPU, libraries or memory do not suffice. The environment variable
// HAWSER_GPU_FAULT names a file that contains the name of a fault. The file is read whenever GPUs are
// counted, so one process can try all faults, through any binding (tests/bindings/gpu_faults.json).
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "kernels/cuda/cublaslt_library.h"
#include "tests/cuda_emulation/streams.h"

namespace {

namespace emulation = hawser::cuda_emulation;

struct Fault {
  const char* name;
  int driver = 13000, gpus = 1, capability = 90;
  int64_t memory_bytes = int64_t{2} << 30;
  const char* cublaslt = HAWSER_CUBLASLT_13;  ///< the file that the loader finds
};

/// A library that could be opened stays open, so its faults must be tried before others that get that far.
constexpr Fault kFaults[] = {{.name = "no driver", .driver = 0},
                             {.name = "old driver", .driver = 12040},
                             {.name = "no GPU", .gpus = 0},
                             {.name = "old GPU", .capability = 75},
                             {.name = "no cuBLASLt", .cublaslt = "/nowhere/libcublasLt.so.13"},
                             {.name = "old cuBLASLt", .cublaslt = HAWSER_CUBLASLT_12},
                             {.name = "little memory", .memory_bytes = 64 << 10}};

const Fault* present = nullptr;

void set_fault() {
  const char* const path = std::getenv("HAWSER_GPU_FAULT");
  std::ifstream file(path != nullptr ? path : "");
  const std::string name((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const Fault& fault : kFaults)
    if (name == fault.name) present = &fault;
  if (present == nullptr || name != present->name) std::abort();
  emulation::set_driver(present->driver);
  emulation::set_devices(present->gpus);
  emulation::set_capability(present->capability);
  emulation::set_memory(present->memory_bytes);
}

[[maybe_unused]] const bool kSet = (emulation::before_count(&set_fault), true);

}  // namespace

// The linker replaces the plugin's calls of dlopen (--wrap).
extern "C" void* __real_dlopen(const char* name, int flags);
extern "C" void* __wrap_dlopen(const char* name, int flags) {
  const bool is_cublaslt = name != nullptr && std::strcmp(name, hawser::kernels::cuda::kCublasLtName) == 0;
  return __real_dlopen(is_cublaslt ? present->cublaslt : name, flags);
}
