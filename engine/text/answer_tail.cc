#include "engine/text/answer_tail.h"

#include "engine/base/error.h"
#include "engine/base/json.h"

namespace hawser::text {

std::optional<std::string> answer_tail(const ChatTemplate& chat_template,
                                       const std::map<std::string, std::string>& special_names, int64_t now) {
  const std::string answer = "An answer.";
  const OrderedJson messages = OrderedJson::array(
      {{{"role", "user"}, {"content", "A question?"}}, {{"role", "assistant"}, {"content", answer}}});
  OrderedJson variables = {
      {"messages", messages}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
  for (const auto& [name, token] : special_names) variables[name] = token;
  std::string chat;
  try {
    chat =
        chat_template.render(variables.dump(-1, ' ', false, OrderedJson::error_handler_t::replace), now).text;
  } catch (const Error& error) {
    if (error.code() != Code::kDataInvalid) throw;
    return std::nullopt;  // the template refuses this chat
  }
  const size_t at = chat.rfind(answer);
  if (at == std::string::npos) return std::nullopt;
  return chat.substr(at + answer.size());
}

}  // namespace hawser::text
