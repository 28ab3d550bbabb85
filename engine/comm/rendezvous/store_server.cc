#include "engine/comm/rendezvous/store_server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/signals_blocked.h"
#include "engine/comm/agreement.h"
#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

constexpr int32_t kConnectionsBesides = 64;  ///< strangers that may hold a connection at the same time

template <class T>
bool read_as(const std::string& bytes, T* out) {
  if (bytes.size() != sizeof(T)) return false;
  std::memcpy(out, bytes.data(), sizeof(T));
  return true;
}

template <class T>
std::string as_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

}  // namespace

StoreServer::StoreServer(const HostPort& address, int32_t world_size)
    : world_size_(world_size), listener_(listen_on(address)), arrived_(static_cast<size_t>(world_size)) {
  port_ = listening_port(listener_);
  if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) {
    fail(Code::kUnavailable, "the rendezvous of rank 0 cannot make a pipe: {}", std::strerror(errno));
  }
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { main_loop(); });
  } catch (const std::system_error& e) {
    ::close(wake_[0]);
    ::close(wake_[1]);
    fail(Code::kUnavailable, "cannot make the rendezvous thread of rank 0: {}; raise the limit on threads",
         e.what());
  }
  pthread_setname_np(thread_.native_handle(), "hws-rendezvous");
}

StoreServer::~StoreServer() {
  ::close(wake_[1]);  // the thread sees the end of the pipe
  thread_.join();
  ::close(wake_[0]);
}

void StoreServer::main_loop() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign({{wake_[0], POLLIN, 0}, {listener_.fd(), POLLIN, 0}});
    for (const Client& client : clients_) {
      polled.push_back(
          {client.socket.fd(), static_cast<short>(client.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    poll(polled.data(), polled.size(), next_timeout());
    if (polled[0].revents != 0) break;
    size_t i = 2;
    for (Client& client : clients_) {
      const short events = polled[i++].revents;
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(client);
    }
    if (polled[1].revents != 0) accept_all();
    answer_waiting();
    for (Client& client : clients_) write_to(client);
    clients_.remove_if([](const Client& client) { return !client.socket.open(); });
  }
  for (Client& client : clients_) {
    if (client.waits) answer(client, static_cast<int32_t>(Code::kCancelled), "rank 0 has ended");
    write_to(client);
  }
  clients_.clear();
}

/// Milliseconds to the next deadline of someone who waits; -1: none.
int StoreServer::next_timeout() const {
  double deadline = kNoDeadline;
  for (const Client& client : clients_) {
    if (client.waits) deadline = std::min(deadline, client.deadline);
  }
  if (deadline == kNoDeadline) return -1;
  return static_cast<int>(std::clamp(std::ceil((deadline - steady_seconds()) * 1e3), 0.0, 1e6));
}

void StoreServer::accept_all() {
  for (;;) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open()) return;
    if (clients_.size() >= static_cast<size_t>(2 * world_size_ + kConnectionsBesides)) drop_oldest_stranger();
    clients_.emplace_back().socket = std::move(socket);
  }
}

/// Who holds many connections without a word costs the ranks nothing.
void StoreServer::drop_oldest_stranger() {
  const auto stranger = std::find_if(clients_.begin(), clients_.end(),
                                     [](const Client& client) { return client.rank < 0 && !client.waits; });
  if (stranger != clients_.end()) clients_.erase(stranger);
}

void StoreServer::read_from(Client& client) {
  char block[16384];
  for (;;) {
    const ssize_t got = recv(client.socket.fd(), block, sizeof(block), 0);
    if (got > 0) {
      client.in.append(block, static_cast<size_t>(got));
      take_requests(client);
      if (!client.socket.open()) return;
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    lost(client);
    client.socket.close();
    return;
  }
}

void StoreServer::write_to(Client& client) {
  while (client.socket.open() && !client.out.empty()) {
    const ssize_t put = ::send(client.socket.fd(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (put < 0) {
      lost(client);
      client.socket.close();
      return;
    }
    client.out.erase(0, static_cast<size_t>(put));
  }
  if (client.closing) client.socket.close();
}

/// Whole requests at the beginning of what has come. Who sends none of ours is let go.
void StoreServer::take_requests(Client& client) {
  while (client.in.size() >= sizeof(StoreRequest)) {
    StoreRequest request;
    std::memcpy(&request, client.in.data(), sizeof(request));
    if (request.mark != StoreRequest::kMark || request.key_bytes > kMostKeyBytes ||
        request.value_bytes > kMostValueBytes || client.waits) {
      lost(client);
      client.socket.close();
      return;
    }
    const size_t size = sizeof(request) + request.key_bytes + request.value_bytes;
    if (client.in.size() < size) return;
    std::string key = client.in.substr(sizeof(request), request.key_bytes);
    std::string value = client.in.substr(sizeof(request) + request.key_bytes, request.value_bytes);
    client.in.erase(0, size);
    carry_out(client, request, std::move(key), std::move(value));
  }
  // Bytes of a stranger that look like no head are dropped before a whole head has come, too.
  constexpr size_t kMark = sizeof(StoreRequest::kMark);
  const uint64_t mark = StoreRequest::kMark;
  if (std::memcmp(client.in.data(), &mark, std::min(client.in.size(), kMark)) != 0) client.socket.close();
}

void StoreServer::carry_out(Client& client, const StoreRequest& request, std::string key, std::string value) {
  const bool known = values_.contains(key);
  const bool full = !known && values_.size() >= kMostKeys;
  const auto invalid = static_cast<int32_t>(Code::kInvalidArgument);
  switch (request.op) {
    case StoreOp::kHello:
      return hello(client, value);
    case StoreOp::kSet:
    case StoreOp::kSetFirst: {
      if (full) return answer(client, invalid, "the rendezvous store is full");
      std::string& held = values_[key];
      if (!known || request.op == StoreOp::kSet) held = std::move(value);
      return answer(client, 0, request.op == StoreOp::kSet ? std::string_view() : std::string_view(held));
    }
    case StoreOp::kAdd: {
      int64_t more = 0, total = 0;
      if (full || !read_as(value, &more) || (known && !read_as(values_[key], &total))) {
        return answer(client, invalid, "the rendezvous store holds no counter of that name");
      }
      total = static_cast<int64_t>(static_cast<uint64_t>(total) + static_cast<uint64_t>(more));
      values_[key] = as_bytes(total);
      return answer(client, 0, values_[key]);
    }
    case StoreOp::kArrived:
    case StoreOp::kGet:
      return wait(client, request, std::move(key));
    case StoreOp::kBye:
      client.rank = -1;
      return;
  }
  answer(client, invalid, "the rendezvous store knows no such request");
}

void StoreServer::hello(Client& client, const std::string& value) {
  Hello hello;
  const auto invalid = static_cast<int32_t>(Code::kInvalidArgument);
  client.closing = true;
  if (!read_as(value, &hello)) return answer(client, invalid, "a hello of the wrong size");
  if (hello.world_size != world_size_) {
    return answer(client, invalid,
                  fmt::format("rank {} comes from a world of {}, rank 0 from one of {}", hello.rank,
                              hello.world_size, world_size_));
  }
  if (hello.rank < 0 || hello.rank >= world_size_ || arrived_[static_cast<size_t>(hello.rank)]) {
    return answer(client, invalid,
                  fmt::format("rank {} of {} came twice, or is none; each process needs a rank of its own",
                              hello.rank, world_size_));
  }
  client.closing = false;
  client.rank = hello.rank;
  arrived_[static_cast<size_t>(hello.rank)] = true;
  ++arrivals_;
  answer(client, 0, "");
}

void StoreServer::wait(Client& client, const StoreRequest& request, std::string key) {
  client.waits = true;
  client.waits_for = request.op;
  client.key = std::move(key);
  client.deadline =
      std::isfinite(request.timeout_seconds) ? steady_seconds() + request.timeout_seconds : kNoDeadline;
}

void StoreServer::answer_waiting() {
  const double now = steady_seconds();
  for (const Client& client : clients_) {  // the first rank that gives up speaks for all
    const bool gives_up = client.waits && client.waits_for == StoreOp::kArrived && now >= client.deadline;
    if (gives_up && arrivals_ < world_size_ && missed_.empty()) missed_ = missing();
  }
  for (Client& client : clients_) {
    if (!client.waits || !client.socket.open()) continue;
    const bool arrival = client.waits_for == StoreOp::kArrived;
    const auto value = arrival ? values_.end() : values_.find(client.key);
    if (arrival && !missed_.empty()) {
      answer(client, static_cast<int32_t>(Code::kTimeout), missed_);
    } else if (arrival && arrivals_ == world_size_) {
      answer(client, 0, "");
    } else if (value != values_.end()) {
      answer(client, 0, value->second);
    } else if (!arrival && now >= client.deadline) {
      answer(client, static_cast<int32_t>(Code::kTimeout), "nobody has set " + client.key);
    }
  }
}

void StoreServer::answer(Client& client, int32_t code, std::string_view value) {
  client.waits = false;
  client.out += as_bytes(StoreAnswer{code, static_cast<uint32_t>(value.size())});
  client.out += value;
}

/// A rank whose connection ends without a bye has died: everyone is told.
void StoreServer::lost(const Client& client) {
  if (client.rank < 0) return;
  if (arrivals_ < world_size_) {  // it may start again
    arrived_[static_cast<size_t>(client.rank)] = false;
    --arrivals_;
    return;
  }
  const auto code = static_cast<int32_t>(Code::kUnavailable);
  values_.try_emplace(kFaultKey,
                      as_bytes(code) + fmt::format("rank {} of {} is gone: its process ended or its "
                                                   "connection broke",
                                                   client.rank, world_size_));
}

/// "rank 1 and rank 3 of 4".
std::string StoreServer::missing() const {
  std::vector<int32_t> ranks;
  for (int32_t r = 0; r < world_size_; ++r) {
    if (!arrived_[static_cast<size_t>(r)]) ranks.push_back(r);
  }
  return fmt::format("{} of {}", name_ranks(ranks), world_size_);
}

}  // namespace hawser::comm
