#include "engine/text/text_call.h"

#include "engine/base/error.h"

namespace hawser::text {

void TextCall::check(int32_t status) const {
  collector_.rethrow();
  if (status == kTextInvalid) fail(Code::kDataInvalid, "{}: {}", what_, message_);
  if (status == kTextGaveUp)
    fail(Code::kDataInvalid, "{}: its parser gave up ({}); it is damaged, or holds what no valid file does",
         what_, message_);
}

}  // namespace hawser::text
