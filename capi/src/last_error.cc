// A thread's last error is stored in thread-local memory, so that storing it allocates nothing. When the
// thread ends, the destructor of a pthread key frees it. A C++ destructor would not do: registering one
// allocates, and glibc ends the process if that fails. Keys are also destroyed after the host program's own
// thread-locals, whose destructors may still call the library.
#include "capi/src/last_error.h"

#include <new>
#include <utility>

#include "capi/src/thread_key.h"

namespace hawser::capi {
namespace {

struct LastError {
  Error error;
  const char* function;
  bool speaks_for_itself;  ///< an Error's text names its source; the text of other exceptions does not
};

alignas(LastError) thread_local constinit unsigned char t_memory[sizeof(LastError)] = {};
thread_local constinit bool t_kept = false;

LastError* last() { return t_kept ? std::launder(reinterpret_cast<LastError*>(t_memory)) : nullptr; }

void forget() {
  if (LastError* const error = last()) error->~LastError();
  t_kept = false;
}

constinit ThreadKey g_last_error_key{[](void*) { forget(); }};

/// Returns true if the key's destructor will run at the end of this thread.
bool end_is_noticed() {
  const auto key = g_last_error_key.get();
  return key && pthread_setspecific(*key, t_memory) == 0;
}

void keep(const Error& error, const char* function, bool speaks_for_itself) {
  forget();
  const bool noticed = end_is_noticed();  // if not, the text would leak at the thread's end
  new (t_memory)
      LastError{noticed ? error : Error::fixed(error.code(), "the text of this error is lost: no memory"),
                function, speaks_for_itself && noticed};
  t_kept = true;
}

}  // namespace

int32_t record_current_exception(const char* function) noexcept {
  bool speaks_for_itself = true;
  try {
    throw;
  } catch (const Error&) {
  } catch (...) {
    speaks_for_itself = false;
  }
  const Error error = Error::caught();
  keep(error, function, speaks_for_itself);
  return static_cast<int32_t>(error.code());
}

std::unique_ptr<ErrorRecord> take_last_error() {
  const LastError* const kept = last();
  if (kept == nullptr) return nullptr;
  auto record = std::make_unique<ErrorRecord>();
  record->code = kept->error.code();
  record->message = kept->error.message();
  if (!kept->speaks_for_itself) record->message = fmt::format("{}: {}", kept->function, record->message);
  record->details = kept->error.details();
  // An error that names no file, pointer or argument gets at least the name of its function.
  if (record->details == "{}") record->details = fmt::format(R"({{"function":"{}"}})", kept->function);
  forget();
  return record;
}

}  // namespace hawser::capi
