#include "engine/comm/rendezvous/store_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

#include "engine/base/signals_blocked.h"
#include "engine/comm/agreement.h"
#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

/// Seconds for other ranks to arrive after two processes came with one rank. If the second is
/// superfluous, all ranks arrive without it; otherwise all ranks that have arrived receive the reason.
constexpr double kTwicePatience = 2;

template <class T>
std::string as_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

}  // namespace

StoreServer::StoreServer(const HostPort& address, const Membership& self, double silence_seconds)
    : self_(self),
      silence_seconds_(silence_seconds),
      entered_(static_cast<size_t>(self.world_size)),
      arrived_(static_cast<size_t>(self.world_size)) {
  Socket listener = listen_on(address);
  port_ = listening_port(listener);
  reception_.emplace(std::move(listener), self_);
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
  } catch (...) {
    ::close(wake_[0]);
    ::close(wake_[1]);
    throw;
  }
  pthread_setname_np(thread_.native_handle(), "hws-rendezvous");
}

StoreServer::~StoreServer() {
  ::close(wake_[1]);  // the thread sees the end of the pipe
  thread_.join();
  ::close(wake_[0]);
}

void StoreServer::main_loop() {
  try {
    serve();
  } catch (...) {  // memory ran out
    break_down(Error::caught(0));
  }
  clients_.clear();
}

void StoreServer::serve() {
  std::vector<pollfd> polled;
  for (bool ending = false; !ending;) {
    polled.assign({{wake_[0], POLLIN, 0}});
    for (const Client& client : clients_) {
      polled.push_back(
          {client.socket.fd(), static_cast<short>(client.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    reception_->add_polled(polled);
    poll(polled.data(), polled.size(), next_timeout());
    ending = polled[0].revents != 0;
    serve_all(polled);  // also before the end, because rank 0's own last messages may be pending
  }
  for (Client& client : clients_) {
    if (client.waits || (client.watches && !client.told)) {
      answer(client, static_cast<int32_t>(Code::kCancelled), kEndedInPeace);
    }
    write_to(client);
  }
}

/// Ends the job: sends the reason to all waiting ranks, and closes all connections. It allocates nothing.
void StoreServer::break_down(const Error& error) noexcept {
  char text[512];
  error.copy_message(text, sizeof(text));
  StoreAnswer head{static_cast<int32_t>(error.code()), static_cast<uint32_t>(std::strlen(text))};
  char message[sizeof(head) + sizeof(text)];
  std::memcpy(message, &head, sizeof(head));
  std::memcpy(message + sizeof(head), text, head.value_bytes);
  for (Client& client : clients_) {
    const bool listens = client.socket.open() && client.out.empty() && (client.waits || client.watches);
    if (listens && !client.told) {
      ::send(client.socket.fd(), message, sizeof(head) + head.value_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    client.socket.close();
  }
  reception_->close();
}

/// Reads only from clients with data. To try all clients for each message would take too many system calls.
void StoreServer::serve_all(const std::vector<pollfd>& polled) {
  size_t at = 1;  // the pipe comes first
  for (Client& client : clients_)
    if (polled[at++].revents != 0) read_from(client);
  reception_->serve([this](int32_t rank, Purpose) { return rejection_reason(rank); },
                    [this](Socket socket, int32_t rank, Purpose) { enter(std::move(socket), rank); });
  look_for_silence();
  look_for_twice();
  tell_fault();
  answer_waiting();
  give_beats();
  for (Client& client : clients_) write_to(client);
  clients_.remove_if([](const Client& client) { return !client.socket.open(); });
}

/// Returns the milliseconds until the next unprompted action; -1 if there is none.
int StoreServer::next_timeout() const {
  double deadline = std::min(reception_->deadline(), twice_deadline_);
  for (const Client& client : clients_) {
    if (client.waits) deadline = std::min(deadline, client.deadline);
    if (client.waits || client.watches) deadline = std::min(deadline, next_beat_);
    if (client.watches) deadline = std::min(deadline, client.heard + silence_seconds_);
  }
  if (deadline == kNoDeadline) return -1;
  return static_cast<int>(std::clamp(std::ceil((deadline - steady_seconds()) * 1e3), 0.0, 1e6));
}

std::string StoreServer::rejection_reason(int32_t rank) {
  if (!entered_[static_cast<size_t>(rank)]) return "";
  if (twice_deadline_ == kNoDeadline) twice_ = rank, twice_deadline_ = steady_seconds() + kTwicePatience;
  return came_twice(rank, self_.world_size);
}

void StoreServer::enter(Socket socket, int32_t rank) {
  Client& client = clients_.emplace_back();
  client.socket = std::move(socket);
  client.rank = rank;
  entered_[static_cast<size_t>(rank)] = true;
  ++entries_;
}

void StoreServer::read_from(Client& client) {
  char block[16384];
  while (client.socket.open()) {
    const ssize_t got = recv(client.socket.fd(), block, sizeof(block), 0);
    if (got > 0) {
      client.in.append(block, static_cast<size_t>(got));
      client.heard = steady_seconds();
      take_requests(client);
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    lost(client);
    client.socket.close();
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
}

/// Returns true if a client that waits for an answer sends another request that needs one.
bool StoreServer::out_of_turn(const Client& client, StoreOp op) {
  const bool unanswered = op == StoreOp::kBeat || op == StoreOp::kFault || op == StoreOp::kBye;
  return client.waits && !(client.watches && unanswered);
}

/// Processes the complete requests received so far.
void StoreServer::take_requests(Client& client) {
  while (client.in.size() >= sizeof(StoreRequest)) {
    StoreRequest request;
    std::memcpy(&request, client.in.data(), sizeof(request));
    if (request.mark != StoreRequest::kMark || request.key_bytes > kMostKeyBytes ||
        request.value_bytes > kMostValueBytes || out_of_turn(client, request.op)) {
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
}

void StoreServer::carry_out(Client& client, const StoreRequest& request, std::string key, std::string value) {
  const auto invalid = static_cast<int32_t>(Code::kInvalidArgument);
  switch (request.op) {
    case StoreOp::kSet:
      if (!values_.contains(key) && values_.size() >= kMostKeys) {
        return answer(client, invalid, "the rendezvous store is full");
      }
      values_[key] = std::move(value);
      return answer(client, 0, "");
    case StoreOp::kArrived:
    case StoreOp::kGet:
      return wait(client, request, std::move(key));
    case StoreOp::kMeet:
      wait(client, request, std::move(key));
      if (!client.watches || !meet(client, value)) break;
      return;
    case StoreOp::kWatch:
      return watch(client);
    case StoreOp::kBeat:
      return;
    case StoreOp::kFault: {
      int32_t code = static_cast<int32_t>(Code::kUnknown);
      if (value.size() >= sizeof(code)) std::memcpy(&code, value.data(), sizeof(code));
      return set_fault(static_cast<Code>(code), value.substr(std::min(sizeof(code), value.size())));
    }
    case StoreOp::kBye:
      client.left = true;
      client.watches = false;
      return;
  }
  answer(client, invalid, "the rendezvous store does not know this request");
}

void StoreServer::wait(Client& client, const StoreRequest& request, std::string key) {
  if (request.op == StoreOp::kArrived && !arrived_[static_cast<size_t>(client.rank)]) {
    arrived_[static_cast<size_t>(client.rank)] = true;
    ++arrivals_;
  }
  client.waits = true;
  client.waits_for = request.op;
  client.key = std::move(key);
  client.deadline =
      std::isfinite(request.timeout_seconds) ? steady_seconds() + request.timeout_seconds : kNoDeadline;
}

/// Stops listening when the last rank watches.
void StoreServer::watch(Client& client) {
  client.watches = true;
  if (++watchers_ == self_.world_size) reception_->close();
}

void StoreServer::answer_waiting() {
  const double now = steady_seconds();
  for (const Client& client : clients_) {  // the timeout of the first rank is reported for all
    const bool gives_up = client.waits && client.waits_for == StoreOp::kArrived && now >= client.deadline;
    if (gives_up && arrivals_ < self_.world_size && missed_.empty()) missed_ = missing(arrived_);
  }
  for (Client& client : clients_) {
    if (!client.waits || !client.socket.open()) continue;
    if (client.waits_for == StoreOp::kMeet) {
      answer_meeting(client, now);
      continue;
    }
    const bool arrival = client.waits_for == StoreOp::kArrived;
    const auto value = arrival ? values_.end() : values_.find(client.key);
    if (fault_) {
      answer(client, static_cast<int32_t>(fault_->code()), fault_->message());
    } else if (arrival && !missed_.empty()) {
      answer(client, static_cast<int32_t>(Code::kTimeout), missed_);
    } else if (arrival && arrivals_ == self_.world_size) {
      answer(client, 0, fmt::format("{}", silence_seconds_));
    } else if (value != values_.end()) {
      answer(client, 0, value->second);
    } else if (!arrival && now >= client.deadline) {
      answer(client, static_cast<int32_t>(Code::kTimeout), "no rank has set " + client.key);
    }
  }
}

/// Stores the text of a kMeet. Returns false if the message is invalid.
bool StoreServer::meet(Client& client, const std::string& value) {
  MeetHead head;
  if (value.size() < sizeof(head) || meetings_.size() >= kMostKeys) return false;
  std::memcpy(&head, value.data(), sizeof(head));
  const size_t rest = value.size() - sizeof(head);
  if (head.text_bytes > rest || (rest - head.text_bytes) != head.ranks * sizeof(int32_t)) return false;
  client.wants.resize(head.ranks);
  client.came = 0;
  if (head.ranks > 0)
    std::memcpy(client.wants.data(), value.data() + sizeof(head) + head.text_bytes,
                head.ranks * sizeof(int32_t));
  meetings_[client.key][client.rank] = value.substr(sizeof(head), head.text_bytes);
  return true;
}

void StoreServer::answer_meeting(Client& client, double now) {
  const Said& said = meetings_[client.key];
  while (client.came < client.wants.size() && said.contains(client.wants[client.came])) ++client.came;
  if (client.came < client.wants.size() && now < client.deadline) return;
  std::string all;
  for (const int32_t rank : client.wants) {
    const auto found = said.find(rank);
    const std::string text = found == said.end() ? "" : found->second;
    all += as_bytes(static_cast<uint32_t>(text.size())) + text;
  }
  answer(client, StoreAnswer::kMet, all);
}

void StoreServer::give_beats() {
  const double now = steady_seconds();
  if (now < next_beat_) return;
  next_beat_ = now + beat_seconds(silence_seconds_);
  for (Client& client : clients_) {
    if ((client.waits || client.watches) && client.out.empty()) {
      client.out += as_bytes(StoreAnswer{StoreAnswer::kBeat, 0});
    }
  }
}

/// Reads pending messages before it checks for silence, because this process itself may have been stopped.
void StoreServer::look_for_silence() {
  const double now = steady_seconds();
  std::vector<int32_t> silent;
  for (Client& client : clients_) {
    if (!client.watches || now < client.heard + silence_seconds_) continue;
    read_from(client);
    if (client.socket.open() && now >= client.heard + silence_seconds_) silent.push_back(client.rank);
  }
  if (silent.empty() || fault_) return;
  std::sort(silent.begin(), silent.end());
  set_fault(Code::kUnavailable,
            fmt::format("{} of {} sent no heartbeat for {} s: stopped, or cut off from rank 0",
                        name_ranks(silent), self_.world_size, silence_seconds_));
}

/// Fails if a rank is still missing: one of two processes that came with the same rank should have had it.
void StoreServer::look_for_twice() {
  if (steady_seconds() < twice_deadline_) return;
  twice_deadline_ = kNoDeadline;
  if (entries_ == self_.world_size) return;
  set_fault(Code::kInvalidArgument,
            fmt::format("two processes have rank {} of {}, and {} is missing; give each process its own rank",
                        twice_, self_.world_size, missing(entered_)));
}

void StoreServer::tell_fault() {
  if (!fault_) return;
  for (Client& client : clients_) {
    if (!client.watches || client.told) continue;
    answer(client, static_cast<int32_t>(fault_->code()), fault_->message());
    client.told = true;
  }
}

void StoreServer::answer(Client& client, int32_t code, std::string_view value) {
  client.waits = false;
  client.out += as_bytes(StoreAnswer{code, static_cast<uint32_t>(value.size())});
  client.out += value;
}

/// A rank whose connection ends without a kBye has died. Notifies all other ranks.
void StoreServer::lost(const Client& client) {
  if (client.left) return;
  const auto rank = static_cast<size_t>(client.rank);
  if (entries_ < self_.world_size) {  // the rank's process may start again
    --entries_;
    arrivals_ -= arrived_[rank] ? 1 : 0;
    entered_[rank] = arrived_[rank] = false;
    if (client.rank == twice_) twice_deadline_ = kNoDeadline;  // the refused process was its replacement
    return;
  }
  set_fault(Code::kUnavailable,
            fmt::format("rank {} of {} is gone: its process ended or its connection broke", client.rank,
                        self_.world_size));
}

/// The first fault stays.
void StoreServer::set_fault(Code code, std::string message) {
  if (!fault_) fault_.emplace(code, std::move(message));
}

/// Returns a text such as "rank 1 and rank 3 of 4".
std::string StoreServer::missing(const std::vector<bool>& there) const {
  std::vector<int32_t> ranks;
  for (int32_t r = 0; r < self_.world_size; ++r) {
    if (!there[static_cast<size_t>(r)]) ranks.push_back(r);
  }
  return fmt::format("{} of {}", name_ranks(ranks), self_.world_size);
}

}  // namespace hawser::comm
