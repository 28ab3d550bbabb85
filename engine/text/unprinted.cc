#include "engine/text/unprinted.h"

#include <algorithm>

namespace hawser::text {
namespace {

/// Fields of messages that contain text, in addition to the content.
constexpr const char* kWords[] = {"tool_calls", "function_call", "reasoning_content",
                                  "reasoning",  "thinking",      "refusal"};

bool is_empty(const OrderedJson& value) {
  return value.is_null() || (value.is_string() && trimmed(value.get_ref<const std::string&>()).empty()) ||
         (value.is_structured() && value.empty());
}

bool has(const OrderedJson& message, const char* name) {
  return message.contains(name) && !is_empty(message[name]);
}

/// True if the rendered chat contains every text of the value.
bool stands_in(const OrderedJson& value, const std::string& text) {
  if (value.is_string()) {
    const std::string_view words = trimmed(value.get_ref<const std::string&>());
    return words.empty() || text.find(words) != std::string::npos;
  }
  return std::all_of(value.begin(), value.end(), [&](const OrderedJson& part) {
    return !(part.is_string() || part.is_structured()) || stands_in(part, text);
  });
}

class Search {
 public:
  Search(const OrderedJson& messages, const OrderedJson& tools, const std::string& text,
         const RenderAgain& render)
      : messages_(messages), tools_(tools), text_(text), render_(render) {}

  std::vector<UnprintedField> run() {
    if (tools_.is_array() && !tools_.empty() && render_(messages_, nullptr) == text_)
      found_.push_back({-1, "tools"});
    for (const char* name : kWords) look_for(name);
    for (size_t i = 0; i < messages_.size(); ++i) look_at_content(i);
    return std::move(found_);
  }

 private:
  /// First renders without any field of this name. If the chat stays the same, no message's field is printed.
  /// printed.
  void look_for(const char* name) {
    OrderedJson without = messages_;
    std::vector<size_t> holders;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (!has(messages_[i], name)) continue;
      holders.push_back(i);
      without[i].erase(name);
    }
    if (holders.empty()) return;
    const bool none = render_(without, tools_) == text_;
    for (const size_t i : holders)
      if (none || (!stands_in(messages_[i][name], text_) && is_silent_without(i, name))) add(i, name);
  }

  bool is_silent_without(size_t i, const char* name) {
    OrderedJson without = messages_;
    without[i].erase(name);
    return render_(without, tools_) == text_;
  }

  /// Checks the content. A template may change it, so it is unprinted only if other text gives the same chat.
  void look_at_content(size_t i) {
    if (!has(messages_[i], "content") || stands_in(messages_[i]["content"], text_)) return;
    OrderedJson other = messages_;
    if (other[i]["content"].is_string()) {
      other[i]["content"] = "Other words.";
    } else {
      for (OrderedJson& part : other[i]["content"])
        if (part.is_object() && part.contains("text")) part["text"] = "Other words.";
    }
    if (other != messages_ && render_(other, tools_) == text_) add(i, "content");
  }

  void add(size_t i, const char* name) { found_.push_back({static_cast<int64_t>(i), name}); }

  const OrderedJson& messages_;
  const OrderedJson& tools_;
  const std::string& text_;
  const RenderAgain& render_;
  std::vector<UnprintedField> found_;
};

}  // namespace

std::string UnprintedField::path() const {
  return message < 0 ? name : "messages/" + std::to_string(message) + "/" + name;
}

std::vector<UnprintedField> find_unprinted(const OrderedJson& messages, const OrderedJson& tools,
                                           const std::string& text, const RenderAgain& render) {
  return Search(messages, tools, text, render).run();
}

void remove_unprinted(const UnprintedField& field, OrderedJson* messages) {
  OrderedJson& message = (*messages)[static_cast<size_t>(field.message)];
  if (field.name == "content")
    message["content"] = "";
  else
    message.erase(field.name);
  if (message["role"] != "assistant" || has(message, "content")) return;
  for (const char* name : kWords)
    if (has(message, name)) return;
  message["train"] = false;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r\v\f";
  const size_t first = text.find_first_not_of(kSpaces);
  return first == std::string_view::npos ? ""
                                         : text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

}  // namespace hawser::text
