#include "engine/comm/tcp/mesh.h"

#include <algorithm>
#include <span>

#include "engine/base/error.h"
#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

constexpr int32_t status_of(Code code) { return static_cast<int32_t>(code); }

/// Most bytes that one call of put or take moves: so many that the call's cost is negligible, and so few
/// that the other direction of an exchange does not wait long.
constexpr int64_t kMostMoved = int64_t{1} << 20;

}  // namespace

/// Sends tag and data together.
int32_t Mesh::put(Wire& wire, const Outgoing& out, int64_t* sent) {
  const int64_t tag_left = std::max<int64_t>(0, out.tag_bytes - *sent);
  const int64_t data_at = std::max<int64_t>(0, *sent - out.tag_bytes);
  const iovec parts[2] = {{const_cast<char*>(static_cast<const char*>(out.tag)) + (out.tag_bytes - tag_left),
                           static_cast<size_t>(tag_left)},
                          {const_cast<char*>(static_cast<const char*>(out.data)) + data_at,
                           static_cast<size_t>(std::min(kMostMoved, out.bytes - data_at))}};
  const int64_t count = wire.put(std::span(parts).subspan(tag_left > 0 ? 0 : 1), &message);
  *sent += std::max<int64_t>(count, 0);
  return count < 0 ? status_of(Code::kUnavailable) : 0;
}

/// Reads the tag first: data is read only after the tag has proved to be the expected one.
int32_t Mesh::take(Wire& wire, const Incoming& in, int64_t* received) {
  const bool in_tag = *received < in.tag_bytes;
  char* const to = in_tag ? static_cast<char*>(in.tag) + *received
                          : static_cast<char*>(in.data) + (*received - in.tag_bytes);
  const int64_t left = in_tag ? in.tag_bytes - *received : in.tag_bytes + in.bytes - *received;
  const int64_t count = wire.take(to, std::min(kMostMoved, left), &message);
  *received += std::max<int64_t>(count, 0);
  if (count < 0) return status_of(Code::kUnavailable);
  return in_tag && *received == in.tag_bytes && !in.fits(in.user) ? kRefused : 0;
}

int32_t Mesh::exchange(int32_t peer, const Outgoing& out, const Incoming& in, double seconds) {
  message.clear();
  Wire& wire = *wires_[static_cast<size_t>(peer)];
  const double deadline = steady_seconds() + seconds;
  const int64_t to_send = out.tag_bytes + out.bytes, to_receive = in.tag_bytes + in.bytes;
  int64_t sent = 0, received = 0;
  for (;;) {
    const int64_t before = sent + received;
    int32_t status = sent < to_send ? put(wire, out, &sent) : 0;
    if (status == 0 && received < to_receive) status = take(wire, in, &received);
    if (!message.empty()) message = fmt::format("the connection to rank {} broke: {}", peer, message);
    if (status != 0) return status;
    if (sent == to_send && received == to_receive) return 0;
    if (sent + received > before) continue;
    pollfd entries[2] = {wire.awaited(sent < to_send, received < to_receive), {interrupt_, POLLIN, 0}};
    if (entries[0].events == 0) continue;
    const int ready = poll(entries, 2, milliseconds_until(deadline));
    wire.woke();
    if (entries[1].revents != 0) return status_of(Code::kAborted);
    if (ready == 0 && steady_seconds() >= deadline) return status_of(Code::kTimeout);
  }
}

}  // namespace hawser::comm
