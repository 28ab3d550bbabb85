#include "bindings/cli/text/text_stream.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bindings/cli/parse_json.h"

namespace hawser::cli {

bool has_tokenizer(const hws_engine* engine) {
  return parse_json(text_of(hws_engine_info, engine)).contains("tokenizer");
}

std::vector<int32_t> end_tokens_of(const hws_tokenizer* tokenizer) {
  const auto info = parse_json(text_of(hws_tokenizer_info, tokenizer));
  return info.at("end_tokens").get<std::vector<int32_t>>();
}

std::vector<int32_t> parse_ids(const std::string& what, const std::string& text) {
  std::vector<int32_t> ids;
  const char* at = text.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long value = std::strtol(at, &end, 10);
    const bool number = end != at && value >= 0 && value <= INT32_MAX;
    const char* next = end + std::strspn(end, " \n\r\t");
    if (!number || (*next != ',' && *next != '\0' && next == end))
      refuse(what + " \"" + (text.size() > 60 ? text.substr(0, 60) + "..." : text) +
             "\": expected token ids such as 1,2,3; stopped at \"" + std::string(at).substr(0, 40) + "\"");
    ids.push_back(static_cast<int32_t>(value));
    at = *next == ',' ? next + 1 : next;
  }
  if (ids.empty()) refuse(what + " is empty; give at least one token id");
  return ids;
}

std::vector<int32_t> tokens_in(const Buffer& buffer) {
  const auto* ids = static_cast<const int32_t*>(hws_buffer_data(buffer.get()));
  return {ids, ids + hws_buffer_size(buffer.get()) / sizeof(int32_t)};
}

std::vector<int32_t> encode(const hws_engine* engine, const std::string& text) {
  return tokens_in(make<Buffer>(hws_text_encode, engine, text.data(), text.size()));
}

std::vector<int32_t> encode(const hws_tokenizer* tokenizer, const std::string& text, uint32_t flags) {
  return tokens_in(make<Buffer>(hws_tokenizer_encode, tokenizer, text.data(), text.size(), flags));
}

std::string chat_prompt(const hws_tokenizer* tokenizer, const nlohmann::ordered_json& messages) {
  const nlohmann::ordered_json chat = {{"messages", messages}, {"add_generation_prompt", true}};
  return text_of(hws_tokenizer_render, tokenizer, chat.dump().c_str());
}

std::string text_after(const std::vector<int32_t>& prompt, const std::vector<int32_t>& tokens,
                       const std::function<std::string(const std::vector<int32_t>&)>& decode) {
  const std::string all = decode(tokens);
  return all.substr(std::min(all.size(), decode(prompt).size()));
}

TextStream::TextStream(const hws_tokenizer* tokenizer, const std::vector<int32_t>& prompt)
    : tokenizer_(tokenizer), tokens_(prompt) {
  grown(HWS_TEXT_SKIP_SPECIAL);
}

std::string TextStream::next(int32_t token) {
  tokens_.push_back(token);
  return grown(HWS_TEXT_SKIP_SPECIAL | HWS_TEXT_WHOLE);
}

std::string TextStream::rest() { return grown(HWS_TEXT_SKIP_SPECIAL); }

std::string TextStream::grown(uint32_t flags) {
  const std::string text = text_of(hws_tokenizer_decode, tokenizer_,
                                   static_cast<const int32_t*>(tokens_.data()), tokens_.size(), flags);
  const size_t from = std::min(shown_, text.size());
  shown_ = std::max(shown_, text.size());
  return text.substr(from);
}

}  // namespace hawser::cli
