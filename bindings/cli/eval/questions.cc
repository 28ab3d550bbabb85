// Reads multiple-choice questions from rows of published data sets, and words them as lm-evaluation-harness
// does.
#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/cli/eval/score.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/utf8.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// A row of JSON with its place in the file, for errors.
struct Row {
  const ordered_json& json;
  const std::string& where;

  [[noreturn]] void fail(const std::string& message) const {
    throw Failure(HWS_DATA_INVALID, where + ": " + message);
  }
  bool has(std::initializer_list<const char*> keys) const {
    return std::all_of(keys.begin(), keys.end(), [&](const char* key) { return json.contains(key); });
  }
  std::string text(const char* key) const {
    if (!json[key].is_string()) fail(std::string(key) + " is no text");
    return json[key].get<std::string>();
  }
  std::vector<std::string> texts(const ordered_json& list, const char* key) const {
    if (!list.is_array()) fail(std::string(key) + " is no list of texts");
    std::vector<std::string> result;
    for (const ordered_json& one : list) {
      if (!one.is_string()) fail(std::string(key) + " has a value that is no text");
      result.push_back(one.get<std::string>());
    }
    return result;
  }
  /// Returns the index at `key`, which is a number or its text, such as "2".
  size_t index(const char* key) const {
    const ordered_json& value = json[key];
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
      fail(std::string(key) + " is " + value.dump() + "; it must be the number of the right choice, from 0");
    return static_cast<size_t>(std::stoul(text));
  }
};

void replace_all(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size())
    text->replace(at, from.size(), to);
}

std::string stripped(const std::string& text) {
  const char* const blanks = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(blanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

/// Removes hellaswag's marks: " [title]" becomes the end of a sentence, other brackets are removed, and so
/// are the double spaces that they leave.
std::string without_marks(std::string text) {
  text = stripped(text);
  replace_all(&text, " [title]", ". ");
  for (size_t at = 0; (at = text.find('[', at)) != std::string::npos;) {
    const size_t end = text.find_first_of("]\n", at);
    if (end != std::string::npos && text[end] == ']')
      text.erase(at, end + 1 - at);
    else
      ++at;  // the line does not close this bracket
  }
  replace_all(&text, "  ", " ");
  return text;
}

void append_utf8(std::string* text, uint32_t point) {
  const int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  text->push_back(static_cast<char>(kLead[more] | point >> 6 * more));
  for (int i = more - 1; i >= 0; --i) text->push_back(static_cast<char>(0x80 | (point >> 6 * i & 0x3F)));
}

/// Returns the text with its first letter in upper case and the rest in lower case, in any script. Changes
/// nothing if the system has no Unicode locale.
std::string capitalised(const std::string& text) {
  static const locale_t kUnicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t point = lead & (bytes == 1 ? 0x7Fu : 0xFFu >> (bytes + 1));
    for (size_t i = 1; i < bytes; ++i)
      point = point << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
    if (kUnicode != nullptr) point = at == 0 ? towupper_l(point, kUnicode) : towlower_l(point, kUnicode);
    append_utf8(&result, point);
    at += bytes;
  }
  return result;
}

Question hellaswag(const Row& row) {
  Question q;
  q.query = without_marks(row.text("activity_label") + ": " + row.text("ctx_a") + " " +
                          capitalised(row.text("ctx_b")));
  for (const std::string& ending : row.texts(row.json["endings"], "endings"))
    q.choices.push_back(without_marks(ending));
  q.gold = row.index("label");
  return q;
}

Question arc(const Row& row) {
  const ordered_json& choices = row.json["choices"];
  if (!choices.is_object() || !choices.contains("text") || !choices.contains("label"))
    row.fail("choices has no \"text\" and \"label\"");
  const std::vector<std::string> labels = row.texts(choices["label"], "choices.label");
  Question q{"Question: " + row.text("question") + "\nAnswer:", row.texts(choices["text"], "choices.text"),
             0};
  const std::string key = row.text("answerKey");
  q.gold = static_cast<size_t>(std::find(labels.begin(), labels.end(), key) - labels.begin());
  if (q.gold == labels.size()) row.fail("answerKey \"" + key + "\" is none of choices.label");
  return q;
}

Question question_of(const Row& row) {
  if (!row.json.is_object()) row.fail("a question is a JSON object");
  if (row.has({"activity_label", "ctx_a", "ctx_b", "endings", "label"})) return hellaswag(row);
  if (row.has({"question", "choices", "answerKey"})) return arc(row);
  if (row.has({"goal", "sol1", "sol2", "label"}))
    return {"Question: " + row.text("goal") + "\nAnswer:",
            {row.text("sol1"), row.text("sol2")},
            row.index("label")};
  if (row.has({"query", "choices", "gold"}))
    return {row.text("query"), row.texts(row.json["choices"], "choices"), row.index("gold")};
  row.fail(
      "not a question: give query, choices, gold; or the keys of hellaswag (activity_label, ctx_a, ctx_b, "
      "endings, "
      "label), ARC (question, choices, answerKey) or PIQA (goal, sol1, sol2, label)");
}

ordered_json parse_line(const std::string& line, const std::string& where) {
  if (nests_too_deep(line))
    throw Failure(HWS_DATA_INVALID, where + ": values are nested in more than " +
                                        std::to_string(kMostJsonDepth) + " levels; a question needs three");
  try {
    return parse_json(line);
  } catch (const ordered_json::parse_error& error) {
    throw Failure(HWS_DATA_INVALID,
                  where + ", column " + std::to_string(error.byte) + ": no JSON value ends there");
  } catch (const ordered_json::out_of_range&) {
    throw Failure(HWS_DATA_INVALID, where + ": a number is larger than any that a double can hold");
  }
}

}  // namespace

std::vector<Question> read_questions(const std::string& path) {
  const std::string file = read_file(path);
  std::vector<Question> questions;
  size_t next = 0;
  for (int64_t number = 1; next < file.size(); ++number) {
    const std::string line = file.substr(next, file.find('\n', next) - next);
    next += line.size() + 1;
    if (stripped(line).empty()) continue;
    const std::string where = path + ":" + std::to_string(number);
    if (first_byte_not_utf8(line) != std::string::npos)
      throw Failure(HWS_DATA_INVALID, where + ": byte " + std::to_string(first_byte_not_utf8(line)) +
                                          " of the line is not UTF-8");
    const ordered_json json = parse_line(line, where);
    const Row row{json, where};
    Question question = question_of(row);
    if (question.choices.size() < 2) row.fail("a question has at least two choices");
    for (const std::string& choice : question.choices)
      if (choice.empty()) row.fail("a choice is empty");
    if (question.gold >= question.choices.size())
      row.fail("the right choice is number " + std::to_string(question.gold) + " of " +
               std::to_string(question.choices.size()) + ", counted from 0");
    questions.push_back(std::move(question));
  }
  if (questions.empty()) throw Failure(HWS_DATA_INVALID, path + " has no questions");
  return questions;
}

}  // namespace hawser::cli
