#include "engine/text/training_templates.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"

namespace hawser::text {
namespace {

/// A text of the model's own template, and what stands in its place for training.
struct Edit {
  std::string_view own, training;
  bool required = true;  ///< a template without this text belongs to another family
};

struct Family {
  std::string_view name, reason;
  std::string_view macro;  ///< stands before the template; without a newline, so that lines keep their number
  std::array<Edit, 3> edits;
};

// A macro of an answer with its reasoning, from "reasoning_content" or from the content up to </think>.
#define HAWSER_ANSWER(condition)                                                                             \
  R"({%- macro hawser_answer(message) -%}{%- set words = message.content or '' -%}{%- set thought = '' -%})" \
  R"({%- if message.reasoning_content is string -%}{%- set thought = message.reasoning_content -%})"         \
  R"({%- elif '</think>' in words -%}{%- set thought = words.split('</think>')[0].split('<think>')[-1] -%})" \
  R"({%- set words = words.split('</think>')[-1] -%}{%- endif -%}{%- if )" condition                         \
  R"( -%}{{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + words.lstrip('\n') -}}{%- else -%})"     \
  R"({{- words -}}{%- endif -%}{%- endmacro -%})"

/// For templates whose prompt begins the reasoning: without one, it is empty.
constexpr std::string_view kAlwaysReasons = HAWSER_ANSWER("true");
/// For templates whose prompt leaves it to the model whether to reason.
constexpr std::string_view kMayReason = HAWSER_ANSWER("thought");
#undef HAWSER_ANSWER

constexpr std::string_view kForgets = "leaves out the reasoning of earlier answers";
constexpr std::string_view kForgetsAll = "leaves out the reasoning of answers";
constexpr Edit kDeepSeekAnswer = {"{{'<｜Assistant｜>' + content",
                                  "{{'<｜Assistant｜>' + hawser_answer(message)"};

/// The first family that matches and passes the check is used.
constexpr Family kFamilies[] = {
    {"qwen3",
     kForgets,
     "",
     {{{"loop.index0 > ns.last_query_index", "true"},
       {"loop.last or (not loop.last and reasoning_content)", "true", false},
       {}}}},
    {"qwq",
     kForgets,
     kAlwaysReasons,
     {{{"not loop.last", "true"},
       {R"(message.content.split('</think>')[-1].lstrip('\n'))", "hawser_answer(message)"},
       {"{%- if message.content %}", "{%- if true %}", false}}}},
    {"deepseek-r1", kForgetsAll, kAlwaysReasons, {{kDeepSeekAnswer, {}, {}}}},
    {"deepseek-r1", kForgetsAll, kMayReason, {{kDeepSeekAnswer, {}, {}}}},
    {"mistral",
     "prints the system's text and the tools only with the last question",
     "",
     {{{"message == user_messages[-1]", "message == user_messages[0]", false},
       {"loop.last and system_message is defined", "loop.first and system_message is defined"},
       {}}}},
    {"mistral",
     "prints the tools only with the last question",
     "",
     {{{"message == user_messages[-1]", "message == user_messages[0]"}, {}, {}}}},
};

/// Returns the family's variant of a template, or nothing if the template is not of this family.
std::optional<std::string> variant_of(const Family& family, const std::string& own) {
  std::string source = own;
  for (const Edit& edit : family.edits) {
    if (edit.own.empty()) continue;
    size_t at = source.find(edit.own);
    if (at == std::string::npos && edit.required) return std::nullopt;
    for (; at != std::string::npos; at = source.find(edit.own, at + edit.training.size()))
      source.replace(at, edit.own.size(), edit.training);
  }
  return std::string(family.macro) + source;
}

/// Renders short chats with a model's own template and with a variant for training, and compares them.
class Comparison {
 public:
  Comparison(const ChatTemplate& own, const ChatTemplate& variant,
             const std::map<std::string, std::string>& special_names, int64_t now)
      : own_(own), variant_(variant), special_names_(special_names), now_(now) {}

  /// True if the variant has the properties of a training template (training_templates.h).
  bool passes() const {
    const OrderedJson system = say("system", "Rule."), question = say("user", "Question?"),
                      plain = say("assistant", "Answer."),
                      reasoned = say("assistant", "<think>\nReason.\n</think>\n\nAnswer.");
    if (!same({question}, true) || !same({system, question}, true)) return false;
    if (own_marks({question, plain}, "Answer.") && !same({question, plain}, false)) return false;
    const bool reasons = own_marks({question, reasoned}, "Reason.");
    if (reasons && !same({question, reasoned}, false)) return false;
    if (!keeps({question, plain, question, plain})) return false;
    if (render(own_, {system, question}, true) && !keeps({system, question, plain, question, plain}))
      return false;
    return !reasons || keeps({question, reasoned, question, plain, question, reasoned});
  }

 private:
  using Chat = std::vector<OrderedJson>;

  static OrderedJson say(const char* role, const char* content) {
    return {{"role", role}, {"content", content}};
  }

  /// Returns nothing if the template refuses the chat.
  std::optional<std::string> render(const ChatTemplate& chat_template, const Chat& chat, bool prompt) const {
    OrderedJson variables = {
        {"messages", chat}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", prompt}};
    for (const auto& [name, token] : special_names_) variables[name] = token;
    try {
      return chat_template.render(variables.dump(-1, ' ', false, OrderedJson::error_handler_t::replace), now_)
          .text;
    } catch (const Error& error) {
      if (error.code() != Code::kDataInvalid) throw;
      return std::nullopt;
    }
  }

  bool same(const Chat& chat, bool prompt) const {
    return render(own_, chat, prompt) == render(variant_, chat, prompt);
  }

  /// True if the own template prints `words` of the last answer, behind its prompt for this answer.
  bool own_marks(const Chat& chat, std::string_view words) const {
    const std::optional<std::string> before = render(own_, {chat.begin(), chat.end() - 1}, true),
                                     after = render(own_, chat, false);
    return before && after && after->starts_with(*before) && after->find(words) != std::string::npos;
  }

  /// True if the variant renders each answer behind its prompt, and no turn differently once others follow.
  bool keeps(const Chat& chat) const {
    std::string so_far;
    for (size_t count = 1; count <= chat.size(); ++count) {
      const bool answer = chat[count - 1]["role"] == "assistant";
      const std::optional<std::string> now =
          render(variant_, {chat.begin(), chat.begin() + static_cast<std::ptrdiff_t>(count)}, !answer);
      if (!now) return false;
      if (answer && !now->starts_with(so_far)) return false;
      if (!answer && count > 1) {
        const std::optional<std::string> last =
            render(variant_, {chat.begin(), chat.begin() + static_cast<std::ptrdiff_t>(count - 1)}, false);
        if (!last || !now->starts_with(*last)) return false;
      }
      so_far = *now;
    }
    return true;
  }

  const ChatTemplate &own_, &variant_;
  const std::map<std::string, std::string>& special_names_;
  const int64_t now_;
};

}  // namespace

std::unique_ptr<const TrainingTemplate> find_training_template(
    const ChatTemplate& own, const std::map<std::string, std::string>& special_names, int64_t now,
    const std::string& module_folder) {
  if (own.has_generation()) return nullptr;
  for (const Family& family : kFamilies) {
    std::optional<std::string> source = variant_of(family, own.source());
    if (!source) continue;
    auto variant = std::make_unique<const ChatTemplate>(
        *source, "the training template " + std::string(family.name), module_folder);
    if (!Comparison(own, *variant, special_names, now).passes()) continue;
    return std::make_unique<const TrainingTemplate>(
        TrainingTemplate{family.name, family.reason, std::move(*source), std::move(variant)});
  }
  return nullptr;
}

}  // namespace hawser::text
