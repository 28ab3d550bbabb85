// AddressLink: a rank over TCP, with the rendezvous at rank 0, connections to its partners in each lane, and
// a watch that reports if a rank fails, dies or falls silent.
#include "engine/comm/tcp/address.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "engine/base/utf8.h"
#include "engine/comm/agreement.h"
#include "engine/comm/gate.h"
#include "engine/comm/lane.h"
#include "engine/comm/point_to_point/peer_transport.h"
#include "engine/comm/rendezvous/rank_watch.h"
#include "engine/comm/rendezvous/store_client.h"
#include "engine/comm/rendezvous/store_protocol.h"
#include "engine/comm/rendezvous/store_server.h"
#include "engine/comm/tcp/descriptors.h"
#include "engine/comm/tcp/links.h"
#include "engine/comm/tcp/mesh.h"
#include "engine/comm/tcp/wake.h"

namespace hawser::comm {
namespace {

/// Seconds that a failed call waits for the reason from rank 0.
constexpr double kHearSeconds = 1.0;

Membership membership_of(const AddressOptions& options) {
  return {options.rank, options.world_size, options.job, options.secret};
}

class AddressLink final : public Network {
 public:
  explicit AddressLink(const AddressOptions& options);
  ~AddressLink() override;
  std::shared_ptr<Link> lane(const std::string& name) override { return ways_of(name).link; }
  void expect(const std::map<std::string, std::set<int32_t>>& ranks_by_lane) override;
  void connect(const std::string& lane, const std::vector<int32_t>& partners, uint64_t group,
               const std::string& name, double timeout_seconds) override;
  const Connections& connections() const override { return connections_; }

 private:
  /// One lane's connections, used by its thread.
  struct Ways {
    explicit Ways(AddressLink& owner);
    int32_t explain(int32_t status);
    HostTransport transport();
    static Ways& self(void* user) { return *static_cast<Ways*>(user); }

    AddressLink& owner;
    Mesh mesh;
    const char* message = "";  ///< message of the last call
    std::shared_ptr<Link> link;
  };

  void meet(const AddressOptions& options);
  void listen(const HostPort& address, const AddressOptions& options);
  std::vector<std::unique_ptr<Wire>> connect_now(const std::vector<int32_t>& ranks, const std::string& key,
                                                 const std::string& name, double timeout_seconds);
  Ways& ways_of(const std::string& name);
  void told(Code code, const char* text) noexcept;
  int32_t known(const char** message);
  void abort(Code code, const char* text) noexcept;

  const Membership self_;
  const bool shares_memory_;
  std::string host_;                     ///< this rank's address
  std::unique_ptr<StoreServer> server_;  ///< exists on rank 0
  Wake wake_;                            ///< readable once broken_ is set
  std::optional<RankWatch> watch_;
  std::map<std::string, std::unique_ptr<Ways>> ways_;  ///< by lane
  Connections connections_;
  std::map<std::string, uint64_t> connects_;  ///< how often connect was called, by lane and group
  std::mutex mutex_;
  std::condition_variable heard_;
  bool broken_ = false;  ///< true once the job is broken; then code_ and reason_ stay
  Code code_ = Code::kOk;
  char reason_[kMostReasonBytes] = "";
};

AddressLink::AddressLink(const AddressOptions& options)
    : self_(membership_of(options)), shares_memory_(options.shares_memory) {
  try {
    meet(options);
  } catch (...) {
    watch_.reset();  // its thread may be reporting meanwhile
    if (broken_) throw Error(code_, reason_);
    throw;
  }
}

AddressLink::~AddressLink() {
  watch_.reset();
  ways_.clear();
}

void AddressLink::meet(const AddressOptions& options) {
  HostPort address = parse_address(options.address);
  const double deadline = steady_seconds() + options.timeout_seconds;
  const std::string given = options.interface.empty() ? options.host : interface_address(options.interface);
  if (self_.rank == 0) {
    if (!given.empty()) address.host = given;
    listen(address, options);
    address.port = std::to_string(server_->port());  // for port 0, the port that was free
  }
  StoreClient store(address, self_, options.timeout_seconds, options.silence_seconds);
  const double left = std::max(0.0, deadline - steady_seconds());
  const double silence = store.wait_for_all(left, options.timeout_seconds);  // rank 0's value applies to all
  host_ = given.empty() ? store.own_address() : given;
  watch_.emplace(std::move(store).watch(), self_.rank, self_.world_size, silence, [this](const Error& error) {
    char text[kMostReasonBytes];
    error.copy_message(text, sizeof(text));
    told(error.code(), text);
  });
}

/// If the address is taken, perhaps another rank 0 of this job uses it. Its rendezvous refuses this process
/// and reports to all ranks that two processes have rank 0. If this process connects before the other's own
/// client, that client is refused instead.
void AddressLink::listen(const HostPort& address, const AddressOptions& options) {
  try {
    server_ = std::make_unique<StoreServer>(address, self_, options.silence_seconds);
  } catch (const Error& cannot_listen) {
    if (cannot_listen.code() != Code::kUnavailable) throw;
    const std::string twice = came_twice(0, self_.world_size);
    std::optional<StoreClient> other;
    try {
      other.emplace(address, self_, kHearSeconds, options.silence_seconds);
      other->wait_for_all(kHearSeconds);
    } catch (const Error& refusal) {
      if (!other && refusal.message() != twice) throw cannot_listen;
    }
    throw Error(Code::kInvalidArgument, twice);
  }
}

void AddressLink::expect(const std::map<std::string, std::set<int32_t>>& ranks_by_lane) {
  int64_t missing = 0;
  for (const auto& [lane, ranks] : ranks_by_lane) {
    const auto found = ways_.find(lane);
    for (const int32_t rank : ranks) missing += found == ways_.end() || !found->second->mesh.connected(rank);
  }
  if (missing > 0) check_descriptors(self_.rank, self_.world_size, group_descriptors(missing));
}

/// Connects the missing pairs. Both sides of a pair agree on whether they are connected.
void AddressLink::connect(const std::string& lane, const std::vector<int32_t>& partners, uint64_t group,
                          const std::string& name, double timeout_seconds) {
  Mesh& mesh = ways_of(lane).mesh;
  std::vector<int32_t> missing;
  for (const int32_t rank : partners)
    if (!mesh.connected(rank)) missing.push_back(rank);
  std::string key = fmt::format("{:x} {:.64}", group, lane);
  key += fmt::format(" {}", connects_[key]++);
  if (missing.empty()) return;
  check_descriptors(self_.rank, self_.world_size, group_descriptors(std::ssize(missing)));
  try {
    std::vector<std::unique_ptr<Wire>> wires = connect_now(missing, key, name, timeout_seconds);
    for (size_t i = 0; i < missing.size(); ++i) {
      ++(wires[i]->is_shared() ? connections_.shared : connections_.sockets);
      mesh.add(missing[i], std::move(wires[i]));
    }
  } catch (...) {
    const char* reason = nullptr;
    if (const int32_t code = known(&reason); code != 0) throw Error(static_cast<Code>(code), reason);
    throw;
  }
}

/// The higher rank of a pair connects to the lower one at the address that the lower rank published. A rank
/// whose wait times out names the missing rank, and reports it before ranks that only wait for this rank time
/// out.
std::vector<std::unique_ptr<Wire>> AddressLink::connect_now(const std::vector<int32_t>& ranks,
                                                            const std::string& key, const std::string& name,
                                                            double timeout_seconds) {
  Links links(self_, host_, shares_memory_);
  const std::vector<std::string> addresses = watch_->meet(key, links.address(), ranks, timeout_seconds);
  std::vector<int32_t> absent;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (addresses[i].empty()) absent.push_back(ranks[i]);
  if (!absent.empty()) {
    fail(Code::kTimeout, "{} did not create group '{}' within {} s of rank {}; check what delays it",
         name_ranks(absent), name, timeout_seconds, self_.rank);
  }
  auto wires = links.connect(ranks, addresses, steady_seconds() + timeout_seconds + kHearSeconds, wake_.fd());
  if (connections_.not_shared.empty()) connections_.not_shared = links.not_shared();
  return wires;
}

AddressLink::Ways::Ways(AddressLink& link_owner)
    : owner(link_owner),
      mesh(owner.self_.world_size, owner.wake_.fd()),
      link(std::make_shared<Link>(transport(), owner.self_.rank)) {}

AddressLink::Ways& AddressLink::ways_of(const std::string& name) {
  if (const auto found = ways_.find(name); found != ways_.end()) return *found->second;
  return *ways_.emplace(name, std::make_unique<Ways>(*this)).first->second;
}

/// The first reason stays.
void AddressLink::told(Code code, const char* text) noexcept {
  const std::lock_guard lock(mutex_);
  if (!broken_) {
    code_ = code;
    const std::string_view kept = cut_between_characters(text, sizeof(reason_) - 1);
    *std::copy(kept.begin(), kept.end(), reason_) = 0;
    broken_ = true;
  }
  heard_.notify_all();
  wake_.up();
}

/// Returns the status of a failed call of the mesh: the job's reason if there is one, otherwise its own.
int32_t AddressLink::Ways::explain(int32_t status) {
  message = "";
  if (status == 0) return 0;
  if (status != static_cast<int32_t>(Code::kTimeout)) {
    std::unique_lock lock(owner.mutex_);
    owner.heard_.wait_for(lock, std::chrono::duration<double>(kHearSeconds), [&] { return owner.broken_; });
  }
  if (const int32_t reason = owner.known(&message); reason != 0) return reason;
  message = mesh.message.c_str();
  return status;
}

/// Returns the code of the job's fault, or 0 if there is none yet.
int32_t AddressLink::known(const char** message) {
  const std::lock_guard lock(mutex_);
  if (!broken_) return 0;
  *message = reason_;
  return static_cast<int32_t>(code_);
}

void AddressLink::abort(Code code, const char* text) noexcept {
  watch_->notify(code, text);
  told(code, text);
}

HostTransport AddressLink::Ways::transport() {
  HostTransport t;
  t.user = this;
  t.send = [](void* user, int32_t to, const void* data, int64_t bytes, double seconds) {
    return self(user).explain(self(user).mesh.exchange(to, {.data = data, .bytes = bytes}, {}, seconds));
  };
  t.recv = [](void* user, int32_t from, void* data, int64_t bytes, double seconds) {
    return self(user).explain(self(user).mesh.exchange(from, {}, {.data = data, .bytes = bytes}, seconds));
  };
  t.exchange = [](void* user, int32_t rank, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                  double seconds) {
    return self(user).explain(self(user).mesh.exchange(rank, {.data = out, .bytes = out_bytes},
                                                       {.data = in, .bytes = in_bytes}, seconds));
  };
  t.exchange_tagged = [](void* user, int32_t rank, const Outgoing& out, const Incoming& in, double seconds) {
    const int32_t status = self(user).mesh.exchange(rank, out, in, seconds);
    return status == kRefused ? status : self(user).explain(status);
  };
  t.abort = [](void* user, int32_t code, const char* message) {
    self(user).owner.abort(static_cast<Code>(code), message);
  };
  t.message = [](void* user) { return self(user).message; };
  t.look = [](void* user) { return self(user).owner.known(&self(user).message); };
  return t;
}

void check(const AddressOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    fail(Code::kInvalidArgument, "there is no rank {} in a world of {}; ranks are numbered from 0",
         options.rank, options.world_size);
  }
  for (const double seconds : {options.timeout_seconds, options.silence_seconds}) {
    if (!(seconds > 0)) fail(Code::kInvalidArgument, "the timeout is {} s; it must be above 0", seconds);
  }
  if (options.job.size() > kMostJobBytes) {
    fail(Code::kInvalidArgument, "the job's name has {} bytes; at most {} are possible", options.job.size(),
         kMostJobBytes);
  }
  if (options.secret != nullptr || options.trust_network) return;
  const std::string meeting = parse_address(options.address).host;
  const std::string own = options.interface.empty() ? options.host : interface_address(options.interface);
  for (const std::string& host : {meeting, own}) {
    if (host.empty() || is_loopback(host)) continue;
    fail(Code::kFailedPrecondition,
         "rank {} would connect at {} without a secret, so anyone on that network could join the job; give "
         "all ranks a secret, or set trust_network",
         options.rank, host);
  }
}

}  // namespace

std::shared_ptr<Comm> make_address(const AddressOptions& options) {
  check(options);
  check_descriptors(options.rank, options.world_size, descriptors_of(options.rank, options.world_size));
  auto network = std::make_shared<AddressLink>(options);
  std::shared_ptr<Link> main = network->lane(Lane().name);
  return make_peer_comm(std::move(main), options.world_size, std::move(network));
}

}  // namespace hawser::comm
