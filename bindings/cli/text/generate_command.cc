#include "bindings/cli/text/generate_command.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/argument_checks.h"
#include "bindings/cli/client.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/text/sampling.h"
#include "bindings/cli/text/text_stream.h"

namespace hawser::cli {
namespace {

struct GenerateOptions {
  std::string checkpoint, prompt, tokens;
  std::vector<std::string> sets;
  bool has_prompt = false;
  int64_t max_tokens = 200, threads = 0;
  int32_t stop_token = -1;
  Sampling sampling;
};

std::vector<int32_t> prompt_tokens(const hws_engine* engine, const std::string& text) {
  if (text.empty())
    refuse("--prompt is empty; give at least one character, such as a newline: --prompt $'\\n'");
  return encode(engine, text);
}

/// Prints the new tokens. The prompt is printed with the first one, so that an error prints no text.
struct Printer {
  const hws_engine* engine;
  bool text;
  std::string prompt;
  std::optional<TextStream> stream = {};  ///< set for a model with a tokenizer
  int64_t count = 0;
  CallbackError error = {};
};

std::string piece_of(Printer* printer, int32_t token) {
  if (!printer->text) return (printer->count > 0 ? "," : "") + std::to_string(token);
  if (printer->stream) return printer->stream->next(token);
  return text_of(hws_text_decode, printer->engine, static_cast<const int32_t*>(&token), size_t{1});
}

void print(Printer* printer, int32_t token) {
  if (printer->count == 0) output().write(printer->prompt);
  output().write(piece_of(printer, token));
  ++printer->count;
  output().flush();
}

int32_t print_token(void* user, int32_t token) {
  auto* printer = static_cast<Printer*>(user);
  return printer->error.hold([&] {
    print(printer, token);
    return output().lost() ? 1 : 0;  // the reader has closed the pipe, or a write failed
  });
}

int run_generate(const GenerateOptions& options) {
  if (!options.has_prompt && options.tokens.empty())
    refuse("generate needs a prompt: --prompt TEXT or --tokens 1,2,3");
  const std::vector<int32_t> ids =
      options.has_prompt ? std::vector<int32_t>() : parse_ids("--tokens", options.tokens);
  // Asks for space for the whole text, counting one token per byte of the prompt. If the text is longer than
  // the context, the model sees only its end.
  const auto prompt_size = static_cast<int64_t>(options.has_prompt ? options.prompt.size() : ids.size());
  const Config config =
      model_config(find_model(options.checkpoint), prompt_size + options.max_tokens, options.threads);
  apply_sets(config.get(), options.sets);
  const Engine engine = make_engine(config.get(), HWS_ENGINE_INFERENCE, {});
  if (options.has_prompt && !reads_text(engine.get()))
    refuse(
        options.checkpoint +
        " has neither a tokenizer nor a byte or character vocabulary, so it cannot read text; use --tokens");
  const std::vector<int32_t> prompt = options.has_prompt ? prompt_tokens(engine.get(), options.prompt) : ids;

  hws_generate_request request{};
  request.struct_size = sizeof request;
  request.stop_token = options.stop_token;
  request.prompt = prompt.data();
  request.prompt_length = static_cast<int64_t>(prompt.size());
  request.max_tokens = options.max_tokens;
  options.sampling.write_to(&request);

  Printer printer{engine.get(), options.has_prompt, options.prompt};
  Tokenizer tokenizer;
  std::vector<int32_t> end_tokens;
  if (options.has_prompt && has_tokenizer(engine.get())) {
    tokenizer = make<Tokenizer>(hws_engine_tokenizer, static_cast<const hws_engine*>(engine.get()));
    printer.stream.emplace(tokenizer.get(), prompt);
    if (options.stop_token < 0) end_tokens = end_tokens_of(tokenizer.get());
    request.stop_tokens = end_tokens.data();
    request.stop_count = static_cast<int64_t>(end_tokens.size());
  }
  const InterruptScope interrupt;
  const int32_t status = hws_engine_generate(engine.get(), &request, print_token, &printer, nullptr);
  if (printer.stream) output().write(printer.stream->rest());
  if (printer.count > 0) output().print("\n");
  printer.error.rethrow();
  if (status == HWS_CANCELLED && InterruptScope::interrupted()) return kExitInterrupted;
  check(status);
  return kExitOk;
}

}  // namespace

void add_generate_command(CLI::App* app, std::function<int()>* action) {
  auto o = std::make_shared<GenerateOptions>();
  CLI::App* sub = app->add_subcommand("generate", "Continue a text or a list of token ids");
  sub->add_option("checkpoint", o->checkpoint, "Run folder, checkpoint or Hugging Face folder")
      ->type_name("MODEL")
      ->required();
  CLI::Option* prompt = sub->add_option("--prompt", o->prompt, "Text to continue, for models that read text");
  CLI::Option* tokens =
      sub->add_option("--tokens", o->tokens, "Token ids to continue, such as 1,2,3; prints the new ids")
          ->type_name("IDS");
  prompt->type_name("TEXT")->excludes(tokens);
  sub->add_option("--max-tokens", o->max_tokens, "Most tokens to generate")
      ->check(whole_number(1))
      ->capture_default_str();
  add_sampling_options(sub, &o->sampling);
  sub->add_option("--stop-token", o->stop_token,
                  "Stop after this token id (default: the model's end tokens, for text)")
      ->check(whole_number(0));
  sub->add_option("--threads", o->threads, "CPU threads")->check(whole_number(1));
  add_average(sub, &o->sets);
  add_sets(sub, &o->sets);
  sub->callback([=] {
    o->has_prompt = prompt->count() > 0;
    *action = [o] { return run_generate(*o); };
  });
}

}  // namespace hawser::cli
