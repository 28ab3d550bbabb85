// LocalComm: the Comm of ranks that are threads of one process.
#include <mutex>
#include <numeric>

#include "engine/comm/local/local_transport.h"
#include "engine/comm/queued_rank.h"

namespace hawser::comm {
namespace {

class LocalComm final : public Comm {
 public:
  explicit LocalComm(int32_t ranks) : ranks_(static_cast<size_t>(ranks)) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  int32_t world_size() const override { return static_cast<int32_t>(ranks_.size()); }
  std::span<const int32_t> local_ranks() const override { return ranks_; }

  void abort(const Error&) noexcept override {}  // there are no other processes

  std::unique_ptr<RankComm> connect(int32_t rank, const CommOptions& options) override {
    check_connect(rank, world_size(), options);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Session> session = session_.lock();
    if (session == nullptr) {
      session = std::make_shared<Session>(world_size());
      session_ = session;
    }
    if (session->fault().is_set()) {
      fail(Code::kBusy,
           "rank {} cannot connect: this comm is broken ({}) and other ranks still use it; end them first",
           rank, session->fault().error().message());
    }
    if (!session->join(rank)) {
      fail(Code::kBusy, "rank {} is connected already: a comm serves one engine at a time", rank);
    }
    auto transport = std::make_unique<LocalTransport>(session, rank, options);
    return std::make_unique<QueuedRank>(std::move(transport), session->spins());
  }

 private:
  std::vector<int32_t> ranks_;
  std::mutex mutex_;
  std::weak_ptr<Session> session_;
};

}  // namespace

std::shared_ptr<Comm> make_local(int32_t ranks) {
  if (ranks < 1 || ranks > kMaxLocalRanks) {
    fail(Code::kInvalidArgument, "a local comm cannot have {} ranks; use 1 to {}", ranks, kMaxLocalRanks);
  }
  return std::make_shared<LocalComm>(ranks);
}

}  // namespace hawser::comm
