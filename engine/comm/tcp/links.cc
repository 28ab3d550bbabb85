#include "engine/comm/tcp/links.h"

#include <algorithm>
#include <sstream>

#include "engine/comm/agreement.h"
#include "engine/comm/gate.h"
#include "engine/comm/rendezvous/reception.h"
#include "engine/comm/shm/local_socket.h"
#include "engine/comm/shm/ring_wire.h"

namespace hawser::comm {
namespace {

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

/// The parts of the text that a rank publishes (Links::address).
struct Published {
  explicit Published(const std::string& text) { std::istringstream(text) >> address >> host >> local_name; }
  std::string address, host, local_name;
};

}  // namespace

Links::Links(const Membership& self, const std::string& host, bool shares_memory)
    : self_(self), listener_(listen_on({host, "0"})) {
  own_address_ = HostPort{host, std::to_string(listening_port(listener_))}.text();
  address_ = own_address_;
  if (shares_memory) host_ = this_host();
  std::string name;
  if (!host_.empty()) local_listener_ = listen_here(&name);
  if (local_listener_.open()) {
    address_ += " " + host_ + " " + name;
  } else if (shares_memory) {
    note_not_shared(fmt::format("rank {} cannot make a local socket", self.rank));
  }
}

std::vector<std::unique_ptr<Wire>> Links::connect(const std::vector<int32_t>& ranks,
                                                  const std::vector<std::string>& addresses, double deadline,
                                                  int interrupt) {
  Wires wires(ranks.size());
  for (size_t i = 0; i < ranks.size() && ranks[i] < self_.rank; ++i)
    wires[i] = connect_to(ranks[i], addresses[i], deadline, interrupt);
  accept_higher(ranks, wires, deadline, interrupt);
  return wires;
}

std::unique_ptr<Wire> Links::connect_to(int32_t rank, const std::string& address, double deadline,
                                        int interrupt) {
  const Published peer(address);
  if (!host_.empty() && peer.host == host_) {
    if (auto wire = connect_locally(rank, peer.local_name, deadline, interrupt); wire != nullptr) return wire;
  }
  std::string why;
  for (;;) {
    Socket socket = connect_until(parse_address(peer.address), deadline, &why, interrupt);
    if (socket.open() && introduce(socket, self_, rank, Purpose::kLink, deadline, &why, interrupt))
      return std::make_unique<SocketWire>(std::move(socket));
    if (readable(interrupt)) fail(Code::kUnavailable, "interrupted");
    if (steady_seconds() >= deadline) {
      fail(Code::kTimeout,
           "rank {} of {} could not connect to rank {} at {} in time: {}; is there a firewall "
           "between them?",
           self_.rank, self_.world_size, rank, peer.address, why);
    }
  }
}

/// Returns null if the two ranks cannot connect through the local socket.
std::unique_ptr<Wire> Links::connect_locally(int32_t rank, const std::string& name, double deadline,
                                             int interrupt) {
  std::string why = "it did not send the memory";
  Socket socket = connect_here(name, &why);
  SharedMemory memory;
  if (!socket.open() || !introduce(socket, self_, rank, Purpose::kLink, deadline, &why, interrupt) ||
      !SharedMemory::receive(socket, shared_bytes(self_.world_size), deadline, interrupt, &memory)) {
    note_not_shared(fmt::format("rank {} cannot be reached by a local socket: {}", rank, why));
    return nullptr;
  }
  if (!memory.open()) {
    note_not_shared(fmt::format("rank {} did not get memory to share", rank));
    return std::make_unique<SocketWire>(std::move(socket));
  }
  return std::make_unique<RingWire>(std::move(socket), std::move(memory), self_.world_size, false);
}

/// Returns null if the connection broke.
std::unique_ptr<Wire> Links::accept_locally(Socket socket) {
  std::string why;
  const int64_t bytes = shared_bytes(self_.world_size);
  SharedMemory memory = SharedMemory::make(bytes, &why);
  if (!memory.pass(socket)) return nullptr;
  if (!memory.open()) {
    note_not_shared(
        fmt::format("rank {} did not get {} bytes of memory to share: {}", self_.rank, bytes, why));
    return std::make_unique<SocketWire>(std::move(socket));
  }
  return std::make_unique<RingWire>(std::move(socket), std::move(memory), self_.world_size, true);
}

void Links::note_not_shared(const std::string& why) {
  if (not_shared_.empty()) not_shared_ = why;
}

void Links::accept_higher(const std::vector<int32_t>& ranks, Wires& wires, double deadline, int interrupt) {
  Reception reception(std::move(listener_), self_), local_reception(std::move(local_listener_), self_);
  const auto place_of = [&](int32_t rank) {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return found != ranks.end() && *found == rank ? static_cast<size_t>(found - ranks.begin()) : ranks.size();
  };
  const auto rejection_reason = [&](int32_t rank, Purpose purpose) -> std::string {
    const size_t place = place_of(rank);
    const bool welcome =
        purpose == Purpose::kLink && rank > self_.rank && place < ranks.size() && wires[place] == nullptr;
    return welcome ? "" : fmt::format("rank {} made an unexpected connection to rank {}", rank, self_.rank);
  };
  std::vector<pollfd> polled;
  for (;;) {
    std::vector<int32_t> missing;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (wires[i] == nullptr) missing.push_back(ranks[i]);
    }
    if (missing.empty()) return;
    if (steady_seconds() >= deadline) {
      fail(Code::kTimeout,
           "{} of {} did not connect to rank {} at {} in time; is there a firewall between them?",
           name_ranks(missing), self_.world_size, self_.rank, own_address_);
    }
    polled.assign({{interrupt, POLLIN, 0}});
    reception.add_polled(polled);
    local_reception.add_polled(polled);
    const double next = std::min({deadline, reception.deadline(), local_reception.deadline()});
    poll(polled.data(), polled.size(), milliseconds_until(next));
    if (polled[0].revents != 0) fail(Code::kUnavailable, "interrupted");
    reception.serve(rejection_reason, [&](Socket socket, int32_t rank, Purpose) {
      wires[place_of(rank)] = std::make_unique<SocketWire>(std::move(socket));
    });
    local_reception.serve(rejection_reason, [&](Socket socket, int32_t rank, Purpose) {
      wires[place_of(rank)] = accept_locally(std::move(socket));
    });
  }
}

}  // namespace hawser::comm
