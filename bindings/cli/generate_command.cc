// `hawser generate`: continues a text or token ids, printing each token as it comes.
#include <cstdlib>
#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/ranks.h"

namespace hawser::cli {
namespace {

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  const char* at = text.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long value = std::strtol(at, &end, 10);
    while (*end == ' ') ++end;
    if (end == at || value < 0 || value > INT32_MAX || (*end != ',' && *end != '\0')) {
      refuse("--tokens \"" + text + "\": expected token ids such as 1,2,3; stopped at \"" + at + "\"");
    }
    ids.push_back(static_cast<int32_t>(value));
    at = *end == ',' ? end + 1 : end;
  }
  if (ids.empty()) refuse("--tokens is empty; give at least one token id");
  return ids;
}

std::vector<int32_t> encode(const hws_engine* engine, const std::string& text) {
  if (text.empty())
    refuse("--prompt is empty; give at least one character, such as a newline: --prompt $'\\n'");
  const Buffer buffer = make<Buffer>(hws_text_encode, engine, text.data(), text.size());
  const auto* ids = static_cast<const int32_t*>(hws_buffer_data(buffer.get()));
  return std::vector<int32_t>(ids, ids + hws_buffer_size(buffer.get()) / sizeof(int32_t));
}

/// Prints the new tokens. The prompt is printed with the first one, so that an error prints no text.
struct Printer {
  const hws_engine* engine;
  bool text;
  std::string prompt;
  int64_t count = 0;
  CallbackError error = {};
};

void print(Printer* printer, int32_t token) {
  if (printer->count == 0) output().write(printer->prompt);
  if (printer->text) {
    const Buffer piece =
        make<Buffer>(hws_text_decode, printer->engine, static_cast<const int32_t*>(&token), size_t{1});
    output().write({static_cast<const char*>(hws_buffer_data(piece.get())), hws_buffer_size(piece.get())});
  } else {
    output().print("%s%d", printer->count > 0 ? "," : "", token);
  }
  ++printer->count;
  output().flush();
}

int32_t print_token(void* user, int32_t token) {
  auto* printer = static_cast<Printer*>(user);
  return printer->error.hold([&] {
    print(printer, token);
    return output().lost() ? 1 : 0;  // the reader is gone
  });
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  if (!options.has_prompt && options.tokens.empty())
    refuse("generate needs a prompt: --prompt TEXT or --tokens 1,2,3");
  const std::vector<int32_t> ids = options.has_prompt ? std::vector<int32_t>() : parse_ids(options.tokens);
  // Space for the whole text. A text longer than the context slides (a token is at least one byte of the
  // prompt).
  const auto prompt_size = static_cast<int64_t>(options.has_prompt ? options.prompt.size() : ids.size());
  const Config config =
      model_config(find_model(options.checkpoint), prompt_size + options.max_tokens, options.threads);
  apply_sets(config.get(), options.sets);
  const Engine engine = make_engine(config.get(), HWS_ENGINE_INFERENCE, {});
  if (options.has_prompt && !has_text_vocabulary(engine.get())) {
    refuse(options.checkpoint + " has no byte or character vocabulary, so it cannot read text; use --tokens");
  }
  const std::vector<int32_t> prompt = options.has_prompt ? encode(engine.get(), options.prompt) : ids;

  hws_generate_request request{};
  request.struct_size = sizeof request;
  request.stop_token = options.stop_token;
  request.prompt = prompt.data();
  request.prompt_length = static_cast<int64_t>(prompt.size());
  request.max_tokens = options.max_tokens;
  request.temperature = options.temperature;
  request.top_k = options.top_k;
  request.top_p = options.top_p;
  request.seed = options.seed;

  Printer printer{engine.get(), options.has_prompt, options.prompt};
  const InterruptScope interrupt;
  const int32_t status = hws_engine_generate(engine.get(), &request, print_token, &printer, nullptr);
  if (printer.count > 0) output().print("\n");
  printer.error.rethrow();
  if (status == HWS_CANCELLED && InterruptScope::interrupted()) return kExitInterrupted;
  check(status);
  return kExitOk;
}

}  // namespace hawser::cli
