// RowEncoder: converts a row of a data set to tokens with loss weights.
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

/// weights[i] is the loss weight of ids[i] as a target: 0 means not trained on, 1 is the default, other
/// values come from a message's "weight".
struct EncodedRow {
  std::vector<uint32_t> ids;
  std::vector<float> weights;
  bool ends = true;                   ///< the last token trained on ends an answer or a text
  bool by_training_template = false;  ///< RowEncoding::training rendered the chat
  std::map<std::string, int64_t>
      dropped{};  ///< how often each field that the template does not print was dropped
};

/// The settings for encoding rows. Const functions of all members may be called concurrently.
struct RowEncoding {
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template;  ///< null: chats are refused
  std::map<std::string, std::string>
      special_names;                         ///< "bos_token", "eos_token" and others, for the template
  std::optional<uint32_t> end_of_text;       ///< ends texts and completions
  int64_t now = 0;                           ///< seconds since 1970, for templates that print the date
  std::optional<std::string> answer_tail{};  ///< the text that the template adds after an answer
  bool drop_unprinted = false;  ///< drop fields that the template does not print; otherwise they are an error
  /// For chats whose answers `chat_template` cannot mark (training_templates.h); may be null.
  const RowEncoding* training = nullptr;
};

/// Encodes rows. A chat is rendered as one text and encoded without further special tokens. The model is
/// trained on the answers and on the token that ends each answer, but not on the header before an answer. A
/// template with {% generation %} marks the answers itself. Otherwise an answer is the text that rendering
/// the chat up to and including it adds to rendering the chat before it. A message with "train": false is not
/// trained on; "weight": w sets the loss weight of its tokens. No text of a row is lost silently: a field
/// that the template does not print is an error, or is dropped and counted (unprinted.h). If the template
/// refuses a chat, cannot mark its answers or leaves out the reasoning of one, the encoder takes the training
/// template instead, if there is one.
class RowEncoder {
 public:
  explicit RowEncoder(const RowEncoding& encoding) : encoding_(encoding) {}

  /// `where` begins an error's text. Throws kDataInvalid with the template's message if the template refuses
  /// the row; if the template renders earlier turns differently once an answer follows, because the answer's
  /// tokens cannot be located then; and for a pair, whose answers are encoded separately.
  EncodedRow encode(const TrainingRow& row, std::string_view where) const;

 private:
  struct Learned {
    TextSpan span;
    float weight;
    uint64_t words_end;  ///< end of the answer's own text; after it the template's text begins
  };

  EncodedRow encode_chat(const TrainingRow& row, std::string_view where) const;
  EncodedRow encode_by_template(const TrainingRow& row, std::string_view where) const;
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
