#include "engine/text/row_encoder.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/text/parse_row.h"
#include "engine/text/unprinted.h"

namespace hawser::text {
namespace {

/// Maximum bytes that are rendered to find the answers of one row. For each answer, the chat up to it is
/// rendered again.
constexpr uint64_t kMostRendered = uint64_t{1} << 30;

bool is_answer(const OrderedJson& message) { return message["role"] == "assistant"; }

/// Returns the loss weight of a message from its "train" and "weight".
float weight_of(const OrderedJson& message, std::string_view where) {
  if (message.contains("train")) {
    if (!message["train"].is_boolean())
      fail(Code::kDataInvalid, "{}: \"train\" of a message is {}; it must be true or false", where,
           shown(message["train"]));
    if (!message["train"].get<bool>()) return 0;
  }
  if (!message.contains("weight")) return 1;
  const OrderedJson& weight = message["weight"];
  const double value = weight.is_number() ? weight.get<double>() : -1;
  if (!(value >= 0) || std::isinf(value))
    fail(Code::kDataInvalid, "{}: \"weight\" of a message is {}; it must be a number of at least 0", where,
         weight.dump());
  return static_cast<float>(value);
}

/// Returns a hint for templates that expect a text as content: if the content is in parts, they fail with a
/// message about types.
std::string parts_hint(const OrderedJson& messages) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i]["content"].is_array())
      return fmt::format(
          "; messages/{}/content is an array of parts: if the template takes only strings, give a string", i);
  return "";
}

/// Returns the reasoning of an answer without the white space around it; "" if it has none.
std::string_view reasoning_of(const OrderedJson& message) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  if (message.contains("reasoning_content") && message["reasoning_content"].is_string())
    return trimmed(message["reasoning_content"].get_ref<const std::string&>());
  if (!message["content"].is_string()) return "";
  std::string_view content = message["content"].get_ref<const std::string&>();
  const size_t end = content.find(kEnd);
  if (end == std::string_view::npos) return "";
  content = content.substr(0, end);
  const size_t begin = content.rfind(kBegin);
  return trimmed(begin == std::string_view::npos ? content : content.substr(begin + kBegin.size()));
}

/// Fails if the rendered chat lacks the reasoning of an answer that is trained on.
void check_reasoning(const OrderedJson& messages, const std::string& text, std::string_view where) {
  for (const OrderedJson& message : messages)
    if (is_answer(message) && weight_of(message, where) != 0 &&
        text.find(reasoning_of(message)) == std::string::npos)
      fail(Code::kDataInvalid, "{}: the chat template leaves out the reasoning of an answer", where);
}

/// Fails if finding answers by prefixes renders too much, because it renders the chat's length once per
/// answer.
void check_length(const std::string& text, const OrderedJson& messages, std::string_view where) {
  const auto answers = static_cast<uint64_t>(std::count_if(messages.begin(), messages.end(), is_answer));
  if (answers * text.size() <= kMostRendered) return;
  fail(Code::kDataInvalid,
       "{}: {} answers in a chat of {} bytes are too many, because the chat is rendered once for each; split "
       "the row, or use a template that marks answers with {{% generation %}}",
       where, answers, text.size());
}

}  // namespace

EncodedRow RowEncoder::encode(const TrainingRow& row, std::string_view where) const {
  EncodedRow result;
  switch (row.form) {
    case RowForm::kText:
      result = weighted(row.text, true, {{{0, row.text.size()}, 1, row.text.size()}}, false);
      end(&result);
      return result;
    case RowForm::kCompletion: {
      const std::string text = row.prompt + row.completion;
      result = weighted(text, true, {{{row.prompt.size(), text.size()}, 1, text.size()}}, false);
      end(&result);
      return result;
    }
    case RowForm::kChat:
      return encode_chat(row, where);
    case RowForm::kPair:
      break;
  }
  fail(Code::kDataInvalid, "{}: the row is a pair (\"chosen\" and \"rejected\"): encode each answer", where);
}

/// Adds the end of a text, once, with loss weight 1.
void RowEncoder::end(EncodedRow* row) const {
  row->ends = encoding_.end_of_text.has_value();
  if (!row->ends) return;
  if (row->ids.empty() || row->ids.back() != *encoding_.end_of_text) {
    row->ids.push_back(*encoding_.end_of_text);
    row->weights.push_back(0);
  }
  row->weights.back() = 1;
}

EncodedRow RowEncoder::encode_chat(const TrainingRow& row, std::string_view where) const {
  if (encoding_.chat_template == nullptr)
    fail(Code::kDataInvalid, "{}: the row is a chat, and the model's folder has no chat template; name one",
         where);
  if (encoding_.training == nullptr) return encode_by_template(row, where);
  try {
    return encode_by_template(row, where);
  } catch (const Error& error) {
    if (error.code() != Code::kDataInvalid) throw;
  }
  EncodedRow result = RowEncoder(*encoding_.training).encode_by_template(row, where);
  result.by_training_template = true;
  return result;
}

EncodedRow RowEncoder::encode_by_template(const TrainingRow& given, std::string_view where) const {
  TrainingRow row = given;
  RenderedChat chat = render(row.messages, row.tools, false, where);
  if (encoding_.training != nullptr) check_reasoning(row.messages, chat.text, where);
  std::vector<Learned> learned = find_learned(chat, row, where);
  std::map<std::string, int64_t> dropped = drop_unprinted(&row, &chat, where);
  if (!dropped.empty()) learned = find_learned(chat, row, where);
  EncodedRow result = weighted(chat.text, false, learned, true);
  result.dropped = std::move(dropped);
  return result;
}

std::vector<RowEncoder::Learned> RowEncoder::find_learned(const RenderedChat& chat, const TrainingRow& row,
                                                          std::string_view where) const {
  return encoding_.chat_template->has_generation() ? learned_by_template(chat, row, where)
                                                   : learned_by_prefix(chat, row, where);
}

/// Refuses or drops fields that the template does not print. An answer without any text left is not trained
/// on, because it would train the model to end at once.
std::map<std::string, int64_t> RowEncoder::drop_unprinted(TrainingRow* row, RenderedChat* chat,
                                                          std::string_view where) const {
  std::map<std::string, int64_t> dropped;
  const std::vector<UnprintedField> fields = find_unprinted(
      row->messages, row->tools, chat->text,
      [&](const OrderedJson& messages, const OrderedJson& tools) -> std::optional<std::string> {
        try {
          return render(messages, tools, false, where).text;
        } catch (const Error& error) {
          if (error.code() != Code::kDataInvalid) throw;
          return std::nullopt;
        }
      });
  if (fields.empty()) return dropped;
  if (!encoding_.drop_unprinted)
    fail(Code::kDataInvalid,
         "{}: the chat template does not print {}, so the model would not see it; use a template that prints "
         "it, remove it from the row, or choose to drop such fields (\"unprinted\": \"drop\"; --unprinted "
         "drop)",
         where, fields.front().path());
  for (const UnprintedField& field : fields) {
    ++dropped[field.name];
    if (field.message < 0)
      row->tools = nullptr;
    else
      remove_unprinted(field, &row->messages);
  }
  *chat = render(row->messages, row->tools, false, where);
  return dropped;
}

RenderedChat RowEncoder::render(const OrderedJson& messages, const OrderedJson& tools,
                                bool add_generation_prompt, std::string_view where) const {
  OrderedJson variables = {{"messages", messages},
                           {"tools", tools},
                           {"documents", nullptr},
                           {"add_generation_prompt", add_generation_prompt}};
  for (const auto& [name, token] : encoding_.special_names) variables[name] = token;
  try {
    return encoding_.chat_template->render(variables.dump(), encoding_.now);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}{}", where, error.what(), parts_hint(messages));
  }
}

std::vector<RowEncoder::Learned> RowEncoder::learned_by_template(const RenderedChat& chat,
                                                                 const TrainingRow& row,
                                                                 std::string_view where) const {
  std::vector<float> weights;
  bool same = true;
  for (const OrderedJson& message : row.messages) {
    if (!is_answer(message)) continue;
    weights.push_back(weight_of(message, where));
    same = same && weights.back() == weights.front();
  }
  if (weights.size() != chat.learned.size() && !same)
    fail(Code::kDataInvalid,
         "{}: {} answers have different weights, but the template marks {} parts with {{% generation %}}, so "
         "the weights cannot be assigned",
         where, weights.size(), chat.learned.size());
  std::vector<Learned> learned;
  for (size_t i = 0; i < chat.learned.size(); ++i)
    learned.push_back({chat.learned[i], weights.empty() ? 0 : weights[i < weights.size() ? i : 0],
                       chat.learned[i].end});  // the template marks nothing after an answer's end
  return learned;
}

std::vector<RowEncoder::Learned> RowEncoder::learned_by_prefix(const RenderedChat& chat,
                                                               const TrainingRow& row,
                                                               std::string_view where) const {
  std::vector<Learned> learned;
  check_length(chat.text, row.messages, where);
  OrderedJson so_far = OrderedJson::array();
  for (const OrderedJson& message : row.messages) {
    const float weight = is_answer(message) ? weight_of(message, where) : 0;
    if (weight == 0) {
      so_far.push_back(message);
      continue;
    }
    const std::string before = render(so_far, row.tools, true, where).text;
    so_far.push_back(message);
    const bool last = so_far.size() == row.messages.size();
    const std::string after = last ? chat.text : render(so_far, row.tools, false, where).text;
    if (!after.starts_with(before) || !chat.text.starts_with(after))
      fail(Code::kDataInvalid,
           "{}: the chat template renders earlier turns differently once later turns follow, so answer {} "
           "cannot be located; choose another template, such as ChatML (\"template\": \"chatml\"; --template "
           "chatml), or one that marks answers with {{% generation %}}, or give each answer its own row with "
           "\"train\": false on earlier answers",
           where, learned.size() + 1);
    const uint64_t words = words_end(std::string_view(after).substr(before.size()), message);
    learned.push_back({{before.size(), after.size()}, weight, before.size() + words});
  }
  return learned;
}

/// Returns where the answer's own words end in `added`, the text that the answer adds to a chat. The
/// template's text after them is the part that also ends a short chat (answer_tail). If the template refuses
/// the short chat, the template's text is everything after the message's content.
uint64_t RowEncoder::words_end(std::string_view added, const OrderedJson& message) const {
  if (const std::optional<std::string>& tail = encoding_.answer_tail) {
    size_t same = 0;
    while (same < std::min(tail->size(), added.size()) &&
           (*tail)[tail->size() - 1 - same] == added[added.size() - 1 - same])
      ++same;
    return added.size() - same;
  }
  const std::string content = message["content"].is_string() ? message["content"].get<std::string>() : "";
  const std::string_view words = trimmed(content);
  const size_t at = words.empty() ? std::string::npos : added.rfind(words);
  return at == std::string::npos ? 0 : at + words.size();
}

/// Encodes a text. A token is trained on if one of its bytes is in a learned span. In a chat, a span ends
/// with the last special token after the answer's words, if there is one, because the text after it separates
/// turns.
EncodedRow RowEncoder::weighted(const std::string& text, bool with_special,
                                const std::vector<Learned>& learned, bool chat) const {
  EncodedRow row;
  std::vector<TextSpan> spans;
  encoding_.tokenizer.encode_with_spans(text, with_special, &row.ids, &spans);
  row.weights.assign(row.ids.size(), 0);
  size_t token = 0;
  for (const Learned& part : learned) {
    while (token < spans.size() && spans[token].end <= part.span.begin) ++token;
    const size_t first = token;
    size_t last_special = spans.size();
    for (; token < spans.size() && spans[token].begin < part.span.end; ++token) {
      if (spans[token].begin == spans[token].end) continue;
      row.weights[token] = part.weight;
      if (chat && spans[token].begin >= part.words_end && encoding_.tokenizer.token(row.ids[token]).special)
        last_special = token;
    }
    if (last_special < spans.size())
      for (size_t i = std::max(first, last_special + 1); i < token; ++i) row.weights[i] = 0;
  }
  if (chat) row.ends = ends(row);
  return row;
}

/// True if the last token trained on is special. Also true for a row without such tokens, because it has no
/// answer that could lack an end.
bool RowEncoder::ends(const EncodedRow& row) const {
  for (size_t i = row.ids.size(); i-- > 0;)
    if (row.weights[i] != 0) return encoding_.tokenizer.token(row.ids[i]).special;
  return true;
}

}  // namespace hawser::text
