#include "engine/comm/point_to_point/link.h"

#include <algorithm>

#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

double left_until(double deadline) { return std::max(1e-3, deadline - steady_seconds()); }

}  // namespace

Link::~Link() {
  if (transport_.destroy != nullptr) transport_.destroy(transport_.user);
}

void Link::send(int32_t to, const void* data, int64_t bytes, double deadline) {
  if (bytes <= 0) return;
  check(transport_.send(transport_.user, to, data, bytes, left_until(deadline)), "send to", to);
  sent_bytes_ += bytes;
}

void Link::recv(int32_t from, void* data, int64_t bytes, double deadline) {
  if (bytes > 0)
    check(transport_.recv(transport_.user, from, data, bytes, left_until(deadline)), "receive from", from);
}

bool Link::recv_in_time(int32_t from, void* data, int64_t bytes, double deadline) {
  const int32_t status = transport_.recv(transport_.user, from, data, bytes, left_until(deadline));
  if (status == static_cast<int32_t>(Code::kTimeout) && reason().empty()) return false;
  check(status, "receive from", from);
  return true;
}

void Link::exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                    double deadline) {
  if (transport_.exchange != nullptr && out_bytes > 0 && in_bytes > 0) {
    check(transport_.exchange(transport_.user, peer, out, out_bytes, in, in_bytes, left_until(deadline)),
          "exchange with", peer);
    sent_bytes_ += out_bytes;
    return;
  }
  if (rank_ < peer) send(peer, out, out_bytes, deadline);
  recv(peer, in, in_bytes, deadline);
  if (rank_ > peer) send(peer, out, out_bytes, deadline);
}

void Link::look() {
  if (transport_.look == nullptr) return;
  const int32_t status = transport_.look(transport_.user);
  if (status == 0) return;
  const std::string text = reason();
  throw Error(static_cast<Code>(status), text.empty() ? "another rank failed" : text);
}

void Link::abort(const Error& error) noexcept {
  char message[kMostReasonBytes];
  error.copy_message(message, sizeof(message));
  transport_.abort(transport_.user, static_cast<int32_t>(error.code()), message);
}

/// Why the last call failed, if the transport says.
std::string Link::reason() const {
  const char* text = transport_.message != nullptr ? transport_.message(transport_.user) : nullptr;
  return text != nullptr ? text : "";
}

void Link::check(int32_t status, const char* verb, int32_t peer) {
  if (status == 0) return;
  if (const std::string text = reason(); !text.empty()) throw Error(static_cast<Code>(status), text);
  if (status == static_cast<int32_t>(Code::kTimeout)) {
    fail(Code::kTimeout,
         "rank {} could not {} rank {} in time; look there for what holds it up, or raise the timeout", rank_,
         verb, peer);
  }
  fail(static_cast<Code>(status), "rank {} could not {} rank {}: the transport says {}", rank_, verb, peer,
       code_name(static_cast<Code>(status)));
}

}  // namespace hawser::comm
