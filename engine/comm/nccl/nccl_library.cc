// Opening NCCL.
#include "engine/comm/nccl/nccl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

namespace hawser::comm::nccl {
namespace {

template <class Function>
bool find(void* library, const char* name, Function*& function, char* error, size_t error_bytes) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) snprintf(error, error_bytes, "%s has no %s", kLibraryName, name);
  return function != nullptr;
}

bool fill(void* library, Api& api, char* error, size_t bytes) {
  return find(library, "ncclGetVersion", api.GetVersion, error, bytes) &&
         find(library, "ncclGetUniqueId", api.GetUniqueId, error, bytes) &&
         find(library, "ncclGetErrorString", api.GetErrorString, error, bytes) &&
         find(library, "ncclGetLastError", api.GetLastError, error, bytes) &&
         find(library, "ncclCommInitRankConfig", api.CommInitRankConfig, error, bytes) &&
         find(library, "ncclCommGetAsyncError", api.CommGetAsyncError, error, bytes) &&
         find(library, "ncclCommFinalize", api.CommFinalize, error, bytes) &&
         find(library, "ncclCommDestroy", api.CommDestroy, error, bytes) &&
         find(library, "ncclCommAbort", api.CommAbort, error, bytes) &&
         find(library, "ncclGroupStart", api.GroupStart, error, bytes) &&
         find(library, "ncclGroupEnd", api.GroupEnd, error, bytes) &&
         find(library, "ncclSend", api.Send, error, bytes) &&
         find(library, "ncclRecv", api.Recv, error, bytes) &&
         find(library, "ncclAllGather", api.AllGather, error, bytes);
}

const Api* open_locked(const char* name, char* error, size_t error_bytes) {
  static Api api;
  static bool opened = false;
  if (opened) return &api;
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    snprintf(error, error_bytes, "cannot open %s: %s", name, why != nullptr ? why : "no reason given");
    return nullptr;
  }
  if (!fill(library, api, error, error_bytes)) return nullptr;
  int version = 0;
  if (api.GetVersion(&version) != kSuccess || version < kFirstVersion || version >= kEndOfVersions) {
    snprintf(error, error_bytes, "%s is version %d; needs %d to %d (10000 major + 100 minor + patch)", name,
             version, kFirstVersion, kEndOfVersions - 1);
    return nullptr;
  }
  opened = true;
  return &api;
}

}  // namespace

const Api* open_library(const char* name, char* error, size_t error_bytes) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  const Api* const api = open_locked(name, error, error_bytes);
  pthread_mutex_unlock(&mutex);
  return api;
}

}  // namespace hawser::comm::nccl
