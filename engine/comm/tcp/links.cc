#include "engine/comm/tcp/links.h"

#include <algorithm>

#include "engine/comm/agreement.h"
#include "engine/comm/gate.h"
#include "engine/comm/rendezvous/reception.h"

namespace hawser::comm {
namespace {

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace

Links::Links(const Membership& self, const std::string& host)
    : self_(self), listener_(listen_on({host, "0"})) {
  address_ = HostPort{host, std::to_string(listening_port(listener_))}.text();
}

std::vector<Socket> Links::connect(const std::vector<int32_t>& ranks,
                                   const std::vector<std::string>& addresses, double deadline,
                                   int interrupt) {
  std::vector<Socket> links(ranks.size());
  for (size_t i = 0; i < ranks.size() && ranks[i] < self_.rank; ++i)
    links[i] = connect_to(ranks[i], addresses[i], deadline, interrupt);
  accept_higher(ranks, links, deadline, interrupt);
  return links;
}

Socket Links::connect_to(int32_t rank, const std::string& address, double deadline, int interrupt) const {
  std::string why;
  for (;;) {
    Socket socket = connect_until(parse_address(address), deadline, &why, interrupt);
    if (socket.open() && introduce(socket, self_, rank, Purpose::kLink, deadline, &why, interrupt))
      return socket;
    if (readable(interrupt)) fail(Code::kUnavailable, "interrupted");
    if (steady_seconds() >= deadline) {
      fail(Code::kTimeout,
           "rank {} of {} could not connect to rank {} at {} in time: {}; is there a firewall "
           "between them?",
           self_.rank, self_.world_size, rank, address, why);
    }
  }
}

void Links::accept_higher(const std::vector<int32_t>& ranks, std::vector<Socket>& links, double deadline,
                          int interrupt) {
  Reception reception(std::move(listener_), self_);
  const auto place_of = [&](int32_t rank) {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return found != ranks.end() && *found == rank ? static_cast<size_t>(found - ranks.begin()) : ranks.size();
  };
  const auto rejection_reason = [&](int32_t rank, Purpose purpose) -> std::string {
    const size_t place = place_of(rank);
    const bool welcome =
        purpose == Purpose::kLink && rank > self_.rank && place < ranks.size() && !links[place].open();
    return welcome ? "" : fmt::format("rank {} made an unexpected connection to rank {}", rank, self_.rank);
  };
  const auto enter = [&](Socket socket, int32_t rank, Purpose) { links[place_of(rank)] = std::move(socket); };
  std::vector<pollfd> polled;
  for (;;) {
    std::vector<int32_t> missing;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (!links[i].open()) missing.push_back(ranks[i]);
    }
    if (missing.empty()) return;
    if (steady_seconds() >= deadline) {
      fail(Code::kTimeout,
           "{} of {} did not connect to rank {} at {} in time; is there a firewall between them?",
           name_ranks(missing), self_.world_size, self_.rank, address_);
    }
    polled.assign({{interrupt, POLLIN, 0}});
    reception.add_polled(polled);
    poll(polled.data(), polled.size(), milliseconds_until(std::min(deadline, reception.deadline())));
    if (polled[0].revents != 0) fail(Code::kUnavailable, "interrupted");
    reception.serve(rejection_reason, enter);
  }
}

}  // namespace hawser::comm
