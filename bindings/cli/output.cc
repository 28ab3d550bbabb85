// Writes to stdout and checks each write.
#include "bindings/cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "bindings/cli/client.h"

namespace hawser::cli {
namespace {

constexpr size_t kBlock = size_t{1} << 16;

bool closed_from_the_start = false;  // stdout

/// Writes all of it. Returns 0 or an errno value.
int write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {  // another process made the pipe non-blocking
      pollfd out = {STDOUT_FILENO, POLLOUT, 0};
      poll(&out, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// Some file systems report a full disk only when a descriptor is closed.
int close_a_copy() {
  const int copy = dup(STDOUT_FILENO);
  return copy >= 0 && close(copy) != 0 && errno != EINTR ? errno : 0;
}

}  // namespace

void Output::print(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(length > 0 ? length : 0), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  write(text);
}

void Output::write(std::string_view text) {
  text_ += text;
  const bool line_done = !text_.empty() && text_.back() == '\n';
  if (text_.size() >= kBlock || (line_done && isatty(STDOUT_FILENO) != 0)) flush();
}

void Output::line(std::string_view text) {
  write(text);
  if (text.empty() || text.back() != '\n') write("\n");
}

void Output::flush() {
  if (error_ == 0) error_ = write_all(text_);
  text_.clear();
}

bool Output::pipe_closed() const { return error_ == EPIPE; }

void Output::may_be_closed() {
  if (!closed_from_the_start) return;
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) return;
  dup2(nothing, STDOUT_FILENO);
  close(nothing);
}

int Output::finish(int code) {
  flush();
  if (error_ == 0) error_ = close_a_copy();
  if (error_ == 0) return code;
  if (pipe_closed()) return code != 0 ? code : kExitPipeClosed;
  std::fprintf(stderr, "hawser: error: cannot write to stdout: %s; the output is incomplete\n",
               std::strerror(error_));
  return code != 0 ? code : kExitRuntime;
}

Output& output() {
  static Output only;
  return only;
}

// The placeholders for stdin and stdout are opened for the wrong direction, so that using them fails like a
// closed descriptor.
void prepare_standard_files() {
  closed_from_the_start = fcntl(STDOUT_FILENO, F_GETFD) < 0;
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) < 0) open("/dev/null", file == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace hawser::cli
