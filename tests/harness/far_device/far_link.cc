#include "tests/harness/far_device/far_link.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/bytes_at.h"
#include "engine/base/error.h"
#include "tests/harness/far_device/far_control.h"

namespace hawser::testing {
namespace {

using device::Status;
using Clock = std::chrono::steady_clock;

constexpr auto number(Code code) { return static_cast<Status>(code); }

/// The state that the ranks of one id share.
struct Fabric {
  std::mutex mutex;
  int32_t joined = 0;
  std::string broken;  ///< the reason; "": it is not broken
  std::map<std::pair<int32_t, int32_t>, std::deque<std::vector<char>>> under_way;  ///< keyed by (from, to)
};

std::shared_ptr<Fabric> fabric_of(const std::string& id) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Fabric>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Fabric> fabric = all[id].lock();
  if (fabric == nullptr) all[id] = fabric = std::make_shared<Fabric>();
  return fabric;
}

std::mutex registered_mutex;
std::multiset<const void*>& registered() {
  static auto& registered = *new std::multiset<const void*>;
  return registered;
}

struct Part {
  int32_t peer;
  const void* in;
  void* out;
  int64_t bytes;
};

/// One call: all sends, then all receives.
struct Exchange {
  std::shared_ptr<Fabric> fabric;
  int32_t rank = 0;
  std::vector<Part> sends, receives;

  bool run() {
    const std::lock_guard lock(fabric->mutex);
    if (!fabric->broken.empty()) return true;
    for (const Part& p : sends) {
      const char* const data = static_cast<const char*>(p.in);
      fabric->under_way[{rank, p.peer}].emplace_back(data, data + p.bytes);
    }
    sends.clear();
    std::erase_if(receives, [&](const Part& p) { return receive(p); });
    return receives.empty();
  }

 private:
  bool receive(const Part& p) {
    std::deque<std::vector<char>>& waiting = fabric->under_way[{p.peer, rank}];
    if (waiting.empty()) return false;
    if (static_cast<int64_t>(waiting.front().size()) != p.bytes) {
      fabric->broken = "ranks disagree about bytes";
      return true;
    }
    if (p.bytes > 0) std::memcpy(p.out, waiting.front().data(), waiting.front().size());
    waiting.pop_front();
    return true;
  }
};

class FarLink final : public device::PeerLink {
 public:
  FarLink(FarDevice& device, const device::PeerLinkRequest& request) : device_(device), request_(request) {}

  Status make_id(device::PeerId* out) noexcept override {
    static std::atomic<int> next{1};
    std::snprintf(out->bytes, sizeof out->bytes, "far %d", next.fetch_add(1));
    return 0;
  }

  Status connect(const device::PeerId& id) noexcept override {
    fabric_ = fabric_of(id.bytes);
    {
      const std::lock_guard lock(fabric_->mutex);
      ++fabric_->joined;
    }
    return wait_until(request_.timeout_seconds, [&] {
      const std::lock_guard lock(fabric_->mutex);
      return fabric_->joined == request_.ranks;
    });
  }

  bool register_memory(void* memory, int64_t bytes) noexcept override {
    if (far_control().cannot_register == device_.info().index) {
      message_ = "the test wants no registration";
      return false;
    }
    const std::lock_guard lock(registered_mutex);
    registered().insert(memory);
    ranges_.push_back({static_cast<const char*>(memory), bytes});
    ++far_control().registered;
    return true;
  }
  Status deregister_memory() noexcept override {
    const std::lock_guard lock(registered_mutex);
    for (const Range& range : ranges_) {
      registered().erase(registered().find(range.begin));
      --far_control().registered;
    }
    ranges_.clear();
    return 0;
  }

  Status all_gather(void* full, const void* shard, int64_t bytes) noexcept override {
    Exchange e = exchange();
    for (int32_t m = 0; m < request_.ranks; ++m) {
      e.sends.push_back({m, shard, nullptr, bytes});
      e.receives.push_back({m, nullptr, bytes_at(full, m * bytes), bytes});
    }
    return give(std::move(e));
  }
  Status all_to_all(void* out, const int64_t* out_offsets, const int64_t* out_bytes, const void* in,
                    const int64_t* in_offsets, const int64_t* in_bytes) noexcept override {
    Exchange e = exchange();
    for (int32_t m = 0; m < request_.ranks; ++m) {
      if (in_bytes[m] > 0) e.sends.push_back({m, bytes_at(in, in_offsets[m]), nullptr, in_bytes[m]});
      if (out_bytes[m] > 0) e.receives.push_back({m, nullptr, bytes_at(out, out_offsets[m]), out_bytes[m]});
    }
    return give(std::move(e));
  }
  Status broadcast(void* data, int64_t bytes, int32_t root) noexcept override {
    Exchange e = exchange();
    for (int32_t m = 0; m < request_.ranks && request_.rank == root; ++m)
      if (m != root) e.sends.push_back({m, data, nullptr, bytes});
    if (request_.rank != root) e.receives.push_back({root, nullptr, data, bytes});
    return give(std::move(e));
  }
  Status send(const void* data, int64_t bytes, int32_t to) noexcept override {
    Exchange e = exchange();
    e.sends.push_back({to, data, nullptr, bytes});
    return give(std::move(e));
  }
  Status recv(void* data, int64_t bytes, int32_t from) noexcept override {
    Exchange e = exchange();
    e.receives.push_back({from, nullptr, data, bytes});
    return give(std::move(e));
  }

  Status wait(device::Event* reached, device::Event* done) noexcept override {
    const auto ran = [&](device::Event* until) {
      return [this, until] { return device_.try_run(request_.stream, until); };
    };
    // Running early is allowed, too: a stream that does not wait for `reached` itself then reads memory too
    // early.
    (void)device_.try_run(request_.stream, nullptr);
    if (const Status status = wait_until(1e9, ran(reached)); status != 0) return status;
    return wait_until(request_.timeout_seconds, ran(done));
  }

  const char* message() const noexcept override { return message_.c_str(); }
  void destroy() noexcept override {
    if (device_.graphs() > 0) std::abort();  // NCCL would wait for graphs of its calls
    (void)deregister_memory();
    delete this;
  }

 private:
  struct Range {
    const char* begin;
    int64_t bytes;
  };

  Exchange exchange() const { return {fabric_, request_.rank, {}, {}}; }
  void check_range(const void* memory, int64_t bytes) const {
    const auto* const begin = static_cast<const char*>(memory);
    if (std::none_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
          return begin >= range.begin && begin + bytes <= range.begin + range.bytes;
        }))
      ++far_control().outside_registered;
  }

  Status give(Exchange e) {
    if (status_ != 0) return status_;
    if (!ranges_.empty()) {
      for (const Part& part : e.sends) check_range(part.in, part.bytes);
      for (const Part& part : e.receives) check_range(part.out, part.bytes);
    }
    return device_.give(request_.stream, [own = std::move(e)]() mutable { return own.run(); });
  }

  template <class Ready>
  Status wait_until(double seconds, const Ready& ready) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
    while (status_ == 0 && !ready()) {
      if (const Status stopped = request_.stop(request_.user); stopped != 0) return fails(stopped, "stopped");
      if (Clock::now() >= deadline) return fails(number(Code::kTimeout), "the others did not come");
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    const std::string broken = why_broken();
    return broken.empty() ? status_.load() : fails(number(Code::kUnavailable), broken);
  }
  std::string why_broken() const {
    const std::lock_guard lock(fabric_->mutex);
    return fabric_->broken;
  }

  Status fails(Status status, const std::string& why) {
    const std::lock_guard lock(fabric_->mutex);
    if (status_ != 0) return status_;
    message_ = std::string("far link of group '") + request_.group + "': " + why;
    status_ = status;
    if (fabric_->broken.empty()) fabric_->broken = "a peer is gone";
    return status;
  }

  FarDevice& device_;
  const device::PeerLinkRequest request_;
  std::shared_ptr<Fabric> fabric_;
  std::atomic<Status> status_ = 0;  ///< set after the message
  std::string message_;
  std::vector<Range> ranges_;  ///< that are registered
};

}  // namespace

bool is_registered(const void* memory) {
  const std::lock_guard lock(registered_mutex);
  return registered().contains(memory);
}

device::PeerLink* make_far_link(FarDevice& device, const device::PeerLinkRequest& request) {
  return new FarLink(device, request);
}

}  // namespace hawser::testing
