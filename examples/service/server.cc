#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMillisecondsForAWrite = 5000;

bool is_ready(int socket, short events, int milliseconds) {
  pollfd waited{socket, events, 0};
  int n = 0;
  do n = poll(&waited, 1, milliseconds);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

/// A connection whose request must arrive before its deadline.
class Connection : public httplib::Stream {
 public:
  Connection(socket_t socket, std::atomic<int>* half_requests)
      : socket_(socket),
        half_requests_(half_requests),
        deadline_(Clock::now() + std::chrono::seconds(Server::kSecondsForARequest)) {}
  ~Connection() override { arrived(); }

  void arrived() {
    if (!std::exchange(has_arrived_, true)) --*half_requests_;
  }

  bool is_readable() const override { return begin_ < end_ || is_ready(socket_, POLLIN, 0); }
  bool is_writable() const override {
    char byte;
    const bool is_closed = is_ready(socket_, POLLIN, 0) && recv(socket_, &byte, 1, MSG_PEEK) <= 0;
    return !is_closed && is_ready(socket_, POLLOUT, kMillisecondsForAWrite);
  }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0 || !is_ready(socket_, POLLIN, static_cast<int>(left))) return -1;
      const ssize_t n = recv(socket_, buffer_, sizeof buffer_, 0);
      if (n <= 0) return n;
      begin_ = 0, end_ = static_cast<size_t>(n);
    }
    const size_t n = std::min(size, end_ - begin_);
    std::copy_n(buffer_ + begin_, n, to);
    begin_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) override {
    return is_ready(socket_, POLLOUT, kMillisecondsForAWrite) ? send(socket_, from, size, MSG_NOSIGNAL) : -1;
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { name(getpeername, &ip, &port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { name(getsockname, &ip, &port); }
  socket_t socket() const override { return socket_; }

 private:
  template <typename Call>
  void name(Call call, std::string* ip, int* port) const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    char text[INET_ADDRSTRLEN] = "";
    if (call(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    *ip = text, *port = ntohs(address.sin_port);
  }

  const socket_t socket_;
  std::atomic<int>* const half_requests_;
  const Clock::time_point deadline_;
  bool has_arrived_ = false;
  char buffer_[4096];
  size_t begin_ = 0, end_ = 0;  // the range of the buffer that is filled
};

thread_local Connection* connection_of_this_thread = nullptr;

}  // namespace

void Server::request_has_arrived() {
  if (connection_of_this_thread != nullptr) connection_of_this_thread->arrived();
}

bool Server::process_and_close_socket(socket_t socket) {
  bool ok = false;
  if (++half_requests_ <= kMostHalfRequests) {
    Connection connection(socket, &half_requests_);
    connection_of_this_thread = &connection;
    bool closed = false;
    ok = process_request(connection, /*close_connection=*/true, closed, nullptr);
    connection_of_this_thread = nullptr;
  } else {
    --half_requests_;
  }
  shutdown(socket, SHUT_RDWR);
  close(socket);
  return ok;
}

}  // namespace service
