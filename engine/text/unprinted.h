// Unprinted fields: fields of a chat's row that its template does not print, such as tool calls with a
// template for plain chats. The model would never see their text, and would be trained to answer without it.
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
  int64_t message = -1;  ///< index of the message; -1 for a field of the row
  std::string name;      ///< "tools", "content", "tool_calls", "reasoning_content" and others

  std::string path() const;  ///< "messages/3/tool_calls"
};

/// Renders a chat with other messages or tools; returns nothing if the template refuses them.
using RenderAgain =
    std::function<std::optional<std::string>(const OrderedJson& messages, const OrderedJson& tools)>;

/// Finds the fields with text whose removal or change leaves the rendered chat the same. `text`: the full
/// rendered chat. Fields with other names are metadata and are not checked.
std::vector<UnprintedField> find_unprinted(const OrderedJson& messages, const OrderedJson& tools,
                                           const std::string& text, const RenderAgain& render);

/// Removes the field from its message. An answer of the assistant without any text left is not trained on.
void remove_unprinted(const UnprintedField& field, OrderedJson* messages);

/// Returns the text without the white space at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace hawser::text
