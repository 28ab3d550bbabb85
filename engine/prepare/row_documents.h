// From a row of a file to the documents that it gives: parsed, rendered, encoded, and cut to the length of a
// row.
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

namespace hawser::train {

/// What became of a row.
enum class RowFate { kKept, kTooLong, kNoTargets, kAnswerCutAway };

struct RowDocuments {
  text::RowForm form = text::RowForm::kText;
  RowFate fate = RowFate::kKept;
  int64_t length = 0;  ///< tokens, before it was cut; of a pair those of its longer answer
  int64_t cut = 0;     ///< tokens that were cut off
  bool ends = true;    ///< the last token trained on ends an answer or a text
  std::map<std::string, int64_t> unprinted;  ///< how often each unprinted field was dropped
  std::vector<text::EncodedRow> documents;   ///< of a pair both answers, the chosen one first, or none
};

/// The model's text as a preparation uses it. Const functions may be called beside each other.
class RowReader {
 public:
  /// Throws what reading the model's folder and the template throws; kDataInvalid if the tokenizer has more
  /// ids than the model has embeddings.
  explicit RowReader(const PrepareRequest& request);

  /// Throws kDataInvalid with the row's place.
  RowDocuments read(const text::RawRow& row) const;

  const text::ModelText& model() const { return *model_; }
  /// The source of tokenizer.json.
  const std::string& tokenizer_json() const { return tokenizer_json_; }
  /// The request's template, if it named one: its source, and what reports call it.
  const std::string& own_template() const { return own_template_; }
  std::string template_name() const;
  std::string template_digest() const;

 private:
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
  std::optional<text::RowEncoding> without_tools_, with_tools_;
};

}  // namespace hawser::train
