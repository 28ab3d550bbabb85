#include "engine/text/training_row.h"

#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/text/parse_row.h"

namespace hawser::text {
namespace {

struct Role {
  std::string_view given, name;
};

/// Role names of ShareGPT and others, with OpenAI's names for them.
constexpr std::array kRoles = {
    Role{"system", "system"},    Role{"developer", "developer"}, Role{"user", "user"},
    Role{"human", "user"},       Role{"assistant", "assistant"}, Role{"gpt", "assistant"},
    Role{"bot", "assistant"},    Role{"model", "assistant"},     Role{"tool", "tool"},
    Role{"observation", "tool"}, Role{"function", "tool"},       Role{"function_call", "function_call"}};

constexpr const char* kAnswers[] = {"chosen", "rejected"};

/// Reads one row; its errors name the position.
class RowReader {
 public:
  RowReader(const OrderedJson& row, std::string_view where) : row_(row), where_(where) {}

  TrainingRow read() const {
    if (!row_.is_object()) refuse("", "is {}; a row is an object", shown(row_));
    if (has("messages")) return chat(messages("messages"));
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
    if (!value.is_string()) refuse(path + key, "is {}; it must be a string", shown(value));
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
    if (size_t at = 0; nests_too_deep(json, &at)) refuse(path, "is a string whose values nest too deeply");
    OrderedJson value = parse_json_or_discard<OrderedJson>(json);
    if (value.is_discarded()) refuse(path, "is a string that is not JSON");
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

  /// Returns a message in OpenAI's form. Nulls are removed, because templates test whether a key exists.
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
      refuse(path + "/content", "is {}; it must be a string or an array of parts", shown(result["content"]));
    if (result.contains("tool_calls")) call_arguments(result["tool_calls"], path + "/tool_calls");
    return result;
  }

  /// Parses arguments that were given as JSON text, because templates expect an object.
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
          refuse("history", "has a turn that is not two strings");
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

  OrderedJson messages(const char* key) const {
    OrderedJson list = OrderedJson::array();
    for (const OrderedJson& given : array(key))
      list.push_back(message(given, std::string(key) + "/" + std::to_string(list.size())));
    return list;
  }

  /// Joins prompt and completion to a chat. Messages of the prompt are not trained on.
  TrainingRow completion_of_messages() const {
    OrderedJson all = messages("prompt");
    for (OrderedJson& message : all) message["train"] = false;
    for (OrderedJson& message : messages("completion")) all.push_back(std::move(message));
    return chat(std::move(all));
  }

  TrainingRow pair() const {
    for (const char* key : kAnswers)
      if (!row_[key].is_string() && !row_[key].is_array())
        refuse(key, "is {}; it must be a string or an array of messages", shown(row_[key]));
    if (row_["chosen"].is_array() != row_["rejected"].is_array())
      refuse("chosen", "and rejected are a string and an array of messages; give two strings or two arrays");
    if (row_["chosen"] == row_["rejected"])
      refuse("chosen", "equals rejected, so neither answer is preferred: leave the row out");
    TrainingRow result;
    result.form = RowForm::kPair;
    if (row_["chosen"].is_array())
      pair_of_messages(&result.answers);
    else
      pair_of_texts(&result.answers);
    return result;
  }

  void pair_of_texts(std::vector<TrainingRow>* answers) const {
    std::string prompt = has("prompt") && row_["prompt"].is_string() ? text_or_none("prompt") : "", texts[2];
    for (size_t i = 0; i < 2; ++i) texts[i] = text(row_, kAnswers[i], "");
    if (has("prompt") && !row_["prompt"].is_string())
      refuse("prompt", "is {}; it must be a string, because the answers are strings", shown(row_["prompt"]));
    if (!has("prompt")) {
      size_t common = 0;
      while (common < std::min(texts[0].size(), texts[1].size()) && texts[0][common] == texts[1][common])
        ++common;
      while (common > 0 && is_inside_character(texts, common)) --common;
      if (common > 0 && texts[0][common - 1] == ' ') --common;  // the answer's first token includes its space
      prompt = texts[0].substr(0, common);
      for (std::string& answer : texts) answer.erase(0, common);
    }
    if (prompt.empty()) refuse("", "has no prompt: it has no \"prompt\", and its answers do not begin alike");
    for (size_t i = 0; i < 2; ++i) {
      if (texts[i].empty()) refuse(kAnswers[i], "has no answer after the prompt");
      TrainingRow answer;
      answer.form = RowForm::kCompletion;
      answer.prompt = prompt;
      answer.completion = texts[i];
      answers->push_back(std::move(answer));
    }
  }

  static bool is_inside_character(const std::string* texts, size_t at) {
    const auto continues = [&](const std::string& text) {
      return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
    };
    return continues(texts[0]) || continues(texts[1]);
  }

  /// If the answers are conversations, a prompt that is a text repeats their beginning and is ignored.
  void pair_of_messages(std::vector<TrainingRow>* answers) const {
    OrderedJson prompt = OrderedJson::array(), lists[2];
    for (size_t i = 0; i < 2; ++i) lists[i] = messages(kAnswers[i]);
    if (has("prompt") && row_["prompt"].is_array()) {
      prompt = messages("prompt");
    } else {
      while (!lists[0].empty() && !lists[1].empty() && lists[0][0] == lists[1][0]) {
        prompt.push_back(lists[0][0]);
        for (OrderedJson& list : lists) list.erase(0);
      }
    }
    if (prompt.empty())
      refuse("", "has no prompt: it has no \"prompt\", and its answers share no first message");
    for (OrderedJson& message : prompt) message["train"] = false;
    for (size_t i = 0; i < 2; ++i) {
      const bool says = std::any_of(lists[i].begin(), lists[i].end(),
                                    [](const OrderedJson& m) { return m["role"] == "assistant"; });
      if (!says) refuse(kAnswers[i], "has no message of the assistant after the prompt");
      OrderedJson all = prompt;
      for (const OrderedJson& message : lists[i]) {
        if (message.contains("weight"))
          refuse(kAnswers[i], "has a \"weight\", which pairs do not use; leave it out");
        all.push_back(message);
      }
      answers->push_back(chat(std::move(all)));
    }
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
