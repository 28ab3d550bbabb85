#include "engine/prepare/row_documents.h"

#include <algorithm>
#include <ctime>
#include <string_view>

#include "engine/assembly/model_tokens.h"
#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/text/answer_tail.h"
#include "engine/text/built_in_templates.h"
#include "engine/text/parse_row.h"

namespace hawser::train {
namespace {

constexpr int64_t kMostTemplate = int64_t{4} << 20;

std::string read_text(const std::string& path, int64_t most) {
  const InputFile file = InputFile::open(path);
  if (file.size() > most)
    fail(Code::kOutOfRange, "{} has {} bytes; at most {} can be read", path, file.size(), most);
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, text.data(), file.size());
  return text;
}

/// Reads the text files of a checkpoint, of a model's folder, or of the folder of a tokenizer.json.
text::TextFiles files_of(const std::string& model, std::string* folder) {
  const std::string name = "tokenizer.json";
  *folder = model;
  if (checkpoint::is_checkpoint(model)) return text_files_of(model);
  if (model.ends_with(name) &&
      (model.size() == name.size() || model[model.size() - name.size() - 1] == '/')) {
    *folder = model.size() == name.size() ? "." : model.substr(0, model.size() - name.size() - 1);
    InputFile::open(model);  // throws if the file does not exist
    text::TextFiles files = text::read_text_files(*folder);
    files.erase("config.json");  // a tokenizer alone may belong to any model
    return files;
  }
  return text::read_text_files(model);
}

std::string names_of_templates() {
  std::string names;
  for (const text::BuiltInTemplate& known : text::built_in_templates())
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

bool teaches(const text::EncodedRow& row, size_t length) {
  for (size_t i = 1; i < length; ++i)
    if (row.weights[i] != 0) return true;
  return false;
}

}  // namespace

RowReader::RowReader(const PrepareRequest& request)
    : sequence_(request.sequence), drop_long_(request.drop_long), pairs_(request.pairs) {
  text::TextFiles files = files_of(request.model, &model_name_);
  model_ = std::make_unique<const text::ModelText>(files, model_name_, request.module_folder);
  check_vocabulary(files);
  tokenizer_json_ = std::move(files["tokenizer.json"]);
  take_template(request);
  const auto& names = model_->special_names();
  if (const auto found = names.find("bos_token"); found != names.end())
    begin_of_text_ = model_->tokenizer().id(found->second);
  fill(request, false, &without_tools_);
  fill(request, true, &with_tools_);
}

void RowReader::fill(const PrepareRequest& request, bool tools, ChatEncoding* encoding) const {
  const auto& names = model_->special_names();
  const auto now = static_cast<int64_t>(std::time(nullptr));
  const auto with = [&](const text::ChatTemplate* chat, const text::RowEncoding* training) {
    return text::RowEncoding{
        model_->tokenizer(),    chat,    names,
        model_->end_of_text(),  now,     chat ? text::answer_tail(*chat, names, now) : std::nullopt,
        request.drop_unprinted, training};
  };
  const text::ChatTemplate* const chat = chosen_ ? chosen_.get() : model_->chat_template(tools);
  if (chat != nullptr)
    encoding->training = text::find_training_template(*chat, names, now, request.module_folder);
  if (encoding->training)
    encoding->for_training.emplace(with(encoding->training->chat_template.get(), nullptr));
  encoding->usual.emplace(with(chat, encoding->training ? &*encoding->for_training : nullptr));
}

void RowReader::take_template(const PrepareRequest& request) {
  const std::string& name = request.chat_template;
  if (name.empty()) return;
  own_name_ = name;
  if (const text::BuiltInTemplate* known = text::find_built_in_template(name)) {
    for (std::string_view rest = known->tokens; !rest.empty();) {  // the tokens are separated by spaces
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string token(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (!model_->tokenizer().id(token))
        fail(Code::kDataInvalid,
             "the template {} uses the token {}, which the tokenizer of {} does not have; name another one "
             "({}), or give a template file",
             name, token, model_name_, names_of_templates());
    }
    own_template_ = known->source;
  } else {
    try {
      own_template_ = read_text(name, kMostTemplate);
    } catch (const Error& error) {
      if (error.code() != Code::kNotFound) throw;
      fail(Code::kNotFound,
           "there is no template file {}, and no built-in template of that name; built in: {}", name,
           names_of_templates());
    }
  }
  chosen_ = std::make_unique<const text::ChatTemplate>(own_template_, name, request.module_folder);
}

void RowReader::check_vocabulary(const text::TextFiles& files) const {
  const auto found = files.find("config.json");
  if (found == files.end()) return;
  const OrderedJson config = parse_json_or_discard<OrderedJson>(found->second);
  if (!config.is_object()) return;  // opening the model reports what is wrong
  const OrderedJson& part =
      config.contains("text_config") && config["text_config"].is_object() ? config["text_config"] : config;
  if (!part.contains("vocab_size") || !part["vocab_size"].is_number_integer()) return;
  const int64_t embeddings = part["vocab_size"].get<int64_t>(), ids = model_->tokenizer().vocabulary_size();
  if (ids > embeddings)
    fail(Code::kDataInvalid,
         "{}/tokenizer.json has ids up to {}, but the model has {} embeddings (vocab_size of config.json); "
         "the tokenizer belongs to another model, or tokens were added to the tokenizer only",
         model_name_, ids - 1, embeddings);
}

std::string RowReader::template_name() const {
  if (!own_name_.empty()) return own_name_;
  return model_->chat_template() != nullptr ? "the model's" : "none";
}

std::string RowReader::template_digest() const {
  return chosen_ ? text::text_digest(own_template_) : model_->template_digest();
}

/// Encodes a piece of a text file. Only the two ends of the file get special tokens, not the borders between
/// pieces.
text::EncodedRow RowReader::encode_piece(const text::RawRow& row) const {
  text::check_utf8(row);
  text::EncodedRow piece;
  piece.ids = model_->tokenizer().encode(row.text, false);
  if (row.first && begin_of_text_) {
    const std::vector<uint32_t> whole = model_->tokenizer().encode("", true);
    if (!whole.empty() && whole.front() == *begin_of_text_)
      piece.ids.insert(piece.ids.begin(), whole.front());
  }
  if (row.last && model_->end_of_text()) piece.ids.push_back(*model_->end_of_text());
  piece.weights.assign(piece.ids.size(), 1);
  return piece;
}

text::TrainingRow RowReader::parse(const text::RawRow& row) const {
  text::TrainingRow parsed = text::training_row(text::parse_row(row), row.where);
  const bool pair = parsed.form == text::RowForm::kPair;
  if (pair && pairs_ == false)
    fail(Code::kDataInvalid,
         "{}: the row is a pair (\"chosen\" and \"rejected\"), which is for training on preferences; choose "
         "an "
         "objective over pairs (--dpo; /objective/kind), or give rows with \"messages\" or \"prompt\" and "
         "\"completion\"",
         row.where);
  if (!pair && pairs_ == true)
    fail(Code::kDataInvalid,
         "{}: the row is not a pair, but the objective trains on pairs; give rows with \"prompt\", "
         "\"chosen\" and \"rejected\"",
         row.where);
  return parsed;
}

text::EncodedRow RowReader::encode(const text::TrainingRow& parsed, const std::string& where) const {
  const bool tools = parsed.tools.is_array() && !parsed.tools.empty();
  const text::RowEncoding& encoding = tools ? *with_tools_.usual : *without_tools_.usual;
  if (parsed.form == text::RowForm::kChat && encoding.chat_template == nullptr)
    fail(Code::kDataInvalid,
         "{}: the row is a chat, and {} has no chat template; name a template (a file, or one of: {})", where,
         model_name_, names_of_templates());
  text::EncodedRow encoded = text::RowEncoder(encoding).encode(parsed, where);
  check_beginning(encoded, where);
  return encoded;
}

/// Refuses a row that begins with two begin-of-text tokens. No model was trained on such rows, so its answers
/// would become worse without an error.
void RowReader::check_beginning(const text::EncodedRow& row, const std::string& where) const {
  if (!begin_of_text_ || row.ids.size() < 2) return;
  const auto begin = static_cast<uint32_t>(*begin_of_text_);
  if (row.ids[0] != begin || row.ids[1] != begin) return;
  fail(Code::kDataInvalid,
       "{}: the row begins with {} twice; the tokenizer or the template adds it, so remove it from the row's "
       "text",
       where, model_->tokenizer().token(*begin_of_text_).text);
}

/// Splits a piece of text into documents of a row's length. Nothing is cut off, except a last token that is
/// alone and so has no target.
RowDocuments RowReader::read_piece(const text::RawRow& row) const {
  RowDocuments result;
  const text::EncodedRow encoded = encode_piece(row);
  result.length = static_cast<int64_t>(encoded.ids.size());
  const auto most = static_cast<size_t>(sequence_);
  for (size_t at = 0; at < encoded.ids.size(); at += most) {
    const size_t end = std::min(encoded.ids.size(), at + most);
    if (end - at < 2) continue;
    const auto from = static_cast<std::ptrdiff_t>(at), to = static_cast<std::ptrdiff_t>(end);
    result.documents.push_back({{encoded.ids.begin() + from, encoded.ids.begin() + to},
                                {encoded.weights.begin() + from, encoded.weights.begin() + to}});
    result.documents.back().weights[0] = 0;
  }
  if (result.documents.empty()) result.fate = RowFate::kNoTargets;
  result.ends = !row.last || model_->end_of_text().has_value();
  return result;
}

/// Cuts documents to the length of a row. If one of them has no target left or must be dropped, the row's
/// fate gives the reason.
void RowReader::cut(RowDocuments* row) const {
  const auto most = static_cast<size_t>(sequence_);
  const auto worse = [row](RowFate fate) {
    if (row->fate == RowFate::kKept) row->fate = fate;
  };
  for (text::EncodedRow& document : row->documents) {
    row->length = std::max(row->length, static_cast<int64_t>(document.ids.size()));
    if (!document.weights.empty()) document.weights[0] = 0;  // no token precedes it to predict it
    if (!teaches(document, document.ids.size())) worse(RowFate::kNoTargets);
    if (document.ids.size() <= most) continue;
    if (drop_long_) worse(RowFate::kTooLong);
    if (!teaches(document, most)) worse(RowFate::kAnswerCutAway);
    row->cut += static_cast<int64_t>(document.ids.size() - most);
    document.ids.resize(most);
    document.weights.resize(most);
  }
}

RowDocuments RowReader::read(const text::RawRow& row) const {
  if (!row.is_json) {
    if (pairs_ == true)
      fail(Code::kDataInvalid, "{}: a text has no pairs, but the objective trains on pairs", row.where);
    return read_piece(row);
  }
  const text::TrainingRow parsed = parse(row);
  RowDocuments result;
  result.form = parsed.form;
  if (parsed.form == text::RowForm::kPair) {
    for (const text::TrainingRow& answer : parsed.answers)
      result.documents.push_back(encode(answer, row.where));
    if (result.documents[0].ids == result.documents[1].ids)
      fail(Code::kDataInvalid,
           "{}: chosen equals rejected once the template has trimmed them, so neither answer is preferred: "
           "leave the row out",
           row.where);
  } else {
    result.documents.push_back(encode(parsed, row.where));
  }
  for (const text::EncodedRow& document : result.documents) {
    result.ends = result.ends && document.ends;
    result.by_training_template = result.by_training_template || document.by_training_template;
    for (const auto& [name, count] : document.dropped) result.unprinted[name] += count;
  }
  cut(&result);
  if (parsed.form == text::RowForm::kPair && result.fate == RowFate::kKept &&
      result.documents[0].ids == result.documents[1].ids)
    result.fate = RowFate::kAnswerCutAway;
  if (result.fate != RowFate::kKept) result.documents.clear();
  return result;
}

}  // namespace hawser::train
