#include "engine/data/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"
#include "engine/data/character_walk.h"
#include "engine/data/data_error.h"

namespace hawser::data {
namespace {

[[noreturn]] void fail_vocabulary(const std::string& problem) {
  fail(Code::kDataInvalid,
       "vocabulary: {}; it must be as Hawser wrote it: {{\"kind\": \"bytes\"}} or {{\"kind\": "
       "\"characters\", \"characters\": \"...\"}}",
       problem);
}

[[noreturn]] void fail_no_vocabulary() {
  fail(Code::kFailedPrecondition,
       "this model has no tokenizer and no text vocabulary: give token ids, or train with data.vocabulary "
       "bytes, "
       "characters or bpe");
}

/// Returns the marked code points, ascending.
std::vector<uint32_t> marked(const std::vector<uint8_t>& seen) {
  std::vector<uint32_t> result;
  for (uint32_t point = 0; point < seen.size(); ++point) {
    if (seen[point] != 0) result.push_back(point);
  }
  return result;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<uint32_t> code_points)
    : kind_(VocabularyKind::kCharacters), code_points_(std::move(code_points)) {
  ascii_.fill(-1);
  for (size_t token = 0; token < code_points_.size() && code_points_[token] < 128; ++token) {
    ascii_[code_points_[token]] = static_cast<int32_t>(token);
  }
}

Vocabulary Vocabulary::bytes() {
  Vocabulary result;
  result.kind_ = VocabularyKind::kBytes;
  return result;
}

Vocabulary Vocabulary::characters_of(const std::vector<std::string>& paths) {
  std::vector<uint8_t> seen(0x110000, 0);
  for (const std::string& path : paths) {
    each_character(InputFile::open(path), {}, [&](std::string_view rest, size_t* step, int64_t) {
      const uint32_t point = next_code_point(rest.data(), rest.size(), step);
      if (point != kInvalidCodePoint) seen[point] = 1;
      return point != kInvalidCodePoint;
    });
  }
  std::vector<uint32_t> points = marked(seen);
  if (points.empty()) {
    fail(Code::kDataInvalid,
         "{}: no characters to make a vocabulary from; give text files that are not empty",
         paths.empty() ? "no text files" : paths.front());
  }
  return Vocabulary(std::move(points));
}

Vocabulary Vocabulary::of_tokenizer(std::shared_ptr<const TextTokens> tokens) {
  Vocabulary result;
  result.kind_ = VocabularyKind::kTokenizer;
  result.tokenizer_ = std::move(tokens);
  return result;
}

Vocabulary Vocabulary::from_json(std::string_view json) {
  const Json root = parse_json_or_discard<Json>(json);
  if (!root.is_object()) fail_vocabulary("not a JSON object");
  if (root.empty()) return {};
  for (const auto& [key, value] : root.items()) {
    if (key != "kind" && key != "characters") fail_vocabulary(fmt::format("unknown key \"{}\"", key));
    if (!value.is_string()) fail_vocabulary(fmt::format("\"{}\" is not a string", key));
  }
  const std::string kind = root.value("kind", "");
  if (kind == "bytes" && root.size() == 1) return bytes();
  if (kind != "characters" || root.size() != 2) fail_vocabulary(fmt::format("bad kind \"{}\"", kind));

  const std::string text = root["characters"].get<std::string>();
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) {  // nlohmann has already checked the UTF-8
    const uint32_t point = next_code_point(text.data(), text.size(), &at);
    if (point == kInvalidCodePoint) fail_vocabulary("\"characters\" is not UTF-8");
    if (!points.empty() && point <= points.back()) {
      fail_vocabulary(fmt::format("{} is not in ascending order", describe_character(point)));
    }
    points.push_back(point);
  }
  if (points.empty()) fail_vocabulary("\"characters\" is empty");
  return Vocabulary(std::move(points));
}

std::string Vocabulary::to_json() const {
  OrderedJson root = OrderedJson::object();
  if (kind_ == VocabularyKind::kBytes) root["kind"] = "bytes";
  if (kind_ == VocabularyKind::kCharacters) {
    std::string text;
    for (const uint32_t point : code_points_) append_code_point(point, &text);
    root["kind"] = "characters";
    root["characters"] = text;
  }
  return root.dump();
}

int64_t Vocabulary::size() const {
  if (tokenizer_) return tokenizer_->size();
  return kind_ == VocabularyKind::kBytes ? 256 : static_cast<int64_t>(code_points_.size());
}

int32_t Vocabulary::next(std::string_view text, size_t* at) const {
  if (kind_ == VocabularyKind::kBytes) return static_cast<uint8_t>(text[(*at)++]);
  if (kind_ != VocabularyKind::kCharacters) return -1;
  const uint8_t lead = static_cast<uint8_t>(text[*at]);
  if (lead < 0x80) {
    const int32_t token = ascii_[lead];
    *at += token >= 0 ? 1 : 0;
    return token;
  }
  size_t end = *at;
  const uint32_t point = next_code_point(text.data(), text.size(), &end);
  const auto found = std::lower_bound(code_points_.begin(), code_points_.end(), point);
  if (found == code_points_.end() || *found != point) return -1;  // kInvalidCodePoint is in no vocabulary
  *at = end;
  return static_cast<int32_t>(found - code_points_.begin());
}

std::vector<int32_t> Vocabulary::encode(std::string_view text) const {
  if (kind_ == VocabularyKind::kNone) fail_no_vocabulary();
  if (tokenizer_) return tokenizer_->encode(text);
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const int32_t token = next(text, &at);
    if (token < 0) fail_character("text", static_cast<int64_t>(at), text.substr(at), *this);
    tokens.push_back(token);
  }
  return tokens;
}

std::string Vocabulary::decode(const int32_t* tokens, int64_t n) const {
  if (kind_ == VocabularyKind::kNone) fail_no_vocabulary();
  if (tokenizer_) return tokenizer_->decode(tokens, n);
  std::string text;
  for (int64_t i = 0; i < n; ++i) {
    if (tokens[i] < 0 || tokens[i] >= size()) {
      fail(Code::kInvalidArgument, "tokens[{}] = {} is outside the vocabulary of {} tokens", i, tokens[i],
           size());
    }
    if (kind_ == VocabularyKind::kBytes) {
      text.push_back(static_cast<char>(tokens[i]));
    } else {
      append_code_point(code_points_[static_cast<size_t>(tokens[i])], &text);
    }
  }
  return text;
}

}  // namespace hawser::data
