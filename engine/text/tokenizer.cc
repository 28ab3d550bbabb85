#include "engine/text/tokenizer.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/text/open_text_module.h"
#include "engine/text/text_call.h"

namespace hawser::text {
namespace {

/// Passes a caller's texts to the module, which supports neither std::function nor exceptions.
class Feed {
 public:
  explicit Feed(const Tokenizer::Texts& texts) : texts_(texts), source_{this, &Feed::next} {}
  const TextSource* source() const { return &source_; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  static int32_t next(void* user, const char** text, size_t* bytes) noexcept {
    auto* const self = static_cast<Feed*>(user);
    try {
      self->current_ = self->texts_();
    } catch (...) {
      self->thrown_ = std::current_exception();
      return -1;
    }
    if (!self->current_) return 0;
    *text = self->current_->data();
    *bytes = self->current_->size();
    return 1;
  }

  const Tokenizer::Texts& texts_;
  std::optional<std::string> current_;
  std::exception_ptr thrown_;
  TextSource source_;
};

}  // namespace

Tokenizer::Tokenizer(std::string_view json, std::string name, const std::string& module_folder)
    : name_(std::move(name)), module_(&open_text_module(module_folder)) {
  const TextCall call(name_);
  call.check(module_->tokenizer_open(json.data(), json.size(), &tokenizer_, call.error()));
  vocabulary_size_ = module_->vocabulary_size(tokenizer_);  // cached, because a call counts all tokens
}

Tokenizer::~Tokenizer() {
  if (tokenizer_ != nullptr) module_->tokenizer_close(tokenizer_);
}

Tokenizer::Tokenizer(Tokenizer&& other) noexcept
    : name_(std::move(other.name_)),
      module_(other.module_),
      tokenizer_(std::exchange(other.tokenizer_, nullptr)),
      vocabulary_size_(other.vocabulary_size_) {}

Tokenizer& Tokenizer::operator=(Tokenizer&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(module_, other.module_);
  std::swap(tokenizer_, other.tokenizer_);
  std::swap(vocabulary_size_, other.vocabulary_size_);
  return *this;
}

Token Tokenizer::token(int64_t id) const {
  if (id < 0 || id >= vocabulary_size())
    fail(Code::kDataInvalid, "{}: no token has id {}; there are {}", name_, id, vocabulary_size());
  Token token;
  int32_t special = 0;
  const TextCall call(name_);
  const Collector<std::string> text(&token.text);
  call.check(module_->token_of(tokenizer_, static_cast<uint32_t>(id), text.sink(), &special, call.error()));
  text.rethrow();
  token.special = special != 0;
  return token;
}

std::optional<int64_t> Tokenizer::id(std::string_view token) const {
  int64_t id = -1;
  module_->id_of(tokenizer_, token.data(), token.size(), &id);
  return id < 0 ? std::nullopt : std::optional(id);
}

void Tokenizer::encode(std::string_view first, const std::string_view* second, bool with_special,
                       std::vector<uint32_t>* ids, std::vector<uint64_t>* spans) const {
  const TextCall call(name_);
  const Collector<std::vector<uint32_t>> into(ids);
  const Collector<std::vector<uint64_t>> into_spans(spans);
  const int32_t status = module_->encode(
      tokenizer_, first.data(), first.size(), second ? second->data() : nullptr, second ? second->size() : 0,
      with_special, &kHostPoll, into.sink(), spans ? into_spans.sink() : nullptr, call.error());
  call.check(status);
  into.rethrow();
  into_spans.rethrow();
  TextCall::check_stopped(status);
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text, bool with_special) const {
  std::vector<uint32_t> ids;
  encode(text, nullptr, with_special, &ids, nullptr);
  return ids;
}

std::vector<uint32_t> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                             bool with_special) const {
  std::vector<uint32_t> ids;
  encode(first, &second, with_special, &ids, nullptr);
  return ids;
}

void Tokenizer::encode_with_spans(std::string_view text, bool with_special, std::vector<uint32_t>* ids,
                                  std::vector<TextSpan>* spans) const {
  std::vector<uint64_t> ends;
  encode(text, nullptr, with_special, ids, &ends);
  for (size_t i = 0; i < ends.size(); i += 2) spans->push_back({ends[i], ends[i + 1]});
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special) const {
  std::string text;
  const TextCall call(name_);
  const Collector<std::string> into(&text);
  call.check(module_->decode(tokenizer_, ids.data(), ids.size(), skip_special, into.sink(), call.error()));
  into.rethrow();
  return text;
}

std::string Tokenizer::train_bpe(const Texts& texts, uint32_t vocabulary,
                                 const std::vector<std::string>& specials, const std::string& module_folder) {
  const TextModule& module = open_text_module(module_folder);
  const std::string names = Json(specials).dump();
  const std::string what = "learning a vocabulary";
  std::string json;
  const TextCall call(what);
  const Feed feed(texts);
  const Collector<std::string> into(&json);
  const int32_t status = module.train_bpe(feed.source(), vocabulary, names.data(), names.size(), &kHostPoll,
                                          into.sink(), call.error());
  feed.rethrow();
  into.rethrow();
  call.check(status);
  TextCall::check_stopped(status);
  return json;
}

TextDecoder::TextDecoder(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(tokenizer) {
  const TextCall call(tokenizer.name_);
  call.check(tokenizer.module_->stream_open(skip_special, &stream_));
}

TextDecoder::~TextDecoder() { tokenizer_.module_->stream_close(stream_); }

std::string TextDecoder::next(uint32_t id) {
  std::string text;
  const TextCall call(tokenizer_.name_);
  const Collector<std::string> into(&text);
  call.check(tokenizer_.module_->stream_next(tokenizer_.tokenizer_, stream_, id, into.sink(), call.error()));
  into.rethrow();
  return text;
}

}  // namespace hawser::text
