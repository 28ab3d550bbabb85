#include "engine/comm/rendezvous/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <system_error>

#include "engine/base/error.h"
#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const HostPort& address, bool to_listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &list);
  if (status != 0) {
    fail(Code::kInvalidArgument, "the address {} cannot be resolved: {}", address.text(),
         gai_strerror(status));
  }
  return {list, freeaddrinfo};
}

/// Waits for events. Returns false at the deadline and once `interrupt` becomes readable.
bool wait_for(int fd, short events, double deadline, int interrupt = -1) {
  pollfd entries[2] = {{fd, events, 0}, {interrupt, POLLIN, 0}};
  for (;;) {
    const int ready = poll(entries, 2, milliseconds_until(deadline));
    if (ready > 0) return entries[1].revents == 0;
    if (ready == 0 && milliseconds_until(deadline) == 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

std::string digits_of(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  getnameinfo(address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return host;
}

Socket make_socket(const addrinfo& entry) {
  Socket socket(::socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, entry.ai_protocol));
  if (socket.open()) without_delay(socket);
  return socket;
}

/// Tries once to connect to one address; returns 0 or an errno.
int try_connect(const Socket& socket, const addrinfo& entry, double deadline, int interrupt) {
  const bool at_once = connect(socket.fd(), entry.ai_addr, entry.ai_addrlen) == 0;
  if (!at_once && errno != EINPROGRESS) return errno;
  if (!at_once && !wait_for(socket.fd(), POLLOUT, deadline, interrupt)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 && reached_itself(socket) ? ECONNREFUSED : error;
}

}  // namespace

HostPort parse_address(std::string_view address) {
  const size_t colon = address.rfind(':');
  std::string_view host = address.substr(0, colon == std::string_view::npos ? 0 : colon);
  const std::string_view port = colon == std::string_view::npos ? "" : address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (host.empty() || !digits || std::stoi(std::string(port)) > 65535) {
    fail(Code::kInvalidArgument, "the address \"{}\" is not of the form host:port, such as 10.0.0.1:29500",
         address);
  }
  return {std::string(host), std::string(port)};
}

Socket& Socket::operator=(Socket&& other) noexcept {
  close();
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Socket::shut_down() {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

Socket connect_until(const HostPort& address, double deadline, std::string* why, int interrupt) {
  constexpr double kPause = 0.05, kOneTry = 5;
  for (;;) {
    const AddressList list = resolve(address, false);
    for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
      Socket socket = make_socket(*entry);
      const double until = std::min(deadline, steady_seconds() + kOneTry);
      const int error = socket.open() ? try_connect(socket, *entry, until, interrupt) : errno;
      if (error == 0) return socket;
      *why = error_text(error);
    }
    if (steady_seconds() + kPause >= deadline) return Socket();
    pollfd entry{interrupt, POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(kPause * 1e3)) > 0) return Socket();
  }
}

Socket listen_on(const HostPort& address) {
  const AddressList list = resolve(address, true);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    Socket socket = make_socket(*entry);
    const int one = 1;
    if (socket.open() && setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(socket.fd(), entry->ai_addr, entry->ai_addrlen) == 0 && listen(socket.fd(), SOMAXCONN) == 0) {
      return socket;
    }
    error = errno;
  }
  fail(Code::kUnavailable, "rank 0 cannot listen on {}: {}; choose an address of this host and a free port",
       address.text(), error_text(error));
}

int32_t listening_port(const Socket& socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return name.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6&>(name).sin6_port)
                                    : ntohs(reinterpret_cast<sockaddr_in&>(name).sin_port);
}

bool reached_itself(const Socket& socket) {
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof(own), other_size = sizeof(other);
  return getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&other), &other_size) == 0 &&
         own_size == other_size && std::memcmp(&own, &other, own_size) == 0;
}

std::string local_address(const Socket& socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return "";
  return digits_of(reinterpret_cast<sockaddr*>(&name), size);
}

void without_delay(const Socket& socket) {
  const int one = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

bool is_loopback(const std::string& host) {
  const AddressList list = resolve({host, "0"}, false);
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const std::string digits = digits_of(entry->ai_addr, entry->ai_addrlen);
    if (!digits.starts_with("127.") && digits != "::1") return false;
  }
  return true;
}

std::string interface_address(const std::string& name) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0)
    fail(Code::kUnavailable, "network interfaces cannot be listed: {}", error_text(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, freeifaddrs);
  std::string names;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if (entry->ifa_name == name) {
        return digits_of(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      }
      if (family == AF_INET) names += (names.empty() ? "" : ", ") + std::string(entry->ifa_name);
    }
  }
  fail(Code::kInvalidArgument, "there is no network interface \"{}\" with an address; there are {}", name,
       names);
}

std::string error_text(int error) { return std::system_category().message(error); }

int milliseconds_until(double deadline) {
  if (deadline == kNoDeadline) return -1;
  return static_cast<int>(std::clamp(std::ceil((deadline - steady_seconds()) * 1e3), 0.0, 1e9));
}

bool read_all(const Socket& socket, void* data, size_t bytes, double deadline, int interrupt) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = recv(socket.fd(), static_cast<char*>(data) + done, bytes - done, 0);
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
               !wait_for(socket.fd(), POLLIN, deadline, interrupt)) {
      return false;
    }
  }
  return true;
}

bool write_all(const Socket& socket, const void* data, size_t bytes, double deadline, int interrupt) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put =
        ::send(socket.fd(), static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(socket.fd(), POLLOUT, deadline, interrupt)) {
      return false;
    }
  }
  return true;
}

}  // namespace hawser::comm
