#include "engine/base/error.h"

#include <utility>

#include "engine/base/utf8.h"

namespace hawser {

Error::Error(Code code, std::string message, std::string details)
    : code_(code), message_(as_utf8(std::move(message))), details_(std::move(details)) {}

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "HWS_OK";
    case Code::kCancelled:
      return "HWS_CANCELLED";
    case Code::kUnknown:
      return "HWS_UNKNOWN";
    case Code::kInvalidArgument:
      return "HWS_INVALID_ARGUMENT";
    case Code::kTimeout:
      return "HWS_TIMEOUT";
    case Code::kNotFound:
      return "HWS_NOT_FOUND";
    case Code::kAlreadyExists:
      return "HWS_ALREADY_EXISTS";
    case Code::kPermission:
      return "HWS_PERMISSION";
    case Code::kOutOfMemory:
      return "HWS_OUT_OF_MEMORY";
    case Code::kFailedPrecondition:
      return "HWS_FAILED_PRECONDITION";
    case Code::kAborted:
      return "HWS_ABORTED";
    case Code::kOutOfRange:
      return "HWS_OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "HWS_UNIMPLEMENTED";
    case Code::kInternal:
      return "HWS_INTERNAL";
    case Code::kUnavailable:
      return "HWS_UNAVAILABLE";
    case Code::kDataLoss:
      return "HWS_DATA_LOSS";
    case Code::kIo:
      return "HWS_IO";
    case Code::kConfigParse:
      return "HWS_CONFIG_PARSE";
    case Code::kConfigInvalid:
      return "HWS_CONFIG_INVALID";
    case Code::kDeviceUnavailable:
      return "HWS_DEVICE_UNAVAILABLE";
    case Code::kCheckpointCorrupt:
      return "HWS_CHECKPOINT_CORRUPT";
    case Code::kCheckpointIncompatible:
      return "HWS_CHECKPOINT_INCOMPATIBLE";
    case Code::kNumeric:
      return "HWS_NUMERIC";
    case Code::kDataInvalid:
      return "HWS_DATA_INVALID";
    case Code::kBusy:
      return "HWS_BUSY";
    case Code::kForked:
      return "HWS_FORKED";
    case Code::kBadHandle:
      return "HWS_BAD_HANDLE";
    case Code::kAbiMismatch:
      return "HWS_ABI_MISMATCH";
    case Code::kCallback:
      return "HWS_CALLBACK";
  }
  return "HWS_UNKNOWN";
}

}  // namespace hawser
