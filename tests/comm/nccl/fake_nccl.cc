#include "tests/comm/nccl/fake_nccl.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace hawser::testing {
namespace {

using comm::nccl::Comm;
using comm::nccl::Config;
using comm::nccl::kInProgress;
using comm::nccl::kInvalidUsage;
using comm::nccl::kSuccess;
using comm::nccl::UniqueId;

constexpr int kSystemError = 2, kRemoteError = 6;

using Message = std::vector<char>;

/// The state that the ranks of one id share.
struct Fabric {
  std::mutex mutex;
  std::atomic<int> joined{0};
  std::atomic<bool> dead{false};
  std::map<std::pair<int, int>, std::deque<Message>> under_way;  ///< keyed by (from, to)
};

struct Range {
  const char* begin;
  size_t bytes;
  bool contains(const void* memory, size_t size) const {
    const auto* const at = static_cast<const char*>(memory);
    return at >= begin && at + size <= begin + bytes;
  }
};

struct Rank {
  std::shared_ptr<Fabric> fabric;
  int rank = 0, ranks = 0;
  std::atomic<int> error{kSuccess};
  std::list<Range> ranges;  ///< that are registered; guarded by registrations.mutex
};

/// What all communicators have registered.
struct Registrations {
  std::mutex mutex;
  std::multiset<const void*> begins;
  FakeRegistrations counts;
  std::atomic<int> failing_rank{-1};
};
Registrations& registrations() {
  static auto& registrations = *new Registrations;
  return registrations;
}

/// A communicator is a reference: work that is still in a stream keeps the rank alive.
using Handle = std::shared_ptr<Rank>;
const Handle& rank_of(Comm comm) { return *static_cast<Handle*>(comm); }

std::mutex fabrics_mutex;
std::map<std::string, std::shared_ptr<Fabric>>& fabrics() {
  static auto& fabrics = *new std::map<std::string, std::shared_ptr<Fabric>>;
  return fabrics;
}
std::atomic<int64_t> alive{0};

struct Part {
  const void* in;  ///< null for a receive
  void* out;
  size_t bytes;
  int peer;
};

/// The calls between start and end run together.
struct Group {
  int depth = 0;
  Handle rank;
  void* stream = nullptr;
  std::vector<Part> sends, receives;
};
thread_local Group group;

void check_range(const Rank& rank, const Part& part) {
  const void* const memory = part.in != nullptr ? part.in : part.out;
  const std::lock_guard lock(registrations().mutex);
  if (!rank.ranges.empty() && std::none_of(rank.ranges.begin(), rank.ranges.end(),
                                           [&](const Range& r) { return r.contains(memory, part.bytes); }))
    ++registrations().counts.outside;
}

int give(Comm comm, void* stream, const Part& part) {
  if (group.depth == 0) return kInvalidUsage;
  group.rank = rank_of(comm);
  group.stream = stream;
  check_range(*group.rank, part);
  (part.in != nullptr ? group.sends : group.receives).push_back(part);
  return kSuccess;
}

/// Receives the message if it has arrived; returns true if so. A message of another size is never received:
/// members that disagree hang.
bool received(Rank& rank, const Part& part) {
  std::deque<Message>& waiting = rank.fabric->under_way[{part.peer, rank.rank}];
  if (waiting.empty()) return false;
  if (waiting.front().size() != part.bytes) {
    rank.error = kInvalidUsage;
    return false;
  }
  std::memcpy(part.out, waiting.front().data(), part.bytes);
  waiting.pop_front();
  return true;
}

bool run(Group& g) {
  Rank& rank = *g.rank;
  const std::lock_guard lock(rank.fabric->mutex);
  if (rank.fabric->dead) return true;  // the kernels of an aborted communicator end
  for (const Part& part : g.sends) {
    const char* const data = static_cast<const char*>(part.in);
    rank.fabric->under_way[{rank.rank, part.peer}].emplace_back(data, data + part.bytes);
  }
  g.sends.clear();
  std::erase_if(g.receives, [&](const Part& part) { return received(rank, part); });
  return g.receives.empty();
}

int group_end() {
  if (--group.depth > 0) return kSuccess;
  if (group.rank != nullptr) {
    void* const stream = group.stream;
    give_to_stream(stream, [ended = std::move(group)]() mutable { return run(ended); });
  }
  group = {};
  return kSuccess;
}

int get_unique_id(UniqueId* id) {
  static std::atomic<int> next{1};
  std::snprintf(id->internal, sizeof id->internal, "id %d", next.fetch_add(1));
  return kSuccess;
}

int init(Comm* out, int ranks, UniqueId id, int rank, Config* config) {
  if (config->blocking != 0 || config->magic != 0xcafebeef) return kInvalidUsage;
  const std::lock_guard lock(fabrics_mutex);
  std::shared_ptr<Fabric>& fabric = fabrics()[id.internal];
  if (fabric == nullptr) fabric = std::make_shared<Fabric>();
  ++fabric->joined;
  auto handle = std::make_unique<Handle>(std::make_shared<Rank>());
  (*handle)->fabric = fabric;
  (*handle)->rank = rank;
  (*handle)->ranks = ranks;
  *out = handle.release();
  ++alive;
  return kInProgress;
}

int get_async_error(Comm comm, int* result) {
  Rank& rank = *rank_of(comm);
  *result = rank.error != kSuccess             ? rank.error.load()
            : rank.fabric->dead                ? kRemoteError
            : rank.fabric->joined < rank.ranks ? kInProgress
                                               : kSuccess;
  return kSuccess;
}

int enroll(Comm comm, void* memory, size_t bytes, void** handle) {
  Rank& rank = *rank_of(comm);
  *handle = nullptr;
  if (rank.rank == registrations().failing_rank) return kSystemError;
  const std::lock_guard lock(registrations().mutex);
  rank.ranges.push_back({static_cast<const char*>(memory), bytes});
  registrations().begins.insert(memory);
  ++registrations().counts.ranges;
  *handle = &rank.ranges.back();
  return kSuccess;
}

/// Removes the range of this handle, or all for null.
int remove(Rank& rank, const void* handle) {
  const std::lock_guard lock(registrations().mutex);
  const auto removed = std::erase_if(rank.ranges, [&](const Range& range) {
    if (handle != nullptr && handle != &range) return false;
    registrations().begins.erase(registrations().begins.find(range.begin));
    --registrations().counts.ranges;
    return true;
  });
  return removed > 0 || handle == nullptr ? kSuccess : kInvalidUsage;
}

int free_memory(void* memory) {
  {
    const std::lock_guard lock(registrations().mutex);
    if (registrations().begins.contains(memory)) {
      std::fputs("ncclMemFree: the memory is still registered\n", stderr);
      std::abort();
    }
  }
  free_device_memory(memory);
  return kSuccess;
}

/// An aborted communicator ends its registrations.
int end(Comm comm, bool dies) {
  if (dies) rank_of(comm)->fabric->dead = true;
  if (dies) remove(*rank_of(comm), nullptr);
  delete static_cast<Handle*>(comm);
  --alive;
  return kSuccess;
}

std::atomic<bool> aborts_wait = false;

int abort(Comm comm) {
  rank_of(comm)->fabric->dead = true;
  while (aborts_wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return end(comm, true);
}

int all_gather(const void* shard, void* full, size_t count, int, Comm comm, void* stream) {
  for (int peer = 0; peer < rank_of(comm)->ranks; ++peer) {
    give(comm, stream, {shard, nullptr, count, peer});
    give(comm, stream, {nullptr, static_cast<char*>(full) + static_cast<size_t>(peer) * count, count, peer});
  }
  return kSuccess;
}

const char* error_string(int result) {
  return result == kRemoteError   ? "remote process exited or there was a network error"
         : result == kSystemError ? "unhandled system error"
                                  : "invalid usage";
}

}  // namespace

int64_t fake_communicators() { return alive; }

FakeRegistrations fake_registrations() {
  const std::lock_guard lock(registrations().mutex);
  return registrations().counts;
}

void fail_registrations_of(int rank) { registrations().failing_rank = rank; }

void hold_aborts(bool hold) { aborts_wait = hold; }

const comm::nccl::Api& fake_nccl() {
  static constexpr comm::nccl::Api kApi = {
      .GetVersion = [](int* version) { return *version = 22809, kSuccess; },
      .GetUniqueId = &get_unique_id,
      .GetErrorString = &error_string,
      .GetLastError = [](Comm) { return "detail of the library"; },
      .CommInitRankConfig = &init,
      .CommGetAsyncError = &get_async_error,
      .CommFinalize = [](Comm) { return kInProgress; },
      .CommDestroy = [](Comm comm) { return end(comm, false); },
      .CommAbort = &abort,
      .GroupStart = [] { return ++group.depth, kSuccess; },
      .GroupEnd = &group_end,
      .Send =
          [](const void* data, size_t n, int, int peer, Comm comm, void* stream) {
            return give(comm, stream, {data, nullptr, n, peer});
          },
      .Recv =
          [](void* data, size_t n, int, int peer, Comm comm, void* stream) {
            return give(comm, stream, {nullptr, data, n, peer});
          },
      .AllGather = &all_gather,
      .MemAlloc =
          [](void** memory, size_t bytes) {
            *memory = take_device_memory(bytes);
            return *memory != nullptr ? kSuccess : kSystemError;
          },
      .MemFree = &free_memory,
      .CommRegister = &enroll,
      .CommDeregister = [](Comm comm, void* handle) { return remove(*rank_of(comm), handle); },
      .without_registration = "",
  };
  return kApi;
}

}  // namespace hawser::testing
