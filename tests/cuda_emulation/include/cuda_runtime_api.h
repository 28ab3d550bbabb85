// The part of <cuda_runtime_api.h> that our host code uses, for g++, over host memory. Streams are queues,
// which run as late as the rules of CUDA allow: work runs when the host waits for it, so that a missing wait
// shows (streams.h).
#pragma once

#include <stddef.h>

#include "cuda_runtime.h"

using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

inline constexpr cudaError_t cudaErrorInsufficientDriver = static_cast<cudaError_t>(35);
inline constexpr cudaError_t cudaErrorNoDevice = static_cast<cudaError_t>(100);
inline constexpr cudaError_t cudaErrorInvalidDevice = static_cast<cudaError_t>(101);
inline constexpr cudaError_t cudaErrorInvalidResourceHandle = static_cast<cudaError_t>(400);
inline constexpr cudaError_t cudaErrorSymbolNotFound = static_cast<cudaError_t>(500);
inline constexpr cudaError_t cudaErrorNotReady = static_cast<cudaError_t>(600);
inline constexpr cudaError_t cudaErrorStreamCaptureUnsupported = static_cast<cudaError_t>(900);
inline constexpr cudaError_t cudaErrorStreamCaptureInvalidated = static_cast<cudaError_t>(901);
inline constexpr cudaError_t cudaErrorStreamCaptureUnjoined = static_cast<cudaError_t>(904);
inline constexpr cudaError_t cudaErrorStreamCaptureIsolation = static_cast<cudaError_t>(905);

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1
};

inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventWaitDefault = 0,
                          cudaHostAllocPortable = 1;
inline constexpr unsigned long long cudaEnableDefault = 0;

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlockOptin;
  int multiProcessorCount, major, minor;
  struct {
    char bytes[16];
  } uuid;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* answer);

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
cudaError_t cudaMalloc(void** out, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
