// The functions of NVIDIA's driver library that cuDNN and NVRTC need to make plans without a GPU. Loading a
// kernel succeeds, and nothing can run. cudnn_plans.sh adds every other function of cuda.h, which answers
// "no device".
#include <stddef.h>

enum { kSuccess = 0 };

static void* const kSomething = (void*)0x1000;

int cuInit(unsigned flags) { return (void)flags, kSuccess; }
int cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
int cuGetErrorString(int error, const char** text) {
  return (void)error, *text = "there is no GPU", kSuccess;
}

int cuLibraryLoadData(void** library, ...) { return *library = kSomething, kSuccess; }
int cuLibraryUnload(void) { return kSuccess; }
int cuLibraryGetKernel(void** kernel, ...) { return *kernel = kSomething, kSuccess; }
int cuKernelGetFunction(void** function, ...) { return *function = kSomething, kSuccess; }
int cuKernelSetAttribute(void) { return kSuccess; }

int cuModuleLoadData(void** module, ...) { return *module = kSomething, kSuccess; }
int cuModuleLoadDataEx(void** module, ...) { return *module = kSomething, kSuccess; }
int cuModuleUnload(void) { return kSuccess; }
int cuModuleGetFunction(void** function, ...) { return *function = kSomething, kSuccess; }

int cuFuncSetAttribute(void) { return kSuccess; }
int cuFuncSetCacheConfig(void) { return kSuccess; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, ...) { return *blocks = 1, kSuccess; }

// The version of cuBLASLt, which cuDNN asks for when it is loaded. Attention does not use that library.
size_t cublasLtGetVersion(void) { return 130100; }
size_t cublasLtGetCudartVersion(void) { return 13000; }
