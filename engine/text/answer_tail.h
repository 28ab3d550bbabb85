// Answer tail: the text that a chat template adds after an answer, such as "<|im_end|>\n". The model must be
// trained on the special token in it, which ends the answer. It must not be trained on the text after this
// token, which separates turns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/text/chat_template.h"

namespace hawser::text {

/// Renders a short chat to find the tail. Returns nothing if the template refuses the chat or does not print
/// its answer.
std::optional<std::string> answer_tail(const ChatTemplate& chat_template,
                                       const std::map<std::string, std::string>& special_names, int64_t now);

}  // namespace hawser::text
