// Unprinted fields: what a row of a chat holds and its template does not print, such as tool calls with a template for
// plain chats. The model would never see these words, and would learn to answer without them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.h"

namespace hawser::text {

struct UnprintedField {
  int64_t message = -1;  ///< its index; -1 for a field of the row
  std::string name;      ///< "tools", "content", "tool_calls", "reasoning_content" and others

  std::string path() const;  ///< "messages/3/tool_calls"
};

/// Renders a chat with other messages or tools; nothing if the template refuses it.
using RenderAgain =
    std::function<std::optional<std::string>(const OrderedJson& messages, const OrderedJson& tools)>;

/// The fields with words that leave the text as it is when they are taken out or changed. `text`: the chat rendered
/// whole. Fields with other names are metadata and not looked at.
std::vector<UnprintedField> find_unprinted(const OrderedJson& messages, const OrderedJson& tools,
                                           const std::string& text, const RenderAgain& render);

/// Takes the field of a message out. A message of the assistant that has no words left is not learned.
void remove_unprinted(const UnprintedField& field, OrderedJson* messages);

/// Without the white space at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace hawser::text
