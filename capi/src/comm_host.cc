// hws_comm_create_host: a transport made of the host program's functions. HostLink wraps them: it keeps their
// exceptions out of the library and owns `user` as long as the transport needs it.
#include <cstddef>
#include <optional>

#include "capi/src/callback.h"
#include "capi/src/comm.h"
#include "capi/src/guard.h"
#include "capi/src/structs.h"
#include "engine/comm/host/host_transport.h"

using namespace hawser::capi;
using hawser::Code;
using hawser::Error;
using hawser::comm::HostTransport;

namespace {

static_assert(sizeof(hws_comm_host) == kCommHostSize && offsetof(hws_comm_host, user) == 16);

class HostLink {
 public:
  HostLink(const hws_comm_host& host, UserData data) : host_(host), data_(std::move(data)) {}

  static HostTransport transport(std::unique_ptr<HostLink> link);

 private:
  static HostLink& self(void* user) { return *static_cast<HostLink*>(user); }

  /// Runs a function of the host program that returns a status.
  template <typename Fn>
  int32_t run(const char* name, Fn&& fn) noexcept {
    threw_.reset();
    try {
      return call_host(name, nullptr, Callback::kNone, std::forward<Fn>(fn));
    } catch (...) {
      threw_ = Error::caught();
      return static_cast<int32_t>(threw_->code());
    }
  }
  const char* message() noexcept;
  void abort(int32_t code, const char* text) noexcept;

  const hws_comm_host host_;
  const UserData data_;
  std::optional<Error> threw_;  // the exception of the last call
};

const char* HostLink::message() noexcept {
  if (threw_) return threw_->what();
  if (host_.message == nullptr) return nullptr;
  const char* text = nullptr;
  run("hws_comm_host.message", [&] { return text = host_.message(host_.user), HWS_OK; });
  return threw_ ? threw_->what() : text;
}

/// May be called on any thread, also during a running call. It drops an exception, because no caller could
/// receive it.
void HostLink::abort(int32_t code, const char* text) noexcept {
  if (host_.abort == nullptr) return;
  try {
    call_host("hws_comm_host.abort", nullptr, Callback::kNone,
              [&] { return host_.abort(host_.user, code, text), HWS_OK; });
  } catch (...) {
  }
}

HostTransport HostLink::transport(std::unique_ptr<HostLink> link) {
  HostTransport t;
  const hws_comm_host& host = link->host_;
  if (host.send != nullptr) {
    t.send = [](void* user, int32_t to, const void* data, int64_t bytes, double seconds) {
      const hws_comm_host& h = self(user).host_;
      return self(user).run("hws_comm_host.send", [&] { return h.send(h.user, to, data, bytes, seconds); });
    };
  }
  if (host.recv != nullptr) {
    t.recv = [](void* user, int32_t from, void* data, int64_t bytes, double seconds) {
      const hws_comm_host& h = self(user).host_;
      return self(user).run("hws_comm_host.recv", [&] { return h.recv(h.user, from, data, bytes, seconds); });
    };
  }
  if (host.exchange != nullptr) {
    t.exchange = [](void* user, int32_t rank, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                    double seconds) {
      const hws_comm_host& h = self(user).host_;
      return self(user).run("hws_comm_host.exchange",
                            [&] { return h.exchange(h.user, rank, out, out_bytes, in, in_bytes, seconds); });
    };
  }
  t.abort = [](void* user, int32_t code, const char* text) { self(user).abort(code, text); };
  t.message = [](void* user) { return self(user).message(); };
  t.destroy = [](void* user) { delete &self(user); };
  t.user = link.release();
  return t;
}

}  // namespace

hws_status hws_comm_create_host(const hws_comm_host* host, hws_comm** out) {
  std::optional<UserData> data;  // outlives the guard: its destroy may call the library
  if (is_readable(host, kCommHostSize)) data.emplace(host->user, host->destroy);
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const auto given = copy_in(call, host, kCommHostSize, "host");
    call.range(given.reserved, 0, 0, "host->reserved");
    if (given.send == nullptr) call.invalid("host->send", "is NULL; a transport needs it");
    if (given.recv == nullptr) call.invalid("host->recv", "is NULL; a transport needs it");
    call.range(given.world_size, 1, INT32_MAX, "host->world_size");
    call.range(given.rank, 0, given.world_size - 1, "host->rank");
    Reservation reservation(CommObject::kType);
    auto link = std::make_unique<HostLink>(given, std::move(*data));
    auto comm = hawser::comm::make_host(HostLink::transport(std::move(link)), given.rank, given.world_size);
    *out = static_cast<hws_comm*>(reservation.publish(std::make_unique<CommObject>("host", std::move(comm))));
  });
}
