// A thread's last error is a raw pointer beside an object whose only duty is to free it when the thread ends:
// a host's own thread-local destructors may still call the library after that, and then must not touch a dead
// object. What they fail with is not kept.
#include "capi/src/last_error.h"

#include <new>
#include <utility>

namespace hawser::capi {
namespace {

/// What is kept when even the text of an error cannot be allocated.
enum class Fallback : uint8_t { kNone, kOutOfMemory, kTextLost };

thread_local ErrorRecord* t_record = nullptr;
thread_local Fallback t_fallback = Fallback::kNone;
thread_local Code t_fallback_code = Code::kOk;
thread_local bool t_thread_ended = false;

struct Reaper {
  ~Reaper() {
    delete std::exchange(t_record, nullptr);
    t_thread_ended = true;
  }
};

void keep(ErrorRecord* record) {
  if (t_thread_ended) {
    delete record;
    return;
  }
  thread_local Reaper reaper;
  static_cast<void>(&reaper);
  delete std::exchange(t_record, record);
  t_fallback = Fallback::kNone;
}

void keep_fallback(Fallback fallback, Code code) {
  delete std::exchange(t_record, nullptr);
  t_fallback = fallback;
  t_fallback_code = code;
}

int32_t store(Code code, const char* function, const std::string* message, const std::string* details,
              const char* what) noexcept {
  try {
    auto record = std::make_unique<ErrorRecord>();
    record->code = code;
    record->message = message != nullptr ? *message : fmt::format("{}: {}", function, what);
    // An error that names no file, pointer or argument still says which call it came from.
    record->details =
        details != nullptr && *details != "{}" ? *details : fmt::format(R"({{"function":"{}"}})", function);
    keep(record.release());
  } catch (...) {
    keep_fallback(code == Code::kOutOfMemory ? Fallback::kOutOfMemory : Fallback::kTextLost, code);
  }
  return static_cast<int32_t>(code);
}

}  // namespace

int32_t record_current_exception(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return store(error.code(), function, &error.message(), &error.details(), "");
  } catch (const std::bad_alloc&) {
    return store(Code::kOutOfMemory, function, nullptr, nullptr,
                 "the host has no memory left for this call; free some or choose a smaller model or batch");
  } catch (const std::exception& error) {
    return store(Code::kInternal, function, nullptr, nullptr, error.what());
  } catch (...) {
    return store(Code::kInternal, function, nullptr, nullptr, "an exception of unknown type was thrown");
  }
}

std::unique_ptr<ErrorRecord> take_last_error() {
  if (t_fallback != Fallback::kNone) {
    auto record = std::make_unique<ErrorRecord>();
    record->code = t_fallback_code;
    record->message = t_fallback == Fallback::kOutOfMemory
                          ? "the host has no memory left, not even for the text of the error"
                          : "the text of this error is lost: the host has no memory left";
    t_fallback = Fallback::kNone;
    return record;
  }
  return std::unique_ptr<ErrorRecord>(std::exchange(t_record, nullptr));
}

}  // namespace hawser::capi
