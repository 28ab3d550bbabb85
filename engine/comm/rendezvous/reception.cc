#include "engine/comm/rendezvous/reception.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

constexpr size_t kMostBytes = 1024;  // most bytes of a stranger that wait to be processed
constexpr int32_t kAcceptedAtOnce = 64;
constexpr double kRest = 0.1;

}  // namespace

void Reception::add_polled(std::vector<pollfd>& polled) const {
  if (!listener_.open()) return;
  if (steady_seconds() >= resting_until_) polled.push_back({listener_.fd(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) {
    polled.push_back({stranger.socket.fd(), static_cast<short>(stranger.out.empty() ? POLLIN : POLLOUT), 0});
  }
}

double Reception::deadline() const {
  double deadline = steady_seconds() < resting_until_ ? resting_until_ : kNoDeadline;
  for (const Stranger& stranger : strangers_) deadline = std::min(deadline, stranger.deadline);
  return deadline;
}

void Reception::serve(const RejectionReason& rejection_reason, const Enter& enter) {
  if (!listener_.open()) return;
  for (Stranger& stranger : strangers_) talk(stranger, rejection_reason, enter);
  const double now = steady_seconds();
  strangers_.remove_if([&](const Stranger& s) { return !s.socket.open() || now >= s.deadline; });
  accept_some();
}

void Reception::close() {
  strangers_.clear();
  listener_.close();
}

void Reception::accept_some() {
  for (int32_t i = 0; i < kAcceptedAtOnce; ++i) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open()) {
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (exhausted && !strangers_.empty()) {
        strangers_.pop_front();
      } else if (exhausted) {
        resting_until_ = steady_seconds() + kRest;
      }
      return;
    }
    if (strangers_.size() >= kMostStrangers) strangers_.pop_front();
    without_delay(socket);
    strangers_.push_back({std::move(socket), Greeter(self_), "", "", steady_seconds() + kPatience});
  }
}

void Reception::read_from(Stranger& stranger) {
  char block[kMostBytes];
  const ssize_t got = recv(stranger.socket.fd(), block, kMostBytes - stranger.in.size(), 0);
  if (got > 0) {
    stranger.in.append(block, static_cast<size_t>(got));
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    stranger.socket.close();
  }
}

void Reception::talk(Stranger& stranger, const RejectionReason& rejection_reason, const Enter& enter) {
  read_from(stranger);
  if (!stranger.socket.open()) return;
  Greeter::State state =
      stranger.refused ? Greeter::State::kRefused : stranger.greeter.take(stranger.in, stranger.out);
  if (state == Greeter::State::kClaimed) {
    const std::string why = rejection_reason(stranger.greeter.rank(), stranger.greeter.purpose());
    if (why.empty()) {
      Greeter::admit(stranger.out);
    } else {
      state = Greeter::refuse(stranger.out, Code::kInvalidArgument, why);
    }
  }
  stranger.refused = state == Greeter::State::kRefused;
  const ssize_t put = stranger.out.empty() ? 0
                                           : ::send(stranger.socket.fd(), stranger.out.data(),
                                                    stranger.out.size(), MSG_NOSIGNAL);
  if (put < 0 && errno != EAGAIN && errno != EINTR) return stranger.socket.close();
  if (put > 0) stranger.out.erase(0, static_cast<size_t>(put));
  if (state == Greeter::State::kClaimed && stranger.out.empty() && stranger.in.empty()) {
    enter(std::move(stranger.socket), stranger.greeter.rank(), stranger.greeter.purpose());
  } else if (state == Greeter::State::kClaimed || (stranger.refused && stranger.out.empty())) {
    stranger.socket.close();
  }
}

}  // namespace hawser::comm
