// Turns statuses into exceptions and exit codes.
#include "bindings/cli/client.h"

namespace hawser::cli {

int exit_code(int32_t status) {
  switch (status) {
    case HWS_OK:
      return kExitOk;
    case HWS_CANCELLED:
      return kExitInterrupted;
    case HWS_INVALID_ARGUMENT:
    case HWS_NOT_FOUND:
    case HWS_ALREADY_EXISTS:
    case HWS_PERMISSION:
    case HWS_OUT_OF_MEMORY:  // the config asks for more than the machine has
    case HWS_FAILED_PRECONDITION:
    case HWS_OUT_OF_RANGE:
    case HWS_UNIMPLEMENTED:
    case HWS_CONFIG_PARSE:
    case HWS_CONFIG_INVALID:
    case HWS_DEVICE_UNAVAILABLE:
    case HWS_CHECKPOINT_CORRUPT:
    case HWS_CHECKPOINT_INCOMPATIBLE:
    case HWS_DATA_INVALID:
      return kExitInput;
    default:
      return kExitRuntime;
  }
}

int exit_code(const Failure& failure) {
  const int code = exit_code(failure.status());
  return code == kExitInput && failure.written() ? kExitRuntime : code;
}

void check(int32_t status) {
  if (status == HWS_OK) return;
  hws_error* raw = nullptr;
  if (hws_error_take(&raw) != HWS_OK) throw Failure(status, hws_status_name(status));
  const Error error(raw);
  std::string message = hws_error_message(error.get());
  if (message.empty()) message = hws_status_name(status);
  throw Failure(status, message);
}

void refuse(const std::string& message) { throw Failure(HWS_INVALID_ARGUMENT, message); }

}  // namespace hawser::cli
