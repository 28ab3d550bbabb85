// A rank's life over TCP: rendezvous at rank 0, Gloo's mesh between all, and a watch on the store, through
// which everyone hears at once when one rank fails or dies.
#include "engine/comm/gloo/address.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "engine/base/signals_blocked.h"
#include "engine/comm/gate.h"
#include "engine/comm/gloo/open_module.h"
#include "engine/comm/point_to_point/peer_transport.h"
#include "engine/comm/rendezvous/store_client.h"
#include "engine/comm/rendezvous/store_server.h"

namespace hawser::comm {
namespace {

/// How long a failed call waits to hear from rank 0 why.
constexpr double kHearSeconds = 1.0;

class AddressLink {
 public:
  explicit AddressLink(const AddressOptions& options);
  ~AddressLink();
  HostTransport transport();

 private:
  static AddressLink& self(void* user) { return *static_cast<AddressLink*>(user); }
  void connect_mesh(const AddressOptions& options, double deadline);
  void start_watch();
  void watch();
  void told(const Error& error);
  int32_t explain(int32_t status);
  void abort(int32_t code, const char* message) noexcept;

  const int32_t rank_;
  const GlooModule& module_;
  std::unique_ptr<StoreServer> server_;  ///< on rank 0
  std::unique_ptr<StoreClient> store_, watched_;
  HostTransport mesh_;
  std::mutex mutex_;
  std::condition_variable heard_;
  Fault fault_;
  bool ending_ = false;
  std::string message_;
  std::thread watcher_;
};

AddressLink::AddressLink(const AddressOptions& options)
    : rank_(options.rank), module_(open_gloo_module(options.module_folder)) {
  const HostPort address = parse_address(options.address);
  const double deadline = steady_seconds() + options.timeout_seconds;
  if (rank_ == 0) server_ = std::make_unique<StoreServer>(address, options.world_size);
  store_ = std::make_unique<StoreClient>(address, rank_, options.world_size, options.timeout_seconds);
  store_->say_hello();
  store_->wait_for_all(options.timeout_seconds);
  watched_ = std::make_unique<StoreClient>(address, rank_, options.world_size, options.timeout_seconds);
  connect_mesh(options, deadline);
  start_watch();
}

AddressLink::~AddressLink() {
  if (mesh_.destroy != nullptr) mesh_.destroy(mesh_.user);  // sends what is still under way
  store_->bye();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  watched_->interrupt();
  if (watcher_.joinable()) watcher_.join();
}

void AddressLink::connect_mesh(const AddressOptions& options, double deadline) {
  GlooRequest request;
  request.rank = rank_;
  request.world_size = options.world_size;
  request.host = options.host.c_str();
  request.interface = options.interface.c_str();
  request.timeout_seconds = std::max(1.0, deadline - steady_seconds());
  struct Store {
    StoreClient& client;
    double deadline;
  } store{*store_, deadline};
  request.store = &store;
  request.set = [](void* user, const char* key, const void* data, int64_t bytes) -> int32_t {
    try {
      static_cast<Store*>(user)->client.set(key,
                                            {static_cast<const char*>(data), static_cast<size_t>(bytes)});
      return 0;
    } catch (const Error& error) {
      return static_cast<int32_t>(error.code());
    }
  };
  request.get = [](void* user, const char* key, void* data, int64_t capacity, int64_t* bytes) -> int32_t {
    try {
      const auto& s = *static_cast<Store*>(user);
      const std::string value = s.client.get(key, std::max(1.0, s.deadline - steady_seconds()));
      *bytes = static_cast<int64_t>(value.size());
      if (*bytes > capacity) return static_cast<int32_t>(Code::kOutOfRange);
      std::memcpy(data, value.data(), value.size());
      return 0;
    } catch (const Error& error) {
      return static_cast<int32_t>(error.code());
    }
  };
  char text[1024] = "";
  const int32_t status = module_.open(&request, &mesh_, text, sizeof(text));
  if (status != 0) {
    store_->bye();
    fail(static_cast<Code>(status), "rank {} of {} could not connect to the others: {}", rank_,
         options.world_size, text);
  }
}

void AddressLink::start_watch() {
  const SignalsBlocked blocked;
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error& e) {
    mesh_.destroy(mesh_.user);
    fail(Code::kUnavailable, "cannot make the watching thread of rank {}: {}; raise the limit on threads",
         rank_, e.what());
  }
  pthread_setname_np(watcher_.native_handle(), fmt::format("hws-watch-{}", rank_).substr(0, 15).c_str());
}

/// Sleeps until rank 0 says that the job is broken, or is gone itself.
void AddressLink::watch() {
  try {
    const std::string value = watched_->get(kFaultKey, kNoDeadline);
    int32_t code = static_cast<int32_t>(Code::kUnknown);
    if (value.size() >= sizeof(code)) std::memcpy(&code, value.data(), sizeof(code));
    told(Error(static_cast<Code>(code), value.substr(std::min(sizeof(code), value.size()))));
  } catch (const Error& error) {
    const bool in_peace = error.code() == Code::kCancelled;
    const std::lock_guard lock(mutex_);
    if (in_peace || ending_) return;
    fault_.set(error);
    heard_.notify_all();
    mesh_.abort(mesh_.user, static_cast<int32_t>(error.code()), error.message().c_str());
  }
}

void AddressLink::told(const Error& error) {
  const std::lock_guard lock(mutex_);
  fault_.set(error);
  heard_.notify_all();
  mesh_.abort(mesh_.user, static_cast<int32_t>(error.code()), error.message().c_str());
}

/// What a failed call of the mesh returns: the job's reason, if there is one, else its own.
int32_t AddressLink::explain(int32_t status) {
  message_.clear();
  if (status == 0) return 0;
  std::unique_lock lock(mutex_);
  if (status != static_cast<int32_t>(Code::kTimeout)) {
    heard_.wait_for(lock, std::chrono::duration<double>(kHearSeconds), [&] { return fault_.is_set(); });
  }
  if (fault_.is_set()) {
    const Error error = fault_.error();
    message_ = error.message();
    return static_cast<int32_t>(error.code());
  }
  const char* text = mesh_.message(mesh_.user);
  message_ = text != nullptr ? text : "";
  return status;
}

void AddressLink::abort(int32_t code, const char* message) noexcept {
  try {
    told(Error(static_cast<Code>(code), message));
    store_->set_first(kFaultKey, std::string(reinterpret_cast<const char*>(&code), sizeof(code)) + message);
  } catch (const Error&) {  // rank 0 is gone, which its end of the connections tells the others
  }
}

HostTransport AddressLink::transport() {
  HostTransport t;
  t.user = this;
  t.send = [](void* user, int32_t to, const void* data, int64_t bytes, double seconds) {
    return self(user).explain(self(user).mesh_.send(self(user).mesh_.user, to, data, bytes, seconds));
  };
  t.recv = [](void* user, int32_t from, void* data, int64_t bytes, double seconds) {
    return self(user).explain(self(user).mesh_.recv(self(user).mesh_.user, from, data, bytes, seconds));
  };
  t.exchange = [](void* user, int32_t rank, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                  double seconds) {
    const HostTransport& mesh = self(user).mesh_;
    return self(user).explain(mesh.exchange(mesh.user, rank, out, out_bytes, in, in_bytes, seconds));
  };
  t.abort = [](void* user, int32_t code, const char* message) { self(user).abort(code, message); };
  t.message = [](void* user) { return self(user).message_.c_str(); };
  t.destroy = [](void* user) { delete &self(user); };
  return t;
}

}  // namespace

std::shared_ptr<Comm> make_address(const AddressOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    fail(Code::kInvalidArgument, "rank {} in a world of {}; ranks are numbered from 0", options.rank,
         options.world_size);
  }
  if (!(options.timeout_seconds > 0)) {
    fail(Code::kInvalidArgument, "a timeout of {} s; it must be above 0", options.timeout_seconds);
  }
  auto link = std::make_unique<AddressLink>(options);
  return make_host(link.release()->transport(), options.rank, options.world_size);
}

}  // namespace hawser::comm
