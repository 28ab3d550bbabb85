// NCCL library: the part of NCCL that the engine uses, as a table of functions. The library is opened when
// ranks on several GPUs first connect, and its header is not needed to build. Numbers and structs are those
// of nccl.h 2.18 and newer (tests/comm/nccl/header_check.cc compares them with that header if it is
// available). Part of the CUDA plugin, so it uses no exceptions and nothing of the C++ library.
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

namespace hawser::comm::nccl {

constexpr int kSuccess = 0, kInvalidUsage = 5, kInProgress = 7;  // ncclResult_t
constexpr int kUint8 = 1;                                        // ncclDataType_t
constexpr int kFirstVersion = 21800;  // non-blocking communicators; this struct of options
constexpr int kEndOfVersions = 30000;

struct UniqueId {
  char internal[128];
};

/// ncclConfig_t of 2.18; later versions read only the first `size` bytes.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kFirstVersion;
  int blocking = 0;  ///< calls return kInProgress instead of waiting
  int cga_cluster_size = INT_MIN, min_ctas = INT_MIN, max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;  ///< read by 2.25 and later; padding for earlier versions
};

using Comm = void*;

/// Each member is the function of that name after "nccl"; statuses are ncclResult_t, streams cudaStream_t.
struct Api {
  int (*GetVersion)(int* version);
  int (*GetUniqueId)(UniqueId* id);
  const char* (*GetErrorString)(int result);
  const char* (*GetLastError)(Comm);
  int (*CommInitRankConfig)(Comm*, int ranks, UniqueId id, int rank, Config*);
  int (*CommGetAsyncError)(Comm, int* result);
  int (*CommFinalize)(Comm);
  int (*CommDestroy)(Comm);
  int (*CommAbort)(Comm);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*Send)(const void* data, size_t count, int type, int peer, Comm, void* stream);
  int (*Recv)(void* data, size_t count, int type, int peer, Comm, void* stream);
  int (*AllGather)(const void* shard, void* full, size_t shard_count, int type, Comm, void* stream);

  // Registration of memory, in NCCL 2.19 and newer. All four are null if the library lacks it; the reason is
  // then in `without_registration`.
  int (*MemAlloc)(void** memory, size_t bytes);
  int (*MemFree)(void* memory);
  int (*CommRegister)(Comm, void* memory, size_t bytes, void** handle);
  int (*CommDeregister)(Comm, void* handle);
  char without_registration[160];
};

/// Name under which the loader finds the library.
inline constexpr const char* kLibraryName = "libnccl.so.2";

/// Opens `name` once for each process; it stays open. On failure returns null and writes the reason (the
/// loader's message, a missing function, or the version) to error.
const Api* open_library(const char* name, char* error, size_t error_bytes);

}  // namespace hawser::comm::nccl
