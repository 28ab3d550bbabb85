// RowReader: a converter from rows of a file to documents. It parses, renders and encodes a row, and cuts the
// documents to the length of a prepared row.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/prepare/prepare.h"
#include "engine/text/model_text.h"
#include "engine/text/row_encoder.h"
#include "engine/text/row_file.h"
#include "engine/text/training_templates.h"

namespace hawser::train {

/// The outcome of a row: it was kept, or the reason why it was dropped.
enum class RowFate { kKept, kTooLong, kNoTargets, kAnswerCutAway };

struct RowDocuments {
  text::RowForm form = text::RowForm::kText;
  RowFate fate = RowFate::kKept;
  int64_t length = 0;  ///< tokens before cutting; for a pair, tokens of its longer answer
  int64_t cut = 0;     ///< tokens that were cut off
  bool ends = true;    ///< the last token trained on ends an answer or a text
  bool by_training_template = false;
  std::map<std::string, int64_t> unprinted;  ///< how often each unprinted field was dropped
  std::vector<text::EncodedRow> documents;   ///< a pair has two, chosen first, or none
};

/// Reads rows with the model's tokenizer and chat template. Const functions may be called concurrently.
class RowReader {
 public:
  /// Throws the errors of reading the model's folder and the template, and kDataInvalid if the tokenizer has
  /// more ids than the model has embeddings.
  explicit RowReader(const PrepareRequest& request);

  /// Throws kDataInvalid, which names the row.
  RowDocuments read(const text::RawRow& row) const;

  const text::ModelText& model() const { return *model_; }
  /// The source of tokenizer.json.
  const std::string& tokenizer_json() const { return tokenizer_json_; }
  /// The source of the request's template; "" if the request names none.
  const std::string& own_template() const { return own_template_; }
  std::string template_name() const;
  std::string template_digest() const;
  /// The training template of the chat template for chats without tools, or else with tools; may be null.
  const text::TrainingTemplate* training_template() const {
    return without_tools_.training ? without_tools_.training.get() : with_tools_.training.get();
  }

 private:
  /// How chats are encoded. The encodings refer to each other, so it is not copied.
  struct ChatEncoding {
    std::unique_ptr<const text::TrainingTemplate> training;
    std::optional<text::RowEncoding> for_training, usual;
  };

  void fill(const PrepareRequest& request, bool tools, ChatEncoding* encoding) const;
  void take_template(const PrepareRequest& request);
  void check_vocabulary(const text::TextFiles& files) const;
  RowDocuments read_piece(const text::RawRow& row) const;
  text::TrainingRow parse(const text::RawRow& row) const;
  text::EncodedRow encode(const text::TrainingRow& row, const std::string& where) const;
  text::EncodedRow encode_piece(const text::RawRow& row) const;
  void cut(RowDocuments* row) const;
  void check_beginning(const text::EncodedRow& row, const std::string& where) const;

  const int64_t sequence_;
  const bool drop_long_;
  const std::optional<bool> pairs_;
  std::unique_ptr<const text::ModelText> model_;
  std::unique_ptr<const text::ChatTemplate> chosen_;
  std::string model_name_, tokenizer_json_, own_template_, own_name_;
  std::optional<int64_t> begin_of_text_;
  ChatEncoding without_tools_, with_tools_;
};

}  // namespace hawser::train
