#include "bindings/cli/eval/eval_command.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "bindings/cli/argument_checks.h"
#include "bindings/cli/client.h"
#include "bindings/cli/eval/score.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/text/prepare.h"
#include "bindings/cli/text/text_stream.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

struct EvalOptions {
  std::string checkpoint, data, choices, chat_template, unprinted;
  std::vector<std::string> sets;
  int64_t threads = 0, sequence = 0, max_batches = 0;
  bool json = false;
  bool chat = false;  ///< queries are questions of a chat
};

constexpr int64_t kDefaultSequence = 1024;  // for models that do not record how they were trained

/// Makes the whole file of /data/path validation data.
void validate_on_everything(hws_config* config) {
  const auto tree = parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
  const ordered_json sources = {{{"path", tree["data"]["path"]}}};
  check(hws_config_set(config, "/data/validation_sources", sources.dump().c_str()));
}

/// Returns the token to put before a text: bos_token, otherwise eos_token; -1 if the model has neither.
int32_t prefix_token(const hws_engine* engine) {
  hws_tokenizer* raw = nullptr;
  if (hws_engine_tokenizer(engine, &raw) != HWS_OK) return -1;  // a model of bytes or characters
  const Tokenizer tokenizer(raw);
  const auto names = parse_json(text_of(hws_tokenizer_info, tokenizer.get())).at("special_tokens");
  for (const char* name : {"bos_token", "eos_token"}) {
    if (!names.contains(name)) continue;
    const auto ids = encode(tokenizer.get(), names[name].get<std::string>());
    if (ids.size() == 1) return ids[0];
  }
  return -1;
}

/// A temporary folder of this command. The destructor removes it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = std::filesystem::temp_directory_path() / "hawser-eval-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr)
      fail_file("cannot make a folder for prepared rows, " + path_, errno);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Opened {
  ModelPath model;
  Config config;
  std::unique_ptr<TemporaryFolder> rows;  ///< prepared rows, which the engine reads
  Engine engine;
  int64_t sequence = 0;                 ///< at most the model's context
  bool pairs = false;                   ///< the rows are pairs, which the objective measures
  std::vector<std::string> notes = {};  ///< warnings from preparing the rows
};

/// Takes the objective with which the checkpoint was trained, unless --set names one.
void take_objective(const EvalOptions& options, const Opened& o) {
  const bool given = std::any_of(options.sets.begin(), options.sets.end(), [](const std::string& set) {
    return set.starts_with("/objective=") || set.starts_with("/objective/kind=");
  });
  if (given || o.model.kind != ModelKind::kCheckpoint) return;
  const auto held = parse_json(text_of(hws_checkpoint_inspect, o.model.path.c_str()));
  if (held.at("config").contains("objective"))
    check(hws_config_set(o.config.get(), "/objective", held["config"]["objective"].dump().c_str()));
}

/// Makes all of --data validation data. Rows of text are prepared first, as for training.
void give_data(const EvalOptions& options, Opened* o) {
  std::string data = options.data;
  if (names_rows(data)) {
    o->rows = std::make_unique<TemporaryFolder>();
    PrepareOptions asked;
    asked.model = o->model.path, asked.data = {data}, asked.out = data = o->rows->path("rows");
    asked.sequence = o->sequence, asked.threads = options.threads,
    asked.chat_template = options.chat_template, asked.unprinted = options.unprinted;
    const ordered_json report = parse_json(prepare_rows(asked));
    o->pairs = report.at("pairs").get<bool>();
    o->notes = notes_of(report);
    if (o->pairs) check(hws_config_set(o->config.get(), "/batch/micro_batch", "2"));
    if (o->pairs) take_objective(options, *o);
  } else if (!options.chat_template.empty() || !options.unprinted.empty()) {
    refuse(std::string(options.unprinted.empty() ? "--template" : "--unprinted") +
           ": nothing is prepared here, which takes --data with rows (.jsonl, .ndjson, .json or .parquet)");
  }
  apply_data(&o->config, data);
  validate_on_everything(o->config.get());
}

Opened open_for_eval(const EvalOptions& options) {
  Opened o{find_model(options.checkpoint), nullptr, nullptr, nullptr, options.sequence};
  if (o.sequence > 0 && o.sequence > model_context(o.model)) {
    refuse("--sequence " + std::to_string(o.sequence) + ": the model's context is " +
           std::to_string(model_context(o.model)) + " tokens; give at most that");
  }
  if (o.sequence == 0) o.sequence = trained_sequence(o.model);
  if (o.sequence == 0) o.sequence = std::min(kDefaultSequence, model_context(o.model));
  o.config = model_config(o.model, o.sequence, options.threads);
  if (!options.data.empty()) give_data(options, &o);
  apply_sets(o.config.get(), options.sets);
  o.engine = make_engine(o.config.get(), HWS_ENGINE_INFERENCE, {}, options.json);
  o.sequence = parse_json(text_of(hws_engine_info, o.engine.get())).at("sequence").get<int64_t>();
  return o;
}

/// The results of measuring --data.
struct Measured {
  double loss = 0;                           ///< nats per token
  int64_t tokens = 0, bytes = 0, words = 0;  ///< bytes and words of a text, otherwise 0
  ordered_json sets;                         ///< the loss of each set, if there are several
  ordered_json preferences;                  ///< rewards of pairs, their margin and accuracy
};

/// Counts words as lm-evaluation-harness does: one more than there are runs of blanks.
int64_t words_in(const std::string& text) {
  int64_t words = 1;
  bool blank = false;
  for (const char c : text) {
    const bool now = c == ' ' || (c >= '\t' && c <= '\r');
    words += now && !blank ? 1 : 0;
    blank = now;
  }
  return words;
}

Measured measure_text(const Opened& o, const std::string& path, int64_t most_windows) {
  const std::string text = read_file(path);
  const Scorer scorer(o.engine.get(), o.sequence, prefix_token(o.engine.get()));
  const Scorer::Rolled rolled = scorer.rolling(encode(o.engine.get(), text), most_windows);
  if (rolled.tokens == 0) throw Failure(HWS_DATA_INVALID, path + " has no token to predict");
  const bool whole = most_windows == 0;
  return {-rolled.logprob / static_cast<double>(rolled.tokens),
          rolled.tokens,
          whole ? static_cast<int64_t>(text.size()) : 0,
          whole ? words_in(text) : 0,
          {},
          {}};
}

/// Measures one text in windows of tokens, and all other data in the rows of the config.
Measured measure(const Opened& o, const EvalOptions& options) {
  const auto data = resolved_tree(o.config.get()).at("data");
  const ordered_json& sources = data.at("validation_sources");
  if (data.at("format") == "text" && sources.size() == 1)
    return measure_text(o, sources[0].at("path").get<std::string>(), options.max_batches);
  Measured m;
  check(hws_engine_eval(o.engine.get(), nullptr, options.max_batches, &m.loss, &m.tokens));
  const auto metrics = parse_json(text_of(hws_engine_metrics, o.engine.get()));
  m.sets = metrics.at("validation_losses");
  if (o.pairs) m.preferences = metrics.at("validation_preferences");
  return m;
}

/// Prints the results on pairs. Their loss is the objective's, not a loss per token.
int print_pairs(const Opened& o, const EvalOptions& options, const Measured& m) {
  const auto objective = resolved_tree(o.config.get()).at("objective").at("kind").get<std::string>();
  if (options.json) {
    ordered_json result = {{"checkpoint", o.model.path}, {"data", options.data},
                           {"objective", objective},     {"loss", m.loss},
                           {"tokens", m.tokens},         {"sequence", o.sequence}};
    result.update(m.preferences);
    if (!o.notes.empty()) result["notes"] = o.notes;
    output().line(result.dump());
    return kExitOk;
  }
  const auto percent = 100 * m.preferences.at("accuracy").get<double>();
  const ordered_json& margin = m.preferences.at("margin");
  output().print(
      "%s on %s\n%s loss %.6f, reward accuracy %.2f %%, reward margin %s\n", o.model.path.c_str(),
      options.data.c_str(), objective.c_str(), m.loss, percent,
      margin.is_number() ? format_text("%.6g", margin.get<double>()).c_str() : margin.dump().c_str());
  return kExitOk;
}

int print(const Opened& o, const EvalOptions& options, const Measured& m) {
  if (o.pairs) return print_pairs(o, options, m);
  const double total = m.loss * static_cast<double>(m.tokens);
  if (options.json) {
    ordered_json result = {
        {"checkpoint", o.model.path},     {"data", options.data}, {"loss", m.loss},
        {"perplexity", std::exp(m.loss)}, {"tokens", m.tokens},   {"sequence", o.sequence}};
    if (!m.sets.empty()) result["losses"] = m.sets;
    if (m.bytes > 0) {
      result["bits_per_byte"] = total / static_cast<double>(m.bytes) / std::log(2.0);
      result["byte_perplexity"] = std::exp(total / static_cast<double>(m.bytes));
      result["word_perplexity"] = std::exp(total / static_cast<double>(m.words));
    }
    if (!o.notes.empty()) result["notes"] = o.notes;
    output().line(result.dump());
    return kExitOk;
  }
  output().print(
      "%s on %s\nloss %.6f nats per token (%.4f bits, perplexity %s) over %lld tokens in rows of %lld\n",
      o.model.path.c_str(), options.data.c_str(), m.loss, m.loss / std::log(2.0),
      perplexity_text(std::exp(m.loss)).c_str(), static_cast<long long>(m.tokens),
      static_cast<long long>(o.sequence));
  for (const auto& [name, loss] : m.sets.items())
    output().print("%s: loss %s\n", name.c_str(),
                   loss.is_number() ? format_text("%.6f", loss.get<double>()).c_str() : loss.dump().c_str());
  if (m.bytes > 0)
    output().print("%.4f bits per byte, word perplexity %s\n",
                   total / static_cast<double>(m.bytes) / std::log(2.0),
                   perplexity_text(std::exp(total / static_cast<double>(m.words))).c_str());
  return kExitOk;
}

/// Returns the log-probability of each choice after the query. Encodes both as lm-evaluation-harness does:
/// blanks at the end of the query belong to the choice.
std::vector<double> answer(const Opened& o, const Scorer& scorer, int32_t prefix, const Question& question) {
  std::vector<double> sums;
  const size_t end = question.query.find_last_not_of(" \t\n\r\f\v");
  const std::string query = end == std::string::npos ? "" : question.query.substr(0, end + 1);
  std::vector<int32_t> context = encode(o.engine.get(), query);
  for (const std::string& choice : question.choices) {
    std::vector<int32_t> tokens = encode(o.engine.get(), question.query + " " + choice);
    size_t known = context.size();
    if (query.empty()) {
      if (prefix >= 0 && (tokens.empty() || tokens[0] != prefix)) tokens.insert(tokens.begin(), prefix);
      known = 1;
    }
    sums.push_back(tokens.size() > known ? scorer.continuation(tokens, known) : 0.0);
  }
  return sums;
}

/// Like answer, but the query is a user's message in the model's chat template, and each choice is an
/// answer, which begins where the template puts it.
std::vector<double> chat_answer(const hws_tokenizer* tokenizer, const Scorer& scorer,
                                const Question& question) {
  const std::string prompt =
      chat_prompt(tokenizer, ordered_json::array({{{"role", "user"}, {"content", question.query}}}));
  const size_t known = encode(tokenizer, prompt).size();
  std::vector<double> sums;
  for (const std::string& choice : question.choices) {
    const std::vector<int32_t> tokens = encode(tokenizer, prompt + choice);
    sums.push_back(tokens.size() > known ? scorer.continuation(tokens, known) : 0.0);
  }
  return sums;
}

/// Returns the model's tokenizer, which must have a chat template.
Tokenizer chat_tokenizer(const Opened& o) {
  Tokenizer tokenizer = make<Tokenizer>(hws_engine_tokenizer, static_cast<const hws_engine*>(o.engine.get()));
  if (!parse_json(text_of(hws_tokenizer_info, static_cast<const hws_tokenizer*>(tokenizer.get())))
           .at("chat_template")
           .get<bool>())
    refuse("--chat: " + o.model.path + " has no chat template; leave --chat out");
  return tokenizer;
}

size_t greatest(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

int run_choices(const Opened& o, const EvalOptions& options) {
  const std::vector<Question> questions = read_questions(options.choices);
  const int32_t prefix = prefix_token(o.engine.get());
  const Scorer scorer(o.engine.get(), o.sequence, prefix);
  const Tokenizer chat = options.chat ? chat_tokenizer(o) : nullptr;
  ordered_json rows = ordered_json::array();
  size_t right = 0, right_by_length = 0;
  for (const Question& question : questions) {
    const std::vector<double> sums =
        chat ? chat_answer(chat.get(), scorer, question) : answer(o, scorer, prefix, question);
    std::vector<double> by_length = sums;
    for (size_t i = 0; i < sums.size(); ++i)
      by_length[i] /= static_cast<double>(characters(question.choices[i]));
    right += greatest(sums) == question.gold ? 1 : 0;
    right_by_length += greatest(by_length) == question.gold ? 1 : 0;
    if (options.json)
      rows.push_back({{"loglikelihoods", sums},
                      {"acc", greatest(sums) == question.gold ? 1 : 0},
                      {"acc_norm", greatest(by_length) == question.gold ? 1 : 0}});
  }
  const auto count = static_cast<double>(questions.size());
  const double acc = static_cast<double>(right) / count,
               acc_norm = static_cast<double>(right_by_length) / count;
  if (options.json) {
    output().line(ordered_json({{"checkpoint", o.model.path},
                                {"choices", options.choices},
                                {"questions", questions.size()},
                                {"acc", acc},
                                {"acc_norm", acc_norm},
                                {"rows", rows}})
                      .dump());
  } else {
    output().print("%s on %s\n%.2f %% right (acc), %.2f %% by characters (acc_norm), of %zu questions\n",
                   o.model.path.c_str(), options.choices.c_str(), 100 * acc, 100 * acc_norm,
                   questions.size());
  }
  return kExitOk;
}

int run_eval(const EvalOptions& options) {
  if (options.data.empty() == options.choices.empty())
    refuse("eval measures one file: give either --data or --choices");
  if (options.chat && options.choices.empty())
    refuse("--chat is for --choices; rows of text have --template");
  const Opened opened = open_for_eval(options);
  const InterruptScope interrupt;
  if (!options.choices.empty()) return run_choices(opened, options);
  if (!options.json)
    for (const std::string& note : opened.notes) output().print("note: %s\n", note.c_str());
  return print(opened, options, measure(opened, options));
}

}  // namespace

void add_eval_command(CLI::App* app, std::function<int()>* action) {
  auto o = std::make_shared<EvalOptions>();
  CLI::App* sub =
      app->add_subcommand("eval", "Measure a model's loss on a file, or its answers to questions");
  sub->add_option("checkpoint", o->checkpoint, "Run folder, checkpoint or Hugging Face folder")
      ->type_name("MODEL")
      ->required();
  sub->add_option("--data", o->data, "Text, rows of text (chats, answers, pairs) or tokens")
      ->type_name("FILE");
  sub->add_option("--template", o->chat_template, "With rows of text: chat template, as of prepare")
      ->type_name("FILE|NAME");
  sub->add_option("--unprinted", o->unprinted,
                  "With rows of text: refuse fields that the chat template does not print, or drop them")
      ->check(CLI::IsMember({"refuse", "drop"}));
  sub->add_option("--choices", o->choices,
                  "Multiple choice, a JSON object a line: query, choices, gold; or as hellaswag, ARC, PIQA. "
                  "A space is put "
                  "between query and choice, as lm-evaluation-harness does")
      ->type_name("FILE");
  sub->add_flag("--chat", o->chat,
                "With --choices: ask in the model's chat template, where choices are answers");
  sub->add_option("--sequence", o->sequence,
                  "Tokens per row (default: as in training, or 1024; at most the context)")
      ->check(whole_number(1));
  sub->add_option("--max-batches", o->max_batches, "Stop after this many batches (default: the whole file)")
      ->check(whole_number(0));
  sub->add_option("--threads", o->threads, "CPU threads")->check(whole_number(1));
  add_average(sub, &o->sets);
  add_sets(sub, &o->sets);
  sub->add_flag("--json", o->json, "Print JSON");
  sub->callback([=] { *action = [o] { return run_eval(*o); }; });
}

}  // namespace hawser::cli
