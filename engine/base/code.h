// Status codes. They have a header of their own because device plugins return codes and throw nothing
// (engine/device/plugin.h).
#pragma once

#include <stdint.h>

namespace hawser {

/// The statuses of the C API (hawser.h, HWS_*). Numbers are never reused.
enum class Code : int32_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kTimeout = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermission = 7,
  kOutOfMemory = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kIo = 16,
  kConfigParse = 20,
  kConfigInvalid = 21,
  kDeviceUnavailable = 30,
  kCheckpointCorrupt = 50,
  kCheckpointIncompatible = 51,
  kNumeric = 60,
  kDataInvalid = 61,
  kBusy = 70,
  kForked = 71,
  kBadHandle = 72,
  kAbiMismatch = 73,
  kCallback = 74,
};

}  // namespace hawser
