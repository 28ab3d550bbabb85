// RowEncoder: a row of a data set as tokens, and how much each of them is learned.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "engine/text/training_row.h"

namespace hawser::text {

/// weights[i] belongs to ids[i] as a target: 0 means not learned, 1 the usual, others as a message's
/// "weight".
struct EncodedRow {
  std::vector<uint32_t> ids;
  std::vector<float> weights;
  bool ends = true;  ///< the last token trained on ends an answer or a text
  std::map<std::string, int64_t>
      dropped{};  ///< how often each field that the template does not print was dropped
};

/// What a row is encoded with. Const functions of all of these may be called beside each other.
struct RowEncoding {
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template;  ///< null: chats are refused
  std::map<std::string, std::string>
      special_names;                         ///< "bos_token", "eos_token" and others, for the template
  std::optional<uint32_t> end_of_text;       ///< ends texts and completions
  int64_t now = 0;                           ///< seconds since 1970, for templates that say the date
  std::optional<std::string> answer_tail{};  ///< the text that the template adds after an answer
  bool drop_unprinted = false;  ///< drop fields that the template does not print; otherwise they are an error
};

/// Encodes rows. A chat is rendered whole and encoded without further special tokens. The model is trained on
/// the answers and on the token that ends each answer, but not on the header before an answer. A template
/// with {% generation %} marks them itself. Otherwise an answer is the text that a rendering up to it has
/// beyond the rendering before it. A message with "train": false is not trained on; "weight": w sets the loss
/// weight of its tokens. No words of a row are lost silently: a field that the template does not print is an
/// error, or is dropped and counted (unprinted.h).
class RowEncoder {
 public:
  explicit RowEncoder(const RowEncoding& encoding) : encoding_(encoding) {}

  /// `where` begins the text of an error. Throws kDataInvalid: what the template refuses, in its words; a
  /// template that writes earlier turns anew where an answer follows, so that none can be told apart; a pair,
  /// whose answers are rows.
  EncodedRow encode(const TrainingRow& row, std::string_view where) const;

 private:
  struct Learned {
    TextSpan span;
    float weight;
    uint64_t words_end;  ///< the answer's own words end here, and the template's text begins
  };

  EncodedRow encode_chat(const TrainingRow& row, std::string_view where) const;
  RenderedChat render(const OrderedJson& messages, const OrderedJson& tools, bool add_generation_prompt,
                      std::string_view where) const;
  std::map<std::string, int64_t> drop_unprinted(TrainingRow* row, RenderedChat* chat,
                                                std::string_view where) const;
  uint64_t words_end(std::string_view added, const OrderedJson& message) const;
  std::vector<Learned> find_learned(const RenderedChat& chat, const TrainingRow& row,
                                    std::string_view where) const;
  std::vector<Learned> learned_by_template(const RenderedChat& chat, const TrainingRow& row,
                                           std::string_view where) const;
  std::vector<Learned> learned_by_prefix(const RenderedChat& chat, const TrainingRow& row,
                                         std::string_view where) const;
  EncodedRow weighted(const std::string& text, bool with_special, const std::vector<Learned>& learned,
                      bool chat) const;
  bool ends(const EncodedRow& row) const;
  void end(EncodedRow* row) const;

  const RowEncoding& encoding_;
};

}  // namespace hawser::text
