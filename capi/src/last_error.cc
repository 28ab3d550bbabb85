// A thread's last error lies in the thread's own memory, so that keeping it takes none. It is given back when
// the thread ends by the destructor of a pthread key, not by one of C++: registering that takes memory, and
// glibc ends the process where there is none. Keys also come after the host's own thread-local destructors,
// which may still call the library.
#include "capi/src/last_error.h"

#include <pthread.h>

#include <atomic>
#include <new>
#include <utility>

namespace hawser::capi {
namespace {

struct LastError {
  Error error;
  const char* function;
  bool speaks_for_itself;  ///< an Error's text says where it comes from; others' do not
};

alignas(LastError) thread_local constinit unsigned char t_memory[sizeof(LastError)] = {};
thread_local constinit bool t_kept = false;

LastError* last() { return t_kept ? std::launder(reinterpret_cast<LastError*>(t_memory)) : nullptr; }

void forget() {
  if (LastError* const error = last()) error->~LastError();
  t_kept = false;
}

constexpr int64_t kNoKey = -1;
constinit std::atomic<int64_t> g_key{kNoKey};

/// The process's key for the ends of threads; kNoKey where it has none left.
int64_t key() {
  int64_t known = g_key.load(std::memory_order_acquire);
  if (known != kNoKey) return known;
  pthread_key_t mine = 0;
  if (pthread_key_create(&mine, [](void*) { forget(); }) != 0) return kNoKey;
  if (g_key.compare_exchange_strong(known, mine, std::memory_order_acq_rel)) return mine;
  pthread_key_delete(mine);
  return known;
}

/// Whether the end of this thread will be noticed.
bool end_is_noticed() {
  const int64_t k = key();
  return k != kNoKey && pthread_setspecific(static_cast<pthread_key_t>(k), t_memory) == 0;
}

void keep(const Error& error, const char* function, bool speaks_for_itself) {
  forget();
  const bool noticed = end_is_noticed();  // else the text would be lost with the thread
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
  // An error that names no file, pointer or argument still says which call it came from.
  if (record->details == "{}") record->details = fmt::format(R"({{"function":"{}"}})", kept->function);
  forget();
  return record;
}

}  // namespace hawser::capi
