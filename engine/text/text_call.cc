#include "engine/text/text_call.h"

#include "engine/base/error.h"
#include "engine/base/interrupt.h"

namespace hawser::text {

const TextPoll kHostPoll = {nullptr, [](void*) noexcept -> int32_t { return interrupted() ? 1 : 0; }};

void TextCall::check_stopped(int32_t status) {
  if (status == kTextStopped) fail(Code::kCancelled, "the host's interrupt poll ended the call");
}

void TextCall::check(int32_t status) const {
  collector_.rethrow();
  if (status == kTextInvalid) fail(Code::kDataInvalid, "{}: {}", what_, message_);
  if (status == kTextGaveUp)
    fail(Code::kDataInvalid, "{}: it cannot be parsed ({}); it is damaged or not valid", what_, message_);
}

}  // namespace hawser::text
