// Draws text samples.
#include "bindings/cli/train/sample.h"

#include "bindings/cli/client.h"
#include "bindings/cli/text/text_stream.h"

namespace hawser::cli {
namespace {

constexpr int64_t kSampleTokens = 200;
constexpr double kSampleTemperature = 0.8;

/// Returns a line break if the vocabulary has one, otherwise its first token.
std::vector<int32_t> sample_prompt(const hws_engine* engine) {
  hws_buffer* raw = nullptr;
  if (hws_text_encode(engine, "\n", 1, &raw) != HWS_OK) return {0};
  const std::vector<int32_t> tokens = tokens_in(Buffer(raw));
  return tokens.empty() ? std::vector<int32_t>{0} : tokens;
}

struct Collector {
  std::vector<int32_t>* tokens;
  CallbackError error;
};

int32_t collect_token(void* user, int32_t token) {
  auto* collector = static_cast<Collector*>(user);
  return collector->error.hold([&] {
    collector->tokens->push_back(token);
    return 0;
  });
}

}  // namespace

bool can_draw_samples(const hws_engine* engine) {
  hws_buffer* raw = nullptr;
  const int32_t status = hws_text_encode(engine, "", 0, &raw);
  const Buffer buffer(raw);
  return status == HWS_OK;
}

int32_t generate_tokens(hws_engine* engine, const hws_generate_request& request,
                        std::vector<int32_t>* tokens) {
  Collector collector{tokens, {}};
  const int32_t status = hws_engine_generate(engine, &request, collect_token, &collector, nullptr);
  collector.error.rethrow();
  // Ctrl-C ended the sample, but the user meant the run.
  if (status == HWS_CANCELLED) hws_engine_cancel(engine);
  return status;
}

int32_t draw_sample(hws_engine* engine, int64_t step, std::string* text) {
  std::vector<int32_t> tokens = sample_prompt(engine);
  const std::vector<int32_t> prompt = tokens;
  hws_generate_request request{};
  request.struct_size = sizeof request;
  request.stop_token = -1;
  request.prompt = prompt.data();
  request.prompt_length = static_cast<int64_t>(prompt.size());
  request.max_tokens = kSampleTokens;
  request.temperature = kSampleTemperature;
  request.top_p = 1.0;
  request.seed = static_cast<uint64_t>(step);
  const int32_t status = generate_tokens(engine, request, &tokens);
  if (status == HWS_OK)
    *text = text_after(prompt, tokens, [&](const std::vector<int32_t>& all) {
      return text_of(hws_text_decode, static_cast<const hws_engine*>(engine), all.data(), all.size());
    });
  return status;
}

}  // namespace hawser::cli
