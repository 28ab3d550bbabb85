// The functions hws_library_* and hws_status_name.
#include "capi/src/buffer.h"
#include "capi/src/guard.h"
#include "engine/report/device_report.h"

using namespace hawser::capi;
using hawser::Code;

namespace {

// Checks that the codes of the header have the numbers of the engine's codes.
constexpr bool same(int32_t status, Code code) { return status == static_cast<int32_t>(code); }
static_assert(same(HWS_OK, Code::kOk) && same(HWS_CANCELLED, Code::kCancelled) &&
              same(HWS_UNKNOWN, Code::kUnknown));
static_assert(same(HWS_INVALID_ARGUMENT, Code::kInvalidArgument) && same(HWS_TIMEOUT, Code::kTimeout));
static_assert(same(HWS_NOT_FOUND, Code::kNotFound) && same(HWS_ALREADY_EXISTS, Code::kAlreadyExists));
static_assert(same(HWS_PERMISSION, Code::kPermission) && same(HWS_OUT_OF_MEMORY, Code::kOutOfMemory));
static_assert(same(HWS_FAILED_PRECONDITION, Code::kFailedPrecondition) && same(HWS_ABORTED, Code::kAborted));
static_assert(same(HWS_OUT_OF_RANGE, Code::kOutOfRange) && same(HWS_UNIMPLEMENTED, Code::kUnimplemented));
static_assert(same(HWS_INTERNAL, Code::kInternal) && same(HWS_UNAVAILABLE, Code::kUnavailable));
static_assert(same(HWS_DATA_LOSS, Code::kDataLoss) && same(HWS_IO, Code::kIo));
static_assert(same(HWS_CONFIG_PARSE, Code::kConfigParse) && same(HWS_CONFIG_INVALID, Code::kConfigInvalid));
static_assert(same(HWS_DEVICE_UNAVAILABLE, Code::kDeviceUnavailable) && same(HWS_NUMERIC, Code::kNumeric));
static_assert(same(HWS_CHECKPOINT_CORRUPT, Code::kCheckpointCorrupt));
static_assert(same(HWS_CHECKPOINT_INCOMPATIBLE, Code::kCheckpointIncompatible));
static_assert(same(HWS_DATA_INVALID, Code::kDataInvalid) && same(HWS_BUSY, Code::kBusy));
static_assert(same(HWS_FORKED, Code::kForked) && same(HWS_BAD_HANDLE, Code::kBadHandle));
static_assert(same(HWS_ABI_MISMATCH, Code::kAbiMismatch) && same(HWS_CALLBACK, Code::kCallback));

}  // namespace

uint32_t hws_library_abi(void) { return HWS_ABI_VERSION; }

const char* hws_library_version(void) { return HAWSER_VERSION; }

hws_status hws_library_info(hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(hawser::train::library_info_json(), out);
  });
}

const char* hws_status_name(int32_t status) { return hawser::code_name(static_cast<Code>(status)); }
