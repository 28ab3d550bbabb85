#include "engine/text/training_row.h"

#include <array>

#include "engine/base/error.h"
#include "engine/text/parse_row.h"

namespace hawser::text {
namespace {

struct Role {
  std::string_view given, name;
};

/// What ShareGPT and others call the roles of OpenAI.
constexpr std::array kRoles = {
    Role{"system", "system"},    Role{"developer", "developer"}, Role{"user", "user"},
    Role{"human", "user"},       Role{"assistant", "assistant"}, Role{"gpt", "assistant"},
    Role{"bot", "assistant"},    Role{"model", "assistant"},     Role{"tool", "tool"},
    Role{"observation", "tool"}, Role{"function", "tool"},       Role{"function_call", "function_call"}};

/// One row while it is read: says where an error is.
class RowReader {
 public:
  RowReader(const OrderedJson& row, std::string_view where) : row_(row), where_(where) {}

  TrainingRow read() const {
    if (!row_.is_object()) refuse("", "is {}; a row is an object", shown(row_));
    if (has("messages")) return openai();
    if (has("conversations")) return sharegpt();
    if (has("chosen") && has("rejected")) return pair();
    if (has("instruction") && has("output")) return alpaca();
    if (has("prompt") && has("completion")) return completion();
    if (has("text")) {
      TrainingRow result;
      result.text = text(row_, "text", "");
      return result;
    }
    refuse("", "has none of the known sets of keys: {}", row_forms());
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(const std::string& key, fmt::format_string<Args...> format, Args&&... args) const {
    fail(Code::kDataInvalid, "{}: {}{}", where_, key.empty() ? "the row " : key + " ",
         fmt::format(format, std::forward<Args>(args)...));
  }

  bool has(const char* key) const { return row_.contains(key) && !row_[key].is_null(); }

  std::string text(const OrderedJson& object, const char* key, const std::string& path) const {
    const OrderedJson& value = object[key];
    if (!value.is_string()) refuse(path + key, "is {}; it must be a text", shown(value));
    return value.get<std::string>();
  }
  std::string text_or_none(const char* key) const { return has(key) ? text(row_, key, "") : ""; }

  const OrderedJson& array(const char* key) const {
    const OrderedJson& value = row_[key];
    if (!value.is_array()) refuse(key, "is {}; it must be an array of messages", shown(value));
    if (value.empty()) refuse(key, "is empty");
    return value;
  }

  TrainingRow chat(OrderedJson messages) const {
    TrainingRow result;
    result.form = RowForm::kChat;
    result.messages = std::move(messages);
    if (!has("tools")) return result;
    result.tools = row_["tools"];
    if (result.tools.is_string()) result.tools = parsed(result.tools.get<std::string>(), "tools");
    if (!result.tools.is_array()) refuse("tools", "is {}; it must be an array", shown(result.tools));
    return result;
  }

  OrderedJson parsed(const std::string& json, const std::string& path) const {
    if (size_t at = 0; nests_too_deep(json, &at)) refuse(path, "is a text whose values nest too deeply");
    OrderedJson value = OrderedJson::parse(json, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) refuse(path, "is a text that is not JSON");
    return value;
  }

  std::string role(const OrderedJson& message, const char* key, const std::string& path) const {
    if (!message.is_object()) refuse(path, "is {}; a message is an object", shown(message));
    if (!message.contains(key)) refuse(path, "has no \"{}\"", key);
    const std::string given = text(message, key, path + "/");
    for (const Role& known : kRoles)
      if (known.given == given) return std::string(known.name);
    refuse(path + "/" + key, "is \"{}\"; known roles: system, developer, user, assistant, tool", given);
  }

  TrainingRow openai() const {
    OrderedJson messages = OrderedJson::array();
    for (const OrderedJson& given : array("messages"))
      messages.push_back(message(given, "messages/" + std::to_string(messages.size())));
    return chat(std::move(messages));
  }

  /// A message of OpenAI's form. Nulls go: templates ask whether a key is there.
  OrderedJson message(const OrderedJson& given, const std::string& path) const {
    const std::string who = role(given, "role", path);
    OrderedJson result = {{"role", who}};
    for (const auto& [key, value] : given.items())
      if (key != "role" && !value.is_null()) result[key] = value;
    if (!result.contains("content")) {
      if (who != "assistant") refuse(path, "has no \"content\"");
      if (!result.contains("tool_calls")) refuse(path, "has neither \"content\" nor \"tool_calls\"");
      result["content"] = "";
    }
    if (!result["content"].is_string() && !result["content"].is_array())
      refuse(path + "/content", "is {}; it must be a text or an array of parts", shown(result["content"]));
    if (result.contains("tool_calls")) call_arguments(result["tool_calls"], path + "/tool_calls");
    return result;
  }

  /// Arguments that came as a text of JSON become the object that templates want.
  void call_arguments(OrderedJson& calls, const std::string& path) const {
    if (!calls.is_array()) refuse(path, "is {}; it must be an array", shown(calls));
    for (OrderedJson& call : calls) {
      if (!call.is_object()) refuse(path, "has {}; a call is an object", shown(call));
      OrderedJson& function = call.contains("function") ? call["function"] : call;
      if (!function.is_object() || !function.contains("name")) refuse(path, "has a call without a name");
      if (function.contains("arguments") && function["arguments"].is_string())
        function["arguments"] = parsed(function["arguments"].get<std::string>(), path + "/arguments");
    }
  }

  TrainingRow sharegpt() const {
    OrderedJson messages = OrderedJson::array();
    if (has("system")) messages.push_back({{"role", "system"}, {"content", text_or_none("system")}});
    size_t index = 0;
    for (const OrderedJson& given : array("conversations")) {
      const std::string path = "conversations/" + std::to_string(index++);
      if (given.is_object() && given.contains("role")) {
        messages.push_back(message(given, path));
        continue;
      }
      const std::string who = role(given, "from", path);
      if (!given.contains("value")) refuse(path, "has no \"value\"");
      const std::string value = text(given, "value", path + "/");
      OrderedJson turn = {{"role", who}, {"content", value}};
      if (who == "function_call")
        turn = {{"role", "assistant"},
                {"content", ""},
                {"tool_calls", {{{"type", "function"}, {"function", parsed(value, path + "/value")}}}}};
      copy_weights(given, turn);
      messages.push_back(std::move(turn));
    }
    return chat(std::move(messages));
  }

  static void copy_weights(const OrderedJson& from, OrderedJson& to) {
    for (const char* key : {"train", "weight"})
      if (from.contains(key)) to[key] = from[key];
  }

  TrainingRow alpaca() const {
    OrderedJson messages = OrderedJson::array();
    const auto say = [&](const char* who, const std::string& what) {
      messages.push_back({{"role", who}, {"content", what}});
    };
    if (has("system")) say("system", text_or_none("system"));
    if (has("history")) {
      for (const OrderedJson& turn : row_["history"]) {
        if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string())
          refuse("history", "has a turn that is not two texts");
        say("user", turn[0].get<std::string>());
        say("assistant", turn[1].get<std::string>());
      }
    }
    const std::string input = text_or_none("input");
    say("user", text(row_, "instruction", "") + (input.empty() ? "" : "\n" + input));
    say("assistant", text(row_, "output", ""));
    return chat(std::move(messages));
  }

  TrainingRow completion() const {
    if (row_["prompt"].is_array() || row_["completion"].is_array()) return completion_of_messages();
    TrainingRow result;
    result.form = RowForm::kCompletion;
    result.prompt = text(row_, "prompt", "");
    result.completion = text(row_, "completion", "");
    return result;
  }

  /// Messages of the prompt teach nothing.
  TrainingRow completion_of_messages() const {
    OrderedJson messages = OrderedJson::array();
    for (const char* part : {"prompt", "completion"}) {
      size_t index = 0;
      for (const OrderedJson& given : array(part)) {
        messages.push_back(message(given, std::string(part) + "/" + std::to_string(index++)));
        if (part == std::string_view("prompt")) messages.back()["train"] = false;
      }
    }
    return chat(std::move(messages));
  }

  TrainingRow pair() const {
    TrainingRow result;
    result.form = RowForm::kPair;
    result.chosen = row_["chosen"];
    result.rejected = row_["rejected"];
    if (has("prompt")) result.prompt_part = row_["prompt"];
    for (const char* key : {"chosen", "rejected"})
      if (!row_[key].is_string() && !row_[key].is_array())
        refuse(key, "is {}; it must be a text or an array of messages", shown(row_[key]));
    return result;
  }

  const OrderedJson& row_;
  std::string_view where_;
};

}  // namespace

TrainingRow training_row(const OrderedJson& row, std::string_view where) {
  return RowReader(row, where).read();
}

std::string row_forms() {
  return "\"messages\"; \"conversations\"; \"prompt\" and \"completion\"; \"instruction\" and \"output\"; "
         "\"chosen\" and \"rejected\"; \"text\"";
}

}  // namespace hawser::text
