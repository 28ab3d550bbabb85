// A thin C++ wrapper of the C API: handles that destroy themselves, and exceptions in place of statuses. The
// command is an ordinary client of capi/include/hawser.h and does not depend on the engine.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// A failed call, or input that the command itself refuses. `status` is an HWS_* code.
class Failure : public std::runtime_error {
 public:
  Failure(int32_t status, const std::string& message) : std::runtime_error(message), status_(status) {}
  int32_t status() const { return status_; }

  /// Exit code 2 promises that nothing was written. A command that has begun to write fails with 1, whatever
  /// the status, for instance if data turn out to be damaged in step 14.
  void note_written() { written_ = true; }
  bool written() const { return written_; }

 private:
  int32_t status_;
  bool written_ = false;
};

/// Exit codes of the command.
inline constexpr int kExitOk = 0, kExitRuntime = 1, kExitInput = 2, kExitInterrupted = 130;

/// Returns the exit code for a status: 2 if other input would help, 130 for cancelled, otherwise 1.
int exit_code(int32_t status);
/// Returns the exit code for a failure: that of its status, but 1 in place of 2 once something was written.
int exit_code(const Failure& failure);

/// Throws the calling thread's last error as a Failure unless status is HWS_OK.
void check(int32_t status);

/// Throws Failure with HWS_INVALID_ARGUMENT (exit code 2).
[[noreturn]] void refuse(const std::string& message);

/// CallbackError: a holder for an exception in a callback of the C API, which must not throw. The caller
/// rethrows it after the call.
class CallbackError {
 public:
  /// Returns what `body` returns, or 1 if it throws, which ends the call.
  template <typename Body>
  int32_t hold(Body body) noexcept {
    try {
      return body();
    } catch (...) {
      error_ = std::current_exception();
      return 1;
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

template <typename T, void (*kDestroy)(T*)>
struct Destroyer {
  void operator()(T* handle) const { kDestroy(handle); }
};
using Error = std::unique_ptr<hws_error, Destroyer<hws_error, hws_error_destroy>>;
using Buffer = std::unique_ptr<hws_buffer, Destroyer<hws_buffer, hws_buffer_destroy>>;
using Config = std::unique_ptr<hws_config, Destroyer<hws_config, hws_config_destroy>>;
using Comm = std::unique_ptr<hws_comm, Destroyer<hws_comm, hws_comm_destroy>>;
using Plan = std::unique_ptr<hws_plan, Destroyer<hws_plan, hws_plan_destroy>>;
using Engine = std::unique_ptr<hws_engine, Destroyer<hws_engine, hws_engine_destroy>>;

/// Calls fn(args..., &out), checks the status and owns the handle.
///   Engine engine = make<Engine>(hws_engine_create, config.get(), 0u);
template <typename Owner, typename Fn, typename... Args>
Owner make(Fn fn, Args... args) {
  typename Owner::pointer out = nullptr;
  check(fn(args..., &out));
  return Owner(out);
}

/// Calls fn(args..., &out), checks the status and returns the text.
template <typename Fn, typename... Args>
std::string text_of(Fn fn, Args... args) {
  const Buffer buffer = make<Buffer>(fn, args...);
  return std::string(static_cast<const char*>(hws_buffer_data(buffer.get())), hws_buffer_size(buffer.get()));
}

}  // namespace hawser::cli
