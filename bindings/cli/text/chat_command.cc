#include "bindings/cli/text/chat_command.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/argument_checks.h"
#include "bindings/cli/client.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/text/sampling.h"
#include "bindings/cli/text/text_stream.h"
#include "bindings/cli/utf8.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

struct ChatOptions {
  std::string model, question, system;
  std::vector<std::string> sets;
  int64_t max_tokens = 512, context = 4096, threads = 0;
  Sampling sampling{.temperature = 0.7, .top_p = 0.95};
};

/// Receives the tokens of an answer and prints them.
struct Answer {
  TextStream stream;
  std::string text;
  CallbackError error = {};

  void show(const std::string& piece) {
    text += piece;
    output().write(piece);
    output().flush();
  }
};

int32_t take_token(void* user, int32_t token) {
  auto* answer = static_cast<Answer*>(user);
  return answer->error.hold([&] {
    answer->show(answer->stream.next(token));
    return output().lost() ? 1 : 0;
  });
}

/// A conversation with a model.
class Chat {
 public:
  explicit Chat(const ChatOptions& options) : options_(options) {
    const Config config = model_config(find_model(options.model), options.context, options.threads);
    apply_sets(config.get(), options.sets);
    engine_ = make_engine(config.get(), HWS_ENGINE_INFERENCE, {});
    tokenizer_ = make<Tokenizer>(hws_engine_tokenizer, static_cast<const hws_engine*>(engine_.get()));
    const auto info = parse_json(text_of(hws_tokenizer_info, tokenizer_.get()));
    if (!info.at("chat_template").get<bool>())
      refuse(options.model +
             " has no chat template, so it was not made to be talked to; `hawser generate` continues a text");
    end_tokens_ = end_tokens_of(tokenizer_.get());
    hws_sizes sizes{};
    sizes.struct_size = sizeof sizes;
    check(hws_engine_sizes(engine_.get(), &sizes));
    window_ = sizes.sequence;
    reset();
  }

  void reset() {
    messages_ = ordered_json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  /// Prints the answer and adds it to the conversation. Returns false if a signal ended the answer. If the
  /// call fails, the question is removed again.
  bool ask(const std::string& question) {
    messages_.push_back({{"role", "user"}, {"content", with_marks(question, "\xEF\xBF\xBD")}});
    try {
      return answer(prompt_tokens());
    } catch (const Failure&) {
      messages_.erase(messages_.size() - 1);
      throw;
    }
  }

 private:
  bool answer(const std::vector<int32_t>& prompt) {
    Answer answer{TextStream(tokenizer_.get(), prompt), ""};
    const InterruptScope interrupt;
    const int32_t status = generate(prompt, &answer);
    answer.error.rethrow();
    if (status != HWS_CANCELLED || !InterruptScope::interrupted()) check(status);
    answer.show(answer.stream.rest());
    output().print("\n");
    messages_.push_back({{"role", "assistant"}, {"content", answer.text}});
    return status == HWS_OK;
  }

  std::vector<int32_t> prompt_tokens() {
    std::vector<int32_t> tokens = encode(tokenizer_.get(), chat_prompt(tokenizer_.get(), messages_));
    if (static_cast<int64_t>(tokens.size()) >= window_)
      refuse("the conversation has " + std::to_string(tokens.size()) + " tokens, and " +
             std::to_string(window_) +
             " fit with an answer: begin a new one (/reset), or give --context up to the model's");
    return tokens;
  }

  int32_t generate(const std::vector<int32_t>& prompt, Answer* answer) {
    hws_generate_request request{};
    request.struct_size = sizeof request;
    request.stop_token = -1;
    request.prompt = prompt.data();
    request.prompt_length = static_cast<int64_t>(prompt.size());
    request.max_tokens = std::min(options_.max_tokens, window_ - request.prompt_length);
    options_.sampling.write_to(&request);
    request.seed += messages_.size();
    request.stop_tokens = end_tokens_.data();
    request.stop_count = static_cast<int64_t>(end_tokens_.size());
    return hws_engine_generate(engine_.get(), &request, take_token, answer, nullptr);
  }

  const ChatOptions& options_;
  Engine engine_;
  Tokenizer tokenizer_;
  std::vector<int32_t> end_tokens_;
  int64_t window_ = 0;
  ordered_json messages_;
};

constexpr const char* kCommands = "/reset begins anew, /exit ends";

/// True for a word after a slash, which is meant for this program and not for the model.
bool is_command(const std::string& line) {
  return line.size() > 1 && line.front() == '/' &&
         std::all_of(line.begin() + 1, line.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
}

/// Asks a question. An error does not end the conversation.
void ask(Chat* chat, const std::string& question) {
  try {
    chat->ask(question);
  } catch (const Failure& failure) {
    output().flush();
    std::fprintf(stderr, "hawser: error: %s\n", failure.what());
  }
}

/// Answers questions until /exit, the end of the input, or lost output.
int talk(Chat* chat) {
  output().print("Ask something. %s, Ctrl-C ends an answer.\n", kCommands);
  for (std::string line;;) {
    output().print("> ");
    output().flush();
    if (output().lost()) return kExitOk;
    if (!std::getline(std::cin, line)) {
      output().print("\n");  // the shell's prompt begins on a new line
      return kExitOk;
    }
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    if (line == "/exit") return kExitOk;
    if (line == "/reset")
      chat->reset();
    else if (is_command(line))
      output().print("there is no command %s; %s\n", line.c_str(), kCommands);
    else if (!line.empty())
      ask(chat, line);
  }
}

int run_chat(const ChatOptions& options) {
  Chat chat(options);
  if (options.question.empty() && ::isatty(STDIN_FILENO) != 0) return talk(&chat);
  std::string question = options.question;
  if (question.empty()) question.assign(std::istreambuf_iterator<char>(std::cin), {});
  while (!question.empty() && question.back() == '\n') question.pop_back();
  if (question.empty()) refuse("there is no question: give one as an argument, or on standard input");
  return chat.ask(question) ? kExitOk : kExitInterrupted;
}

}  // namespace

void add_chat_command(CLI::App* app, std::function<int()>* action) {
  auto o = std::make_shared<ChatOptions>();
  CLI::App* sub = app->add_subcommand("chat", "Talk to a model by its own chat template");
  sub->add_option("model", o->model, "Run folder, checkpoint or Hugging Face folder")
      ->type_name("MODEL")
      ->required();
  sub->add_option("question", o->question, "One question (default: a conversation, or standard input)")
      ->type_name("TEXT");
  sub->add_option("--system", o->system, "System message")->type_name("TEXT");
  sub->add_option("--max-tokens", o->max_tokens, "Most tokens of an answer")
      ->check(whole_number(1))
      ->capture_default_str();
  sub->add_option("--context", o->context,
                  "Most tokens of the conversation, or the model's context if that is less")
      ->check(whole_number(1))
      ->capture_default_str();
  add_sampling_options(sub, &o->sampling);
  sub->add_option("--threads", o->threads, "CPU threads")->check(whole_number(1));
  add_average(sub, &o->sets);
  add_sets(sub, &o->sets);
  sub->callback([=] { *action = [o] { return run_chat(*o); }; });
}

}  // namespace hawser::cli
