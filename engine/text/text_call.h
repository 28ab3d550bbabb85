// TextCall: one call of the text module. Collects the call's output and converts its status into an
// exception.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "engine/text/text_module.h"

namespace hawser::text {

/// Appends to a string or a vector. Stores an exception for rethrow(), because no exception may cross the
/// module.
template <typename Container>
class Collector {
 public:
  explicit Collector(Container* into) : into_(into), sink_{this, &Collector::write} {}
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  const TextSink* sink() const { return &sink_; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  static int32_t write(void* user, const void* data, size_t bytes) noexcept {
    auto* const self = static_cast<Collector*>(user);
    using Element = typename Container::value_type;
    try {
      const auto* const begin = static_cast<const Element*>(data);
      self->into_->insert(self->into_->end(), begin, begin + bytes / sizeof(Element));
      return 0;
    } catch (...) {
      self->thrown_ = std::current_exception();
      return 1;
    }
  }

  Container* into_;
  std::exception_ptr thrown_;
  TextSink sink_;
};

/// Calls the interrupt poll of the calling thread (engine/base/interrupt.h).
extern const TextPoll kHostPoll;

/// Receives a call's error message and interprets its status.
class TextCall {
 public:
  /// `what` begins the text of an error: "tokenizer.json", "the chat template".
  explicit TextCall(const std::string& what) : what_(what), collector_(&message_) {}
  const TextSink* error() const { return collector_.sink(); }
  /// Throws kDataInvalid with the module's message, unless status is kTextOk or kTextStopped.
  void check(int32_t status) const;
  /// Throws kCancelled if `status` is kTextStopped. Use it for calls with a poll, after sinks and sources
  /// have rethrown their errors.
  static void check_stopped(int32_t status);

 private:
  const std::string& what_;
  std::string message_;
  Collector<std::string> collector_;
};

}  // namespace hawser::text
