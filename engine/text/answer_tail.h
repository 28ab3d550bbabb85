// answer_tail: what a chat template adds behind an answer, such as "<|im_end|>\n". The model must learn the special token
// in it, which ends the answer, but not what follows that token, which separates turns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/text/chat_template.h"

namespace hawser::text {

/// Renders a short chat. Returns nothing if the template refuses it, or does not print its answer.
std::optional<std::string> answer_tail(const ChatTemplate& chat_template,
                                       const std::map<std::string, std::string>& special_names, int64_t now);

}  // namespace hawser::text
