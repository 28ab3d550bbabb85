#include "engine/assembly/model_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/hf/tokenizer_files.h"
#include "engine/checkpoint/reader.h"
#include "engine/text/text_pieces.h"

namespace hawser::train {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;

text::TextFiles files_of_checkpoint(const std::string& path) {
  const checkpoint::Description description = checkpoint::Reader::open(path)->description();
  text::TextFiles files = description.extra_files;
  const auto vocabulary = data::Vocabulary::from_json(description.vocabulary_json);
  if (vocabulary.kind() != data::VocabularyKind::kNone)
    checkpoint::hf::put_tokenizer(
        vocabulary, parse_json<OrderedJson>(description.model_json).at("context").get<int64_t>(), &files);
  return files;
}

/// True if a text can be encoded in pieces: the tokenizer puts nothing before a piece, and joins nothing
/// across the end of a line.
bool may_be_cut(const text::Tokenizer& tokenizer) {
  for (const auto& [first, second] : {std::pair("One, two.\n", "three 4"), std::pair("a\n", "\"B\" = c")}) {
    std::vector<uint32_t> pieces = tokenizer.encode(first, false);
    const std::vector<uint32_t> rest = tokenizer.encode(second, false);
    pieces.insert(pieces.end(), rest.begin(), rest.end());
    if (pieces != tokenizer.encode(std::string(first) + second, false)) return false;
  }
  return true;
}

/// The special tokens before and after a text.
struct Marks {
  std::vector<uint32_t> before, after;
};

Marks marks_of(const text::Tokenizer& tokenizer) {
  const std::vector<uint32_t> plain = tokenizer.encode("a", false), whole = tokenizer.encode("a", true);
  const auto at = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
  const auto size = static_cast<std::ptrdiff_t>(plain.size());
  if (at == whole.end()) return {};
  return {{whole.begin(), at}, {at + size, whole.end()}};
}

}  // namespace

text::TextFiles text_files_of(const std::string& path) {
  if (checkpoint::is_checkpoint(path)) return files_of_checkpoint(path);
  if (!checkpoint::path_exists(path)) fail(Code::kNotFound, "{}: no such file or directory", path);
  try {
    const checkpoint::Folder folder = checkpoint::Folder::open(path);
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;
    return text::read_tokenizer_file(path);
  }
  return text::read_text_files(path);
}

ModelTokens::ModelTokens(text::TextFiles files, std::string where, int64_t vocab_size)
    : files_(std::move(files)),
      where_(std::move(where)),
      digest_(text::tokenizer_digest(files_)),
      vocab_size_(vocab_size) {}

std::shared_ptr<const text::ModelText> ModelTokens::text() const {
  const std::lock_guard lock(mutex_);
  if (text_) return text_;
  auto opened = std::make_shared<const text::ModelText>(files_, where_);
  if (opened->tokenizer().vocabulary_size() > vocab_size_)
    fail(Code::kDataInvalid,
         "{}/tokenizer.json has {} tokens, but the model's embedding has {} rows (/model/vocab_size); give "
         "the tokenizer with which the model was trained",
         where_, opened->tokenizer().vocabulary_size(), vocab_size_);
  return text_ = std::move(opened);
}

std::vector<int32_t> ModelTokens::encode(std::string_view text) const {
  const std::vector<uint32_t> ids = this->text()->tokenizer().encode(text, true);
  return {ids.begin(), ids.end()};
}

std::vector<int32_t> ModelTokens::encode(const InputFile& file) const {
  const std::shared_ptr<const text::ModelText> opened = text();
  const text::Tokenizer& tokenizer = opened->tokenizer();
  const Marks marks = marks_of(tokenizer);
  std::vector<int32_t> tokens(marks.before.begin(), marks.before.end());
  text::TextPieces pieces(file, may_be_cut(tokenizer) ? kPiece : std::max<int64_t>(file.size(), 1),
                          std::numeric_limits<int64_t>::max());
  while (const auto piece = pieces.next()) {
    check_interrupt();
    const std::vector<uint32_t> ids = tokenizer.encode(*piece, false);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  tokens.insert(tokens.end(), marks.after.begin(), marks.after.end());
  return tokens;
}

std::string ModelTokens::decode(const int32_t* tokens, int64_t n) const {
  for (int64_t i = 0; i < n; ++i)
    if (tokens[i] < 0) fail(Code::kInvalidArgument, "tokens[{}] = {} is not a token id", i, tokens[i]);
  const std::vector<uint32_t> ids(tokens, tokens + n);
  return text()->tokenizer().decode(ids, true);
}

}  // namespace hawser::train
