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

void Link::count(int64_t bytes) {
  sent_bytes_ += bytes;
  sent_messages_ += bytes > 0 ? 1 : 0;
}

void Link::send(int32_t to, const void* data, int64_t bytes, double deadline) {
  if (bytes > 0) check(move(to, data, bytes, nullptr, 0, deadline), "send to", to);
}

bool Link::recv_in_time(int32_t from, void* data, int64_t bytes, double deadline) {
  const int32_t status = transport_.recv(transport_.user, from, data, bytes, left_until(deadline));
  if (status == static_cast<int32_t>(Code::kTimeout) && reason().empty()) return false;
  check(status, "receive from", from);
  return true;
}

void Link::exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                    double deadline) {
  check(move(peer, out, out_bytes, in, in_bytes, deadline), "exchange with", peer);
}

Link::Outcome Link::exchange_tagged(int32_t peer, const Outgoing& out, const Incoming& in, double deadline) {
  int32_t status = 0;
  if (transport_.exchange_tagged != nullptr) {
    status = transport_.exchange_tagged(transport_.user, peer, out, in, left_until(deadline));
    if (status == 0) count(out.tag_bytes + out.bytes);
  } else {
    status = move(peer, out.tag, out.tag_bytes, in.tag, in.tag_bytes, deadline);
    if (status == 0 && in.tag_bytes > 0 && !in.fits(in.user)) return Outcome::kRefused;
    if (status == 0) status = move(peer, out.data, out.bytes, in.data, in.bytes, deadline);
  }
  if (status == kRefused) return Outcome::kRefused;
  if (status == static_cast<int32_t>(Code::kTimeout) && reason().empty()) return Outcome::kTooLate;
  check(status, "exchange with", peer);
  return Outcome::kDone;
}

/// Exchanges one message in each direction, in one call of the transport.
int32_t Link::move(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                   double deadline) {
  const HostTransport& t = transport_;
  int32_t status = 0;
  const bool at_once = t.exchange != nullptr && out_bytes > 0 && in_bytes > 0;
  const auto send = [&] {
    if (out_bytes > 0) status = t.send(t.user, peer, out, out_bytes, left_until(deadline));
  };
  if (at_once) {
    status = t.exchange(t.user, peer, out, out_bytes, in, in_bytes, left_until(deadline));
  } else {
    if (rank_ < peer) send();
    if (status == 0 && in_bytes > 0) status = t.recv(t.user, peer, in, in_bytes, left_until(deadline));
    if (status == 0 && rank_ > peer) send();
  }
  if (status == 0) count(out_bytes);
  return status;
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

/// Returns why the last call failed, if the transport reports it.
std::string Link::reason() const {
  const char* text = transport_.message != nullptr ? transport_.message(transport_.user) : nullptr;
  return text != nullptr ? text : "";
}

void Link::fail_late(const char* verb, int32_t peer) const {
  fail(Code::kTimeout, "rank {} could not {} rank {} in time; check what delays it, or raise the timeout",
       rank_, verb, peer);
}

void Link::check(int32_t status, const char* verb, int32_t peer) {
  if (status == 0) return;
  if (const std::string text = reason(); !text.empty()) throw Error(static_cast<Code>(status), text);
  if (status == static_cast<int32_t>(Code::kTimeout)) fail_late(verb, peer);
  fail(static_cast<Code>(status), "rank {} could not {} rank {}: the transport says {}", rank_, verb, peer,
       code_name(static_cast<Code>(status)));
}

}  // namespace hawser::comm
