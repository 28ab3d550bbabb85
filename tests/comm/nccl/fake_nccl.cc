#include "tests/comm/nccl/fake_nccl.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace hawser::testing {
namespace {

using comm::nccl::Comm;
using comm::nccl::Config;
using comm::nccl::kInProgress;
using comm::nccl::kSuccess;
using comm::nccl::UniqueId;

constexpr int kInvalidUsage = 5, kRemoteError = 6;

using Message = std::vector<char>;

/// What the ranks of one id share.
struct Fabric {
  std::mutex mutex;
  int joined = 0;
  std::atomic<bool> dead{false};
  std::map<std::pair<int, int>, std::deque<Message>> on_the_way;  ///< by (from, to)
};

struct Rank {
  std::shared_ptr<Fabric> fabric;
  int rank = 0, ranks = 0;
  int error = kSuccess;
};

struct Transfer {
  Rank* rank;
  void* out;  ///< null: a send, done when it was given
  size_t bytes;
  int peer;
};

std::mutex fabrics_mutex;
std::map<std::string, std::shared_ptr<Fabric>>& fabrics() {
  static auto& fabrics = *new std::map<std::string, std::shared_ptr<Fabric>>;
  return fabrics;
}
std::atomic<int64_t> alive{0};

struct Group {
  int depth = 0;
  std::vector<std::pair<FakeStream*, Transfer>> transfers;
};
thread_local Group group;

Rank* rank_of(Comm comm) { return static_cast<Rank*>(comm); }

int give(Rank* rank, FakeStream* stream, const void* in, void* out, size_t bytes, int peer) {
  if (group.depth == 0) return kInvalidUsage;
  if (in != nullptr) {
    const std::lock_guard lock(rank->fabric->mutex);
    const char* const data = static_cast<const char*>(in);
    rank->fabric->on_the_way[{rank->rank, peer}].emplace_back(data, data + bytes);
  } else {
    group.transfers.push_back({stream, {rank, out, bytes, peer}});
  }
  return kSuccess;
}

}  // namespace

struct FakeStream::Work {
  std::vector<Transfer> transfers;
};

FakeStream::~FakeStream() { delete work; }

namespace {

/// True if the message was there.
bool received(const Transfer& t) {
  const std::lock_guard lock(t.rank->fabric->mutex);
  std::deque<Message>& waiting = t.rank->fabric->on_the_way[{t.peer, t.rank->rank}];
  if (waiting.empty()) return false;
  if (waiting.front().size() != t.bytes) {
    t.rank->error = kInvalidUsage;
    return false;
  }
  std::memcpy(t.out, waiting.front().data(), t.bytes);
  waiting.pop_front();
  return true;
}

int poll(void* user, const char** why) {
  auto& stream = *static_cast<FakeStream*>(user);
  if (stream.fault != nullptr) {
    *why = stream.fault;
    return -1;
  }
  if (stream.work == nullptr) return 0;
  // In order from each peer.
  std::vector<Transfer>& left = stream.work->transfers;
  std::vector<Transfer> later;
  for (const Transfer& t : left) {
    if (!received(t)) later.push_back(t);
  }
  left = later;
  if (!left.empty()) return 1;
  delete stream.work;
  stream.work = nullptr;
  return 0;
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
  *out = new Rank{fabric, rank, ranks};
  ++alive;
  return kInProgress;
}

int get_async_error(Comm comm, int* result) {
  Rank& rank = *rank_of(comm);
  const std::lock_guard lock(fabrics_mutex);
  *result = rank.error != kSuccess             ? rank.error
            : rank.fabric->dead                ? kRemoteError
            : rank.fabric->joined < rank.ranks ? kInProgress
                                               : kSuccess;
  return kSuccess;
}

int end(Comm comm, bool dies) {
  if (dies) rank_of(comm)->fabric->dead = true;
  delete rank_of(comm);
  --alive;
  return kSuccess;
}

int group_end() {
  if (--group.depth > 0) return kSuccess;
  for (const auto& [stream, transfer] : group.transfers) {
    if (stream->work == nullptr) stream->work = new FakeStream::Work;
    stream->work->transfers.push_back(transfer);
  }
  group.transfers.clear();
  return kSuccess;
}

int all_gather(const void* shard, void* full, size_t count, int, Comm comm, void* stream) {
  Rank& rank = *rank_of(comm);
  auto* const s = static_cast<FakeStream*>(stream);
  for (int peer = 0; peer < rank.ranks; ++peer) give(&rank, s, shard, nullptr, count, peer);
  for (int peer = 0; peer < rank.ranks; ++peer)
    give(&rank, s, nullptr, static_cast<char*>(full) + static_cast<size_t>(peer) * count, count, peer);
  return kSuccess;
}

const char* error_string(int result) {
  return result == kRemoteError ? "remote process exited or there was a network error" : "invalid usage";
}

}  // namespace

comm::nccl::StreamUse FakeStream::use() { return {this, this, &poll}; }
int64_t fake_communicators() { return alive; }

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
      .CommAbort = [](Comm comm) { return end(comm, true); },
      .GroupStart = [] { return ++group.depth, kSuccess; },
      .GroupEnd = &group_end,
      .Send =
          [](const void* data, size_t n, int, int peer, Comm comm, void* stream) {
            return give(rank_of(comm), static_cast<FakeStream*>(stream), data, nullptr, n, peer);
          },
      .Recv =
          [](void* data, size_t n, int, int peer, Comm comm, void* stream) {
            return give(rank_of(comm), static_cast<FakeStream*>(stream), nullptr, data, n, peer);
          },
      .AllGather = &all_gather,
  };
  return kApi;
}

}  // namespace hawser::testing
