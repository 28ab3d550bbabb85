// `hawser`: trains and inspects language models from a terminal. This file is only the command line: it reads
// the arguments, calls one function of commands.h and turns failures into a message and an exit code (0 done,
// 1 failed while running, 2 wrong input, 130 interrupted, 141 the reader closed the output).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <sstream>
#include <string>

#include "bindings/cli/argument_checks.h"
#include "bindings/cli/average_command.h"
#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/completion/completion_command.h"
#include "bindings/cli/eval/eval_command.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/merge_command.h"
#include "bindings/cli/output.h"
#include "bindings/cli/rank_arguments.h"
#include "bindings/cli/report/compare_command.h"
#include "bindings/cli/suggestions.h"
#include "bindings/cli/text/chat_command.h"
#include "bindings/cli/text/generate_command.h"
#include "bindings/cli/text/prepare_arguments.h"
#include "bindings/cli/text/tokenizer_command.h"
#include "bindings/cli/version.h"

namespace {

using hawser::cli::add_sets, hawser::cli::ConfigOptions;
using hawser::cli::option_hint, hawser::cli::output;
using hawser::cli::whole_number;

/// A prompt may be any bytes or empty. --set checks its own argument.
const hawser::cli::WordsThatMayBe kWordsThatMayBe = {{"--prompt", "--set"}, {"--prompt"}};

/// The function that runs the chosen subcommand. Parsing the arguments sets it.
using Action = std::function<int()>;

std::shared_ptr<hawser::cli::TrainOptions> add_train(CLI::App* app, Action* action) {
  auto o = std::make_shared<hawser::cli::TrainOptions>();
  CLI::App* sub = app->add_subcommand("train", "Train a model; --out DIR keeps the run");
  sub->add_option("config", o->config.config, "Config file, preset name, or model folder to fine-tune")
      ->type_name("CONFIG");
  add_sets(sub, &o->config.sets);
  sub->add_option("--data", o->config.data, "File to train on: text, tokens, rows of text, or prepared rows")
      ->type_name("FILE");
  hawser::cli::add_adapter(sub, &o->config.lora, &o->config.qlora, &o->config.dora);
  hawser::cli::add_objective(sub, &o->config.objective);
  hawser::cli::add_teacher(sub, &o->config.teacher);
  sub->add_option("--template", o->chat_template, "With rows of text: chat template, as of prepare")
      ->type_name("FILE|NAME");
  sub->add_option("--long", o->longer, "With rows of text: cut longer rows, or drop them (default: cut)")
      ->check(CLI::IsMember({"cut", "drop"}));
  sub->add_option("--unprinted", o->unprinted,
                  "With rows of text: refuse fields that the chat template does not print, or drop them")
      ->check(CLI::IsMember({"refuse", "drop"}));
  sub->add_flag_callback(
      "--no-packing", [o] { o->packing = false; }, "With rows of text: give each document a row of its own");
  CLI::Option* out =
      sub->add_option("--out", o->out, "New folder for config, metrics, report and checkpoints")
          ->type_name("DIR");
  sub->add_option("--resume", o->resume, "Continue the run in this folder from its newest intact checkpoint")
      ->type_name("DIR")
      ->excludes(out);
  sub->add_flag("--other-data", o->other_data,
                "With --resume: continue even if the data differ from those of the run");
  sub->add_option("--threads", o->config.threads, "CPU threads (default: as the config says)")
      ->check(whole_number(1));
  sub->add_flag(
      "--profile", o->profile,
      "Print the time per kernel at the end; with --out, also write trace.json for ui.perfetto.dev");
  sub->add_flag(
      "--elastic", o->elastic,
      "Start or continue the run in --out on the ranks that are there, and again when ranks are lost");
  hawser::cli::add_ranks(sub, &o->ranks);
  sub->callback([=] { *action = [o] { return hawser::cli::run_train(*o); }; });
  return o;
}

/// Prints the parser's own output: --help, --version.
int answer(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream text, none;
  const int code = app.exit(asked, text, none);
  output().line(text.str());
  return code;
}

/// Parses the arguments after launch as each process will, so that the launcher reports a mistake once.
int launch(hawser::cli::LaunchOptions options) {
  if (options.words.empty() || options.words[0] != "train") {
    hawser::cli::refuse("launch needs a command after its options, such as: hawser launch -n 4 train CONFIG");
  }
  CLI::App app("", "hawser launch");
  Action unused;
  app.require_subcommand(1);
  const auto train = add_train(&app, &unused);
  hawser::cli::check_words(&app, kWordsThatMayBe);
  try {
    app.parse(std::vector<std::string>(options.words.rbegin(), options.words.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return answer(app, error);
    hawser::cli::refuse(std::string("launch train: ") + error.what() +
                        option_hint(app.remaining(true), options.words));
  }
  if (options.trust_network && !train->ranks.trust_network) {
    train->ranks.trust_network = true;
    options.words.push_back("--trust-network");
  }
  return hawser::cli::run_launch(options, *train);
}

void add_launch(CLI::App* app, Action* action) {
  auto o = std::make_shared<hawser::cli::LaunchOptions>();
  CLI::App* sub = app->add_subcommand("launch", "Run `train` on this machine with one process per rank");
  sub->add_option("-n,--processes", o->processes, "Number of ranks; must match the config's mesh")
      ->check(CLI::Range(1, 4096))
      ->required();
  sub->add_option("--address", o->address, "Where the ranks meet (default: a free port of 127.0.0.1)")
      ->type_name("HOST:PORT");
  sub->add_flag("--elastic", o->elastic,
                "Keep training when processes die or hang: replace them, or continue without them");
  sub->add_option(
         "--at-least", o->at_least,
         "With --elastic: continue without lost processes while at least this many remain (default: always "
         "replace them)")
      ->check(whole_number(1));
  sub->add_flag("--trust-network", o->trust_network,
                "Run without a secret if the identity module is not installed");
  sub->prefix_command();
  sub->footer("hawser launch -n 4 train CONFIG --set /mesh/dp_shard=4 --out DIR");
  sub->callback([=] {
    o->words = sub->remaining();
    *action = [o] { return launch(*o); };
  });
}

void add_explain(CLI::App* app, Action* action) {
  CLI::App* explain =
      app->add_subcommand("explain", "Show a config field: its meaning, its value and where that comes from");
  auto explain_options = std::make_shared<ConfigOptions>();
  auto pointer = std::make_shared<std::string>();
  auto explain_json = std::make_shared<bool>(false);
  explain
      ->add_option("config", explain_options->config,
                   "Config file, preset name or model folder (default: the defaults alone)")
      ->type_name("CONFIG|/POINTER");
  explain
      ->add_option("pointer", *pointer,
                   "Field or section, such as /model/width; may stand alone (default: every field)")
      ->type_name("/POINTER");
  add_sets(explain, &explain_options->sets);
  explain->add_flag("--json", *explain_json, "Print JSON");
  auto explain_comm = std::make_shared<std::string>();
  explain->add_option("--comm", *explain_comm, "Show what --comm env would use: launcher, rank, variables")
      ->check(CLI::IsMember({"env"}))
      ->type_name("env");
  explain->callback([=] {
    *action = [=] {
      if (!explain_comm->empty()) return hawser::cli::run_explain_environment(*explain_json);
      hawser::cli::order_explain_words(&explain_options->config, pointer.get());
      return hawser::cli::run_explain(*explain_options, *pointer, *explain_json);
    };
  });
}

void add_config_commands(CLI::App* app, Action* action) {
  CLI::App* init = app->add_subcommand("init", "Write a preset as a config file to edit");
  auto preset = std::make_shared<std::string>(), file = std::make_shared<std::string>();
  init->add_option("preset", *preset, "Preset name; `hawser presets` lists them")
      ->type_name("PRESET")
      ->required();
  init->add_option("-o,--output", *file, "New file to write (default: stdout)")->type_name("FILE");
  init->callback([=] { *action = [=] { return hawser::cli::run_init(*preset, *file); }; });

  app->add_subcommand("presets", "List the built-in configs")->callback([=] {
    *action = hawser::cli::run_presets;
  });
  app->add_subcommand("schema", "Print the config's JSON Schema, for editors")->callback([=] {
    *action = hawser::cli::run_schema;
  });

  CLI::App* plan = app->add_subcommand(
      "plan", "Print what a training step does and the memory it needs, without allocating it");
  auto plan_options = std::make_shared<ConfigOptions>();
  auto plan_json = std::make_shared<bool>(false);
  CLI::Option* plan_config =
      plan->add_option("config", plan_options->config, "Config file, preset name or model folder")
          ->type_name("CONFIG")
          ->required();
  add_sets(plan, &plan_options->sets);
  plan->add_flag("--json", *plan_json, "Print JSON");
  auto on = std::make_shared<hawser::cli::ClusterOptions>();
  hawser::cli::add_cluster(plan, &on->cluster, &on->tokens, &on->imbalance, &on->trace);
  hawser::cli::add_search(plan, &on->search, &on->ranks, &on->top);
  hawser::cli::add_published(plan, plan_config, &on->published, &on->tables);
  plan->callback([=] {
    *action = [=] {
      return on->published ? hawser::cli::run_published(on->tables, *plan_json)
                           : hawser::cli::run_plan(*plan_options, *on, *plan_json);
    };
  });

  CLI::App* prove = app->add_subcommand(
      "prove", "Check on a shrunk model that the config's ranks compute exactly what one rank computes");
  auto prove_options = std::make_shared<ConfigOptions>();
  auto prove_steps = std::make_shared<int>(4);
  auto prove_json = std::make_shared<bool>(false);
  prove->add_option("config", prove_options->config, "Config file, preset name or model folder")
      ->type_name("CONFIG")
      ->required();
  add_sets(prove, &prove_options->sets);
  prove->add_option("--steps", *prove_steps, "Number of steps to train")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  prove->add_flag("--json", *prove_json, "Print JSON");
  prove->callback(
      [=] { *action = [=] { return hawser::cli::run_prove(*prove_options, *prove_steps, *prove_json); }; });
}

void add_convert(CLI::App* app, Action* action) {
  auto c = std::make_shared<hawser::cli::ConvertOptions>();
  CLI::App* convert = app->add_subcommand(
      "convert", "Convert a Hugging Face folder to a checkpoint, or back, or either to GGUF");
  convert->add_option("source", c->source, "Hugging Face folder, run folder or checkpoint")
      ->type_name("MODEL")
      ->required();
  convert->add_option("destination", c->destination, "New folder, or file for llama.cpp (.gguf)")
      ->type_name("DIR|FILE")
      ->required();
  convert->add_option("--dtype", c->dtype, "Weight type of an exported model (default: as imported, or f32)")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "q8_0"}));
  convert->add_flag("--adapter", c->adapter,
                    "Write the adapter alone, as a PEFT folder or GGUF file; otherwise it is merged");
  convert->add_flag("--average", c->average,
                    "Write the moving average of the weights (/optimizer/average) of a run or checkpoint");
  convert->add_option("--ignore-key", c->ignore_keys, "Accept this unknown key in config.json (repeatable)")
      ->type_name("KEY")
      ->allow_extra_args(false);
  convert->callback([=] { *action = [c] { return hawser::cli::run_convert(*c); }; });
}

void add_model_commands(CLI::App* app, Action* action) {
  CLI::App* inspect = app->add_subcommand("inspect", "Show the contents of a checkpoint");
  auto inspected = std::make_shared<std::string>(), verified = std::make_shared<std::string>();
  auto inspect_json = std::make_shared<bool>(false);
  inspect->add_option("checkpoint", *inspected, "Run folder, checkpoint or Hugging Face folder")
      ->type_name("MODEL")
      ->required();
  inspect->add_flag("--json", *inspect_json, "Print JSON");
  inspect->callback([=] { *action = [=] { return hawser::cli::run_inspect(*inspected, *inspect_json); }; });

  CLI::App* verify = app->add_subcommand("verify", "Check a checkpoint against its digests");
  verify->add_option("checkpoint", *verified, "Run folder or checkpoint")->type_name("RUN")->required();
  verify->callback([=] { *action = [=] { return hawser::cli::run_verify(*verified); }; });

  CLI::App* flight = app->add_subcommand(
      "flight", "After a failure: show the last calls of each rank, and which rank is missing");
  auto flown = std::make_shared<std::vector<std::string>>();
  auto flight_json = std::make_shared<bool>(false);
  flight->add_option("records", *flown, "Run folder or flight-rank-N.json files")
      ->type_name("RUN|FILE")
      ->required();
  flight->add_flag("--json", *flight_json, "Print JSON");
  flight->callback([=] { *action = [=] { return hawser::cli::run_flight(*flown, *flight_json); }; });

  auto d = std::make_shared<hawser::cli::DeviceOptions>();
  CLI::App* device = app->add_subcommand("device", "List devices and measure this machine's peak speeds");
  device->add_option("--threads", d->threads, "CPU threads (default: all that this process may use)")
      ->check(whole_number(1));
  device->add_option("--seconds", d->seconds, "Seconds to measure")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  device->add_flag("--json", d->json, "Print JSON");
  hawser::cli::add_measure(device, &d->measure);
  device->callback([=] { *action = [d] { return hawser::cli::run_device(*d); }; });
}

/// Refuses an unknown command, because the parser would report a missing one.
void refuse_unknown_command(const CLI::App& app, const char* word) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == word) return;
    names.push_back(sub->get_name());
  }
  hawser::cli::refuse(hawser::cli::no_such_command(word, names));
}

/// Runs the command that the arguments name. Throws on failure.
int run(int argc, char** argv) {
  CLI::App app("Train transformer language models from a JSON config, in one process or many.", "hawser");
  Action action;
  app.require_subcommand(1);
  app.set_version_flag("--version", hawser::cli::version_text,
                       "Print the version, the commit, the CPU level and the modules");
  app.failure_message(CLI::FailureMessage::help);
  add_train(&app, &action);
  add_launch(&app, &action);
  hawser::cli::add_prepare(&app, &action);
  hawser::cli::add_eval_command(&app, &action);
  hawser::cli::add_compare_command(&app, &action);
  hawser::cli::add_generate_command(&app, &action);
  hawser::cli::add_chat_command(&app, &action);
  hawser::cli::add_tokenizer_command(&app, &action);
  add_config_commands(&app, &action);
  add_explain(&app, &action);
  add_convert(&app, &action);
  hawser::cli::add_merge_command(&app, &action);
  hawser::cli::add_average_command(&app, &action);
  add_model_commands(&app, &action);
  hawser::cli::add_completion_command(&app, &action);
  hawser::cli::check_words(&app, kWordsThatMayBe);
  if (argc > 1 && argv[1][0] != '-') refuse_unknown_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return answer(app, error);
    hawser::cli::refuse(std::string(error.what()) + option_hint(app.remaining(true), {argv, argv + argc}) +
                        "\nSee `hawser --help` or `hawser COMMAND --help`.");
  }
  if (hws_library_abi() != HWS_ABI_VERSION) {
    throw hawser::cli::Failure(HWS_INTERNAL,
                               "libhawser.so has a different ABI from the one this command was built for; "
                               "install both from one build");
  }
  return action();
}

/// Prints the error, or what was interrupted, after flushing earlier output. Returns `code`.
int fail(int code, const char* message, const char* reason = "") {
  output().flush();
  std::fprintf(stderr, "hawser: %s%s%s%s\n", code == hawser::cli::kExitInterrupted ? "" : "error: ", message,
               *reason != '\0' ? ": " : "", reason);
  return code;
}

/// Runs the command and returns its exit code, also for exceptions. The messages are literals, because there
/// may be no memory left to build one.
int run_and_tell(int argc, char** argv) {
  using namespace hawser::cli;
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    return fail(exit_code(failure), failure.what());
  } catch (const std::filesystem::filesystem_error& error) {
    const int number = error.code().value();
    return fail(exit_code(file_status(number)), error.path1().c_str(), std::strerror(number));
  } catch (const std::bad_alloc&) {
    return fail(kExitRuntime, "the command ran out of memory");
  } catch (const std::exception& error) {
    return fail(kExitRuntime, error.what());
  } catch (...) {
    return fail(kExitRuntime, "an exception of an unknown kind");
  }
}

}  // namespace

int main(int argc, char** argv) {
  hawser::cli::prepare_standard_files();
  return output().finish(run_and_tell(argc, argv));
}
