// What the command says on stdout. All of it goes through here, so that no byte is lost unnoticed: the first
// write that fails is remembered, what follows is dropped, and the command's exit code tells.
#pragma once

#include <string>
#include <string_view>

namespace hawser::cli {

/// Exit code where the reader of a pipe went away (`| head -1`): what a shell shows for SIGPIPE, which the
/// command ignores.
inline constexpr int kExitPipeClosed = 141;

class Output {
 public:
  void print(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void write(std::string_view text);
  /// The text, and a line break unless it ends with one.
  void line(std::string_view text);
  /// Hands everything to the system. A terminal has each line at once.
  void flush();

  /// Whether something could not be written, so far as it was flushed. `error` is the errno value; 0:
  /// nothing.
  bool lost() const { return error_ != 0; }
  int error() const { return error_; }
  bool pipe_closed() const;

  /// For a command whose result is not what it prints: where stdout is closed from the start, nobody asked
  /// for it, and nothing is lost.
  void may_be_closed();

  /// At the end of the command: flushes, tells on stderr if something was lost (a closed pipe ends quietly),
  /// and returns the exit code: `code`, or where that is 0 what the loss makes of it.
  int finish(int code);

 private:
  std::string text_;  // not written yet
  int error_ = 0;
};

/// The command's only one.
Output& output();

/// At the command's start. Gives descriptors 0, 1 and 2 a meaning where the caller closed them, as the next
/// file that is opened would take their place and receive what is printed; and has writes to closed pipes and
/// beyond RLIMIT_FSIZE fail instead of killing the process.
void prepare_standard_files();

}  // namespace hawser::cli
