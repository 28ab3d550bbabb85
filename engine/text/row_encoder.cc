#include "engine/text/row_encoder.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/text/parse_row.h"

namespace hawser::text {
namespace {

bool is_answer(const OrderedJson& message) { return message["role"] == "assistant"; }

/// "train" and "weight" of a message.
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
    fail(Code::kDataInvalid, "{}: \"weight\" of a message is {}; it must be a number from 0 up", where,
         weight.dump());
  return static_cast<float>(value);
}

}  // namespace

EncodedRow RowEncoder::encode(const TrainingRow& row, std::string_view where) const {
  EncodedRow result;
  switch (row.form) {
    case RowForm::kText:
      result = weighted(row.text, true, {{{0, row.text.size()}, 1}}, false);
      end(&result);
      return result;
    case RowForm::kCompletion: {
      const std::string text = row.prompt + row.completion;
      result = weighted(text, true, {{{row.prompt.size(), text.size()}, 1}}, false);
      end(&result);
      return result;
    }
    case RowForm::kChat:
      return encode_chat(row, where);
    case RowForm::kPair:
      break;
  }
  fail(Code::kDataInvalid, "{}: the row is a pair (\"chosen\" and \"rejected\"): encode its answers", where);
}

/// The end of a text is learned, once.
void RowEncoder::end(EncodedRow* row) const {
  if (!encoding_.end_of_text) return;
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
  const RenderedChat chat = render(row.messages, row, false, where);
  const bool marked = encoding_.chat_template->has_generation();
  const std::vector<Learned> learned =
      marked ? learned_by_template(chat, row, where) : learned_by_prefix(chat, row, where);
  return weighted(chat.text, false, learned, !marked);
}

RenderedChat RowEncoder::render(const OrderedJson& messages, const TrainingRow& row,
                                bool add_generation_prompt, std::string_view where) const {
  OrderedJson variables = {{"messages", messages},
                           {"tools", row.tools},
                           {"documents", nullptr},
                           {"add_generation_prompt", add_generation_prompt}};
  for (const auto& [name, token] : encoding_.special_names) variables[name] = token;
  try {
    return encoding_.chat_template->render(variables.dump(), encoding_.now);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", where, error.what());
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
         "{}: {} answers have weights of their own, but the template marks {} parts with {{% generation %}}, "
         "so "
         "they cannot be told apart",
         where, weights.size(), chat.learned.size());
  std::vector<Learned> learned;
  for (size_t i = 0; i < chat.learned.size(); ++i)
    learned.push_back({chat.learned[i], weights.empty() ? 0 : weights[i < weights.size() ? i : 0]});
  return learned;
}

std::vector<RowEncoder::Learned> RowEncoder::learned_by_prefix(const RenderedChat& chat,
                                                               const TrainingRow& row,
                                                               std::string_view where) const {
  std::vector<Learned> learned;
  OrderedJson so_far = OrderedJson::array();
  for (const OrderedJson& message : row.messages) {
    const float weight = is_answer(message) ? weight_of(message, where) : 0;
    if (weight == 0) {
      so_far.push_back(message);
      continue;
    }
    const std::string before = render(so_far, row, true, where).text;
    so_far.push_back(message);
    const bool last = so_far.size() == row.messages.size();
    const std::string after = last ? chat.text : render(so_far, row, false, where).text;
    if (!after.starts_with(before) || !chat.text.starts_with(after))
      fail(Code::kDataInvalid,
           "{}: the chat template writes earlier turns anew where others follow, so what answer {} adds "
           "cannot be "
           "told; use a template that marks answers with {{% generation %}}, or give each answer a row of "
           "its own "
           "with \"train\": false on those before it",
           where, learned.size() + 1);
    learned.push_back({{before.size(), after.size()}, weight});
  }
  return learned;
}

/// Encodes a text. A token is learned if it has a byte of a learned span; with up_to_special, of each span only up
/// to its last special token, if it has one: what follows separates turns.
EncodedRow RowEncoder::weighted(const std::string& text, bool with_special,
                                const std::vector<Learned>& learned, bool up_to_special) const {
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
      if (up_to_special && encoding_.tokenizer.token(row.ids[token]).special) last_special = token;
    }
    if (last_special >= spans.size()) continue;
    for (size_t i = std::max(first, last_special + 1); i < token; ++i) row.weights[i] = 0;
  }
  return row;
}

}  // namespace hawser::text
