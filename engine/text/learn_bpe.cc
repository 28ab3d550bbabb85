#include "engine/text/learn_bpe.h"

#include <optional>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/text/text_pieces.h"

namespace hawser::text {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr int64_t kPiece = int64_t{1} << 20, kLongestPiece = int64_t{16} << 20;

/// Reads all files, one piece at a time.
class Reading {
 public:
  explicit Reading(const std::vector<std::string>& paths) : paths_(paths) {}
  std::optional<std::string> next() {
    for (;;) {
      check_interrupt();
      if (pieces_)
        if (const auto piece = pieces_->next()) return std::string(*piece);
      if (opened_ == paths_.size()) return std::nullopt;
      file_ = InputFile::open(paths_[opened_++]);
      pieces_.emplace(file_, kPiece, kLongestPiece);
    }
  }

 private:
  const std::vector<std::string>& paths_;
  size_t opened_ = 0;
  InputFile file_;
  std::optional<TextPieces> pieces_;
};

}  // namespace

std::string learn_bpe(const std::vector<std::string>& paths, int64_t vocabulary,
                      const std::vector<std::string>& specials, const std::string& module_folder) {
  const auto least = static_cast<int64_t>(256 + specials.size());
  if (vocabulary < least || vocabulary > INT32_MAX)
    fail(Code::kDataInvalid,
         "the vocabulary cannot have {} tokens; give {} (256 bytes and {} special tokens) to {}", vocabulary,
         least, specials.size(), INT32_MAX);
  Reading reading(paths);
  return Tokenizer::train_bpe([&] { return reading.next(); }, static_cast<uint32_t>(vocabulary), specials,
                              module_folder);
}

TextFiles learn_model_text(const std::vector<std::string>& paths, int64_t vocabulary, int64_t context,
                           const std::string& module_folder) {
  TextFiles files;
  files["tokenizer.json"] =
      learn_bpe(paths, vocabulary, {kEndOfText, "<|im_start|>", "<|im_end|>"}, module_folder);
  const OrderedJson settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                {"model_max_length", context},
                                {"clean_up_tokenization_spaces", false},
                                {"eos_token", kEndOfText}};
  files["tokenizer_config.json"] = settings.dump(2) + "\n";
  const Tokenizer tokenizer(files["tokenizer.json"], "tokenizer.json", module_folder);
  const OrderedJson generation = {{"eos_token_id", tokenizer.id(kEndOfText).value()}};
  files["generation_config.json"] = generation.dump(2) + "\n";
  return files;
}

}  // namespace hawser::text
