// The functions hws_error_*: a thread's last error as an object that any thread may read.
#include "capi/include/hawser.h"
#include "capi/src/guard.h"
#include "capi/src/handle_table.h"

using namespace hawser::capi;

namespace {

class ErrorObject : public Object {
 public:
  static constexpr HandleType kType = HandleType::kError;
  std::unique_ptr<ErrorRecord> record;
};

/// Reads a field of an error; returns `missing` if the handle is invalid. It never touches the thread's last
/// error, which the host program may be about to take.
template <typename Value, typename Read>
Value read(const char* function, const hws_error* error, Value missing, Read&& field) noexcept {
  try {
    return field(*Use<ErrorObject>(Call(function), error, Access::kAlways)->record);
  } catch (...) {
    return missing;
  }
}

}  // namespace

hws_status hws_error_take(hws_error** out) {
  // This runs outside of the guard, because its own failure must not become the last error that the next call
  // takes.
  try {
    Call(__func__).out(out);
    auto object = std::make_unique<ErrorObject>();
    Reservation reservation(ErrorObject::kType);
    object->record = take_last_error();
    if (object->record == nullptr) return HWS_NOT_FOUND;
    *out = static_cast<hws_error*>(reservation.publish(std::move(object)));
    return HWS_OK;
  } catch (const hawser::Error& error) {
    return static_cast<int32_t>(error.code());
  } catch (...) {
    return HWS_OUT_OF_MEMORY;
  }
}

hws_status hws_error_code(const hws_error* error) {
  return read(__func__, error, int32_t{HWS_BAD_HANDLE},
              [](const ErrorRecord& record) { return static_cast<int32_t>(record.code); });
}

const char* hws_error_message(const hws_error* error) {
  return read(__func__, error, "", [](const ErrorRecord& record) { return record.message.c_str(); });
}

const char* hws_error_details(const hws_error* error) {
  return read(__func__, error, "", [](const ErrorRecord& record) { return record.details.c_str(); });
}

void hws_error_destroy(hws_error* error) { destroy_handle(HandleType::kError, error); }
