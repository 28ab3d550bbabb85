// TrainingRow: one row of a data set, converted from any of the published forms. The keys determine the form:
//
//   {"text"}                                              a text
//   {"prompt", "completion"}                              two texts, or two lists of messages
//   {"messages", "tools"?}                                OpenAI: role, content (a text or parts), tool_calls
//   {"instruction", "input"?, "output", "system"?, "history"?}   Alpaca
//   {"conversations", "system"?, "tools"?}                ShareGPT: from, value
//   {"prompt"?, "chosen", "rejected"}                     a pair, for preference training: texts, or
//                                                         lists of messages. If no prompt of the same kind
//                                                         is given, it is what both answers begin with.
//
// Other keys of a row are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.h"

namespace hawser::text {

enum class RowForm {
  kText,        ///< a text to continue: all of it is trained on
  kCompletion,  ///< prompt and completion as texts: the completion is trained on
  kChat,        ///< messages: the assistant's answers are trained on
  kPair,        ///< two chats or completions of one prompt, one of them better
};

struct TrainingRow {
  RowForm form = RowForm::kText;
  std::string text;                ///< kText
  std::string prompt, completion;  ///< kCompletion
  OrderedJson messages, tools;     ///< kChat: an array of messages as templates expect them; tools or null
  std::vector<TrainingRow>
      answers;  ///< kPair: the chosen and the rejected one, both kCompletion or both kChat
};

/// Converts a row. In messages, roles are those of OpenAI, and arguments of tool calls are objects. `where`
/// begins an error's text: "chat.jsonl:12". Throws kDataInvalid, naming the key, for a row without a known
/// form, an unknown role, a value of another type, no messages, or a pair without a prompt or without a
/// difference.
TrainingRow training_row(const OrderedJson& row, std::string_view where);

/// Returns name and keys of each form, for an error's text.
std::string row_forms();

}  // namespace hawser::text
