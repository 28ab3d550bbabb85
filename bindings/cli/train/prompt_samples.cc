#include "bindings/cli/train/prompt_samples.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bindings/cli/open_model.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/train/sample.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

[[noreturn]] void refuse_prompt(size_t number, const std::string& why) {
  refuse("/telemetry/samples/" + std::to_string(number) + ": " + why);
}

}  // namespace

PromptSamples::PromptSamples(const hws_engine* engine, const ordered_json& resolved) {
  const ordered_json::json_pointer at("/telemetry/samples");
  if (!resolved.contains(at) || resolved[at].empty()) return;
  if (!reads_text(engine))
    refuse(
        "/telemetry/samples: the model has neither a tokenizer nor a byte or character vocabulary, so it "
        "cannot read text; leave them out");
  most_tokens_ = resolved.at("telemetry").at("sample_tokens").get<int64_t>();
  hws_sizes sizes{};
  sizes.struct_size = sizeof sizes;
  check(hws_engine_sizes(engine, &sizes));
  window_ = sizes.sequence;
  if (has_tokenizer(engine)) {
    tokenizer_ = make<Tokenizer>(hws_engine_tokenizer, engine);
    end_tokens_ = end_tokens_of(tokenizer_.get());
  }
  for (const ordered_json& prompt : resolved[at]) {
    const size_t number = prompts_.size();
    std::vector<int32_t> tokens;
    try {
      tokens = encode(engine, prompt);
    } catch (const Failure& failure) {
      throw Failure(failure.status(),
                    "/telemetry/samples/" + std::to_string(number) + ": " + std::string(failure.what()));
    }
    if (tokens.empty()) refuse_prompt(number, "the prompt is empty; give at least one character");
    if (static_cast<int64_t>(tokens.size()) >= window_)
      refuse_prompt(number, "the prompt has " + std::to_string(tokens.size()) +
                                " tokens, and a row has room for " + std::to_string(window_) +
                                " with the answer; shorten it, or raise /batch/sequence");
    prompts_.push_back({prompt.dump(), std::move(tokens)});
  }
}

std::vector<int32_t> PromptSamples::encode(const hws_engine* engine, const ordered_json& prompt) const {
  if (prompt.contains("text")) return cli::encode(engine, prompt["text"].get<std::string>());
  if (!tokenizer_)
    refuse("messages need a chat template, and a model of bytes or characters has none; give a text");
  return cli::encode(tokenizer_.get(), chat_prompt(tokenizer_.get(), prompt.at("messages")));
}

bool PromptSamples::due(const hws_train_record& record) const {
  return !prompts_.empty() && (!std::isnan(record.validation_loss) || record.step == record.total_steps);
}

std::vector<SampleAnswer> PromptSamples::answer(hws_engine* engine, int64_t step) const {
  std::vector<SampleAnswer> answers;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    SampleAnswer& answer = answers.emplace_back();
    answer.step = step, answer.sample = static_cast<int64_t>(i), answer.prompt_json = prompts_[i].json;
    if (!answer_one(engine, prompts_[i], &answer)) return {};
  }
  return answers;
}

/// Returns false after Ctrl-C. A model whose numbers are not finite gives no answer, which must not end the
/// run.
bool PromptSamples::answer_one(hws_engine* engine, const Prompt& prompt, SampleAnswer* answer) const {
  std::vector<int32_t> tokens = prompt.tokens;
  hws_generate_request request{};
  request.struct_size = sizeof request;
  request.stop_token = -1;
  request.prompt = prompt.tokens.data();
  request.prompt_length = static_cast<int64_t>(prompt.tokens.size());
  request.max_tokens = std::min(most_tokens_, window_ - request.prompt_length);
  request.top_p = 1.0;
  request.stop_tokens = end_tokens_.data();
  request.stop_count = static_cast<int64_t>(end_tokens_.size());
  const int32_t status = generate_tokens(engine, request, &tokens);
  if (status == HWS_CANCELLED) return false;
  try {
    check(status);
  } catch (const Failure& failure) {
    if (status != HWS_NUMERIC) throw;
    answer->problem = failure.what();
    return true;
  }
  answer->tokens = static_cast<int64_t>(tokens.size() - prompt.tokens.size());
  answer->ended = answer->tokens > 0 &&
                  std::find(end_tokens_.begin(), end_tokens_.end(), tokens.back()) != end_tokens_.end();
  answer->answer = text_after(prompt.tokens, tokens,
                              [&](const std::vector<int32_t>& all) { return decoded(engine, all); });
  return true;
}

std::string PromptSamples::decoded(const hws_engine* engine, const std::vector<int32_t>& tokens) const {
  if (!tokenizer_) return text_of(hws_text_decode, engine, tokens.data(), tokens.size());
  return text_of(hws_tokenizer_decode, tokenizer_.get(), tokens.data(), tokens.size(),
                 uint32_t{HWS_TEXT_SKIP_SPECIAL});
}

}  // namespace hawser::cli
