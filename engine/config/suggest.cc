// Suggestions: finds the field that the user meant: first by its own name or another program's name, in this
// section and then anywhere, then by spelling.
#include "engine/config/suggest.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/foreign_words.h"

namespace hawser::config {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool is_called(const FieldView& field, std::string_view key) {
  if (same_name(field.name, key)) return true;
  return std::any_of(field.also.begin(), field.also.end(),
                     [&](const std::string& other) { return same_name(other, key); });
}

const FieldView* find_called(const TableView& table, std::string_view key) {
  for (const FieldView& field : table.fields) {
    if (same_name(field.name, key)) return &field;
  }
  for (const FieldView& field : table.fields) {
    if (is_called(field, key)) return &field;
  }
  return nullptr;
}

/// Returns the pointer of a field called `key` anywhere below (not inside arrays), or "".
std::string find_anywhere(const TableView& table, const std::string& pointer, std::string_view key) {
  if (const FieldView* field = find_called(table, key)) return pointer + "/" + field->name;
  for (const FieldView& field : table.fields) {
    if (field.kind != FieldKind::kTable) continue;
    const std::string found = find_anywhere(*field.table, pointer + "/" + field.name, key);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = last[j - 1] + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({substitute, last[j] + 1, row[j - 1] + 1});
      const bool swapped =
          i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
  if (name.size() > 64) return "";  // not a typing error; also avoids quadratic work on a hostile key
  size_t best = std::max<size_t>(1, std::min<size_t>(3, name.size() / 3)) + 1;
  std::string found;
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string suggest_key(const TableView& table, std::string_view pointer, std::string_view key) {
  if (const FieldView* field = find_called(table, key))
    return fmt::format("did you mean \"{}\"?", field->name);
  if (const std::optional<ForeignWord> word = find_foreign_word(key)) {
    if (word->pointer.empty()) return std::string(word->advice);
    const char* space = word->advice.empty() ? "" : " ";
    return fmt::format("did you mean {}?{}{}", word->pointer, space, word->advice);
  }
  const std::string elsewhere = find_anywhere(schema(), "", key);
  if (!elsewhere.empty()) return fmt::format("did you mean {}?", elsewhere);
  std::vector<std::string> names;
  for (const FieldView& field : table.fields) names.push_back(field.name);
  const std::string near = nearest_name(key, names);
  if (!near.empty()) return fmt::format("did you mean \"{}\"?", near);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return fmt::format("remove it; keys of {} are: {}", pointer.empty() ? "the config" : pointer, list);
}

}  // namespace hawser::config
