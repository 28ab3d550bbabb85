// Opening cuBLASLt.
#include "kernels/cuda/cublaslt_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <mutex>

namespace hawser::kernels::cuda {
namespace {

constexpr size_t kFirstVersion = 130000,
                 kEndOfVersions = 140000;  // of GetVersion: 10000 major + 100 minor + patch

template <class Function>
bool find(void* library, const char* name, Function*& function, char* error, size_t error_bytes) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) std::snprintf(error, error_bytes, "%s has no %s", kCublasLtName, name);
  return function != nullptr;
}

bool fill(void* library, CublasLtApi& api, char* error, size_t bytes) {
  return find(library, "cublasLtCreate", api.Create, error, bytes) &&
         find(library, "cublasLtDestroy", api.Destroy, error, bytes) &&
         find(library, "cublasLtGetVersion", api.GetVersion, error, bytes) &&
         find(library, "cublasLtGetStatusName", api.GetStatusName, error, bytes) &&
         find(library, "cublasLtMatmulDescCreate", api.MatmulDescCreate, error, bytes) &&
         find(library, "cublasLtMatmulDescDestroy", api.MatmulDescDestroy, error, bytes) &&
         find(library, "cublasLtMatmulDescSetAttribute", api.MatmulDescSetAttribute, error, bytes) &&
         find(library, "cublasLtMatrixLayoutCreate", api.MatrixLayoutCreate, error, bytes) &&
         find(library, "cublasLtMatrixLayoutDestroy", api.MatrixLayoutDestroy, error, bytes) &&
         find(library, "cublasLtMatmulPreferenceCreate", api.MatmulPreferenceCreate, error, bytes) &&
         find(library, "cublasLtMatmulPreferenceDestroy", api.MatmulPreferenceDestroy, error, bytes) &&
         find(library, "cublasLtMatmulPreferenceSetAttribute", api.MatmulPreferenceSetAttribute, error,
              bytes) &&
         find(library, "cublasLtMatmulAlgoGetHeuristic", api.MatmulAlgoGetHeuristic, error, bytes) &&
         find(library, "cublasLtMatmul", api.Matmul, error, bytes);
}

}  // namespace

const CublasLtApi* open_cublaslt(char* error, size_t error_bytes) {
  static std::mutex mutex;
  static CublasLtApi api;
  static bool opened = false;
  const std::lock_guard lock(mutex);
  if (opened) return &api;
  void* library = dlopen(kCublasLtName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    std::snprintf(error, error_bytes, "cannot open %s: %s", kCublasLtName,
                  why != nullptr ? why : "no reason given");
    return nullptr;
  }
  if (!fill(library, api, error, error_bytes)) return nullptr;
  const size_t version = api.GetVersion();
  if (version < kFirstVersion || version >= kEndOfVersions) {
    std::snprintf(error, error_bytes, "%s is version %zu; needs 13 (%zu to %zu)", kCublasLtName, version,
                  kFirstVersion, kEndOfVersions - 1);
    return nullptr;
  }
  opened = true;
  return &api;
}

}  // namespace hawser::kernels::cuda
