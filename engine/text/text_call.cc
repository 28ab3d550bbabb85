#include "engine/text/text_call.h"

#include "engine/base/error.h"

namespace hawser::text {

void TextCall::check(int32_t status) const {
  collector_.rethrow();
  if (status == kTextInvalid) fail(Code::kDataInvalid, "{}: {}", what_, message_);
  if (status == kTextInternal) fail(Code::kInternal, "{}: the text module failed: {}", what_, message_);
}

}  // namespace hawser::text
