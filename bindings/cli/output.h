// Output: the only writer to the command's stdout. It remembers the first failed write and drops later
// output; the exit code reports the failure.
#pragma once

#include <string>
#include <string_view>

namespace hawser::cli {

/// Exit code if the reader of a pipe has closed it (`| head -1`). A shell shows the same code for SIGPIPE,
/// which the command ignores.
inline constexpr int kExitPipeClosed = 141;

class Output {
 public:
  void print(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void write(std::string_view text);
  /// Writes the text, and a line break unless the text ends with one.
  void line(std::string_view text);
  /// Writes buffered text. To a terminal each line is written at once.
  void flush();

  /// True if a write has failed. error() returns its errno value, or 0.
  bool lost() const { return error_ != 0; }
  int error() const { return error_; }
  bool pipe_closed() const;

  /// Call in a command whose result is not its output: if stdout was closed from the start, nothing counts as
  /// lost.
  void may_be_closed();

  /// Call at the end of the command. Flushes, reports lost output on stderr (a closed pipe ends quietly), and
  /// returns the exit code: `code`, or if that is 0, the code for the loss.
  int finish(int code);

 private:
  std::string text_;  // text not written yet
  int error_ = 0;
};

/// The only instance.
Output& output();

/// Call at the start of the command. Opens placeholders for descriptors 0, 1 and 2 if the caller closed them;
/// otherwise the next opened file would receive the printed text. Makes writes to closed pipes and beyond
/// RLIMIT_FSIZE fail instead of killing the process.
void prepare_standard_files();

}  // namespace hawser::cli
