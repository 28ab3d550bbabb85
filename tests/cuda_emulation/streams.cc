#include "tests/cuda_emulation/streams.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/block.h"

namespace {

using hawser::cuda_emulation::Work;

/// Work recorded between begin and end, in the order of submission, which respects every wait.
struct Capture {
  std::vector<Work> work;
  cudaStream_t origin = nullptr;
  std::vector<cudaStream_t> streams;  ///< origin, and those that waited for one of these
  bool broken = false;
};

}  // namespace

struct CUstream_st {
  /// The context in which it was made; it must be current when work is submitted.
  void* context = nullptr;
  std::deque<Work> queue;
  uint64_t given = 0, done = 0;
  std::shared_ptr<Capture> capture;
  bool joined = true;  ///< captured: another stream waits for its last work
};

struct CUevent_st {
  CUstream_st* stream = nullptr;  ///< null: never recorded
  uint64_t position = 0;          ///< it happens when stream->done reaches it
  double seconds = -1;
  std::shared_ptr<Capture> capture;
};

struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

namespace {

struct Gpu {
  std::recursive_mutex mutex;
  bool eager = false;
  cudaError_t broken = cudaSuccess;
  int64_t streams = 0, events = 0, graphs = 0;
};

/// It is never destroyed, because other statics may outlive it.
Gpu& gpu() {
  static Gpu& gpu = *new Gpu;
  return gpu;
}

using Lock = std::lock_guard<std::recursive_mutex>;

std::atomic<int64_t> passed_seconds{0};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() +
         static_cast<double>(passed_seconds.load());
}

/// Runs work; a broken GPU runs nothing more. Returns false if the work cannot run yet.
bool run(const Work& work) {
  Gpu& g = gpu();
  if (g.broken != cudaSuccess) return true;
  const cudaError_t result = work();
  if (result == cudaErrorNotReady) return false;
  g.broken = result;
  return true;
}

/// Returns true when the stream has reached `position`.
bool run_until(CUstream_st& stream, uint64_t position) {
  while (stream.done < position) {
    if (!run(stream.queue.front())) return false;
    stream.queue.pop_front();
    ++stream.done;
  }
  return true;
}

uint64_t given_to(CUstream_st& stream) {
  const Lock lock(gpu().mutex);
  return stream.given;
}

/// Waits without the lock, because another rank may have to run first, and it needs the lock.
void finish(CUstream_st& stream, uint64_t position) {
  for (;;) {
    {
      const Lock lock(gpu().mutex);
      if (run_until(stream, position)) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void queue(CUstream_st& stream, Work work) {
  stream.queue.push_back(std::move(work));
  ++stream.given;
  if (gpu().eager) run_until(stream, stream.given);
}

}  // namespace

namespace hawser::cuda_emulation {
// These are defined in memory.cc.
int64_t allocations_alive();
int64_t contexts_alive();
void* current();
}  // namespace hawser::cuda_emulation

namespace {

using hawser::cuda_emulation::current;

/// In thread-local mode, a capture concerns only calls of its own thread.
thread_local std::shared_ptr<Capture> begun_here;

cudaError_t refuse(const std::shared_ptr<Capture>& capture) {
  if (!capture) return cudaSuccess;
  capture->broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace

namespace hawser::cuda_emulation {

cudaError_t refuse_in_capture() {
  const Lock lock(gpu().mutex);
  return refuse(begun_here);
}

cudaError_t refuse_in_capture(cudaStream_t stream) {
  const Lock lock(gpu().mutex);
  return stream != nullptr ? refuse(stream->capture) : cudaSuccess;
}

cudaError_t give(cudaStream_t stream, Work work) {
  if (records_launches()) return cudaSuccess;
  if (stream == nullptr) return work();
  if (current() != stream->context) return cudaErrorInvalidResourceHandle;
  const Lock lock(gpu().mutex);
  if (stream->capture && stream->capture->broken) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture) {
    stream->capture->work.push_back(std::move(work));
    stream->joined = stream == stream->capture->origin;
    return cudaSuccess;
  }
  queue(*stream, std::move(work));
  return gpu().eager ? gpu().broken : cudaSuccess;
}

void pass_seconds(int64_t seconds) { passed_seconds += seconds; }

void set_eager(bool eager) { gpu().eager = eager; }

void break_device(cudaError_t error) {
  const Lock lock(gpu().mutex);
  gpu().broken = error;
}

namespace {
Alive streams_alive() { return {.streams = gpu().streams, .events = gpu().events, .graphs = gpu().graphs}; }
}  // namespace

Alive alive() {
  Alive alive = streams_alive();
  alive.allocations = allocations_alive();
  alive.contexts = contexts_alive();
  return alive;
}

}  // namespace hawser::cuda_emulation

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned, int) {
  const Lock lock(gpu().mutex);
  ++gpu().streams;
  *out = new CUstream_st;
  (*out)->context = current();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  finish(*stream, given_to(*stream));
  const Lock lock(gpu().mutex);
  delete stream;
  if (--gpu().streams == 0) gpu().broken = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t refused = hawser::cuda_emulation::refuse_in_capture(stream); refused != cudaSuccess)
    return refused;
  finish(*stream, given_to(*stream));
  const Lock lock(gpu().mutex);
  return gpu().broken;
}

/// A query runs the work, like a wait, so a caller that queries often enough sees it done.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(gpu().mutex);
  if (stream->capture) return refuse(stream->capture);
  if (!run_until(*stream, stream->given)) return cudaErrorNotReady;
  return gpu().broken;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  const Lock lock(gpu().mutex);
  ++gpu().events;
  *out = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event->stream != nullptr && !event->capture) finish(*event->stream, event->position);
  const Lock lock(gpu().mutex);
  --gpu().events;
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (current() != stream->context) return cudaErrorInvalidResourceHandle;
  const Lock lock(gpu().mutex);
  event->stream = stream;
  event->capture = stream->capture;
  event->seconds = -1;
  if (stream->capture) {
    event->position = stream->capture->work.size();
    return cudaSuccess;
  }
  queue(*stream, [event] {
    event->seconds = now();
    return cudaSuccess;
  });
  event->position = stream->given;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(gpu().mutex);
  if (event->stream == nullptr) return cudaSuccess;
  if (event->capture) {  // the waiting stream joins the capture
    if (stream->capture && stream->capture != event->capture) return cudaErrorStreamCaptureIsolation;
    if (!stream->capture) {
      stream->capture = event->capture;
      stream->capture->streams.push_back(stream);
    }
    if (event->stream != stream) event->stream->joined = true;
    return cudaSuccess;
  }
  if (stream->capture) {
    stream->capture->broken = true;
    return cudaErrorStreamCaptureIsolation;
  }
  queue(*stream, [from = event->stream, position = event->position] {
    return run_until(*from, position) ? cudaSuccess : cudaErrorNotReady;
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream == nullptr) return cudaSuccess;
  if (const cudaError_t refused = hawser::cuda_emulation::refuse_in_capture(); refused != cudaSuccess)
    return refused;
  if (event->capture) return refuse(event->capture);
  finish(*event->stream, event->position);
  const Lock lock(gpu().mutex);
  return gpu().broken;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(gpu().mutex);
  if (event->capture) return refuse(event->capture);
  if (event->stream != nullptr && !run_until(*event->stream, event->position)) return cudaErrorNotReady;
  return gpu().broken;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Lock lock(gpu().mutex);
  *milliseconds = 0;
  if (from->stream == nullptr || to->stream == nullptr) return cudaErrorInvalidValue;
  if (from->seconds < 0 || to->seconds < 0) return cudaErrorNotReady;
  *milliseconds = static_cast<float>((to->seconds - from->seconds) * 1e3);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Lock lock(gpu().mutex);
  if (stream->capture || begun_here) return cudaErrorInvalidValue;
  stream->capture = begun_here = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->streams = {stream};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  const Lock lock(gpu().mutex);
  *out = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture || capture->origin != stream) return cudaErrorInvalidValue;
  if (capture != begun_here) return cudaErrorInvalidValue;  // begun by another thread
  begun_here = nullptr;
  bool joined = true;
  for (CUstream_st* captured : capture->streams) {
    joined = joined && captured->joined;
    captured->capture = nullptr;
    captured->joined = true;
  }
  if (capture->broken) return cudaErrorStreamCaptureUnsupported;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *out = new CUgraph_st{capture->work};
  ++gpu().graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  const Lock lock(gpu().mutex);
  *out = new CUgraphExec_st{graph->work};
  ++gpu().graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(gpu().mutex);
  delete graph;
  --gpu().graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const Lock lock(gpu().mutex);
  delete graph;
  --gpu().graphs;
  return cudaSuccess;
}

/// Submits piece by piece, because one piece may have to wait for another rank.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (const Work& piece : graph->work) {
    if (const cudaError_t result = hawser::cuda_emulation::give(stream, piece); result != cudaSuccess)
      return result;
  }
  return cudaSuccess;
}
