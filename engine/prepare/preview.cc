// Reads a prepared row back, so that users see what the model is trained on (prepare.h).
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/data/prepared_folder.h"
#include "engine/prepare/prepare.h"
#include "engine/text/model_text.h"

namespace hawser::train {
namespace {

template <typename T>
std::vector<T> read_row(const std::string& folder, const char* name, int64_t row, int64_t cols) {
  const InputFile file = InputFile::open(folder + "/" + name);
  const auto bytes = cols * static_cast<int64_t>(sizeof(T));
  if (!file.contains(static_cast<uint64_t>(row * bytes), static_cast<uint64_t>(bytes)))
    fail(Code::kDataInvalid, "{} ends before row {}; the folder is damaged, prepare the data again",
         file.path(), row);
  std::vector<T> values(static_cast<size_t>(cols));
  file.read_at(row * bytes, values.data(), bytes);
  return values;
}

/// Decodes the tokens [begin, end) of a row, and lists the byte ranges of the text that are trained on.
OrderedJson document(const text::Tokenizer& tokenizer, const std::vector<uint32_t>& tokens,
                     const std::vector<uint8_t>& marks, size_t begin, size_t end) {
  text::TextDecoder decoder(tokenizer, false);
  std::string words;
  OrderedJson learned = OrderedJson::array();
  int64_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    const size_t from = words.size();
    words += decoder.next(tokens[i]);
    if ((marks[i] & data::kTargetToken) == 0) continue;
    ++count;
    if (words.size() == from) continue;  // the character is not complete yet
    if (!learned.empty() && learned.back()[1] == from)
      learned.back()[1] = words.size();
    else
      learned.push_back({from, words.size()});
  }
  return {{"begin", begin},
          {"tokens", end - begin},
          {"learned_tokens", count},
          {"text", words},
          {"learned", learned}};
}

}  // namespace

std::string preview(const std::string& folder, int64_t row, const std::string& module_folder) {
  const data::PreparedManifest manifest = data::read_manifest(folder);
  if (row < 0 || row >= manifest.rows)
    fail(Code::kOutOfRange, "there is no row {} in {}, whose {} rows are numbered from 0", row, folder,
         manifest.rows);
  const text::TextFiles files = text::read_text_files(folder);
  const text::ModelText model(files, folder, module_folder);
  const int64_t cols = manifest.cols;
  const auto tokens = read_row<uint32_t>(folder, data::kPreparedTokens, row, cols);
  const auto marks = read_row<uint8_t>(folder, data::kPreparedMarks, row, cols);
  OrderedJson documents = OrderedJson::array();
  size_t begin = 0, used = 0;
  for (size_t i = 1; i <= tokens.size(); ++i) {
    if (i < tokens.size() && (marks[i] & data::kDocumentBegin) == 0) continue;
    OrderedJson found = document(model.tokenizer(), tokens, marks, begin, i);
    if (found["learned_tokens"] > 0) {  // otherwise it is the padding of the row
      used += i - begin;
      documents.push_back(std::move(found));
    }
    begin = i;
  }
  const OrderedJson result = {
      {"row", row}, {"rows", manifest.rows}, {"sequence", cols}, {"tokens", used}, {"documents", documents}};
  return result.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace hawser::train
