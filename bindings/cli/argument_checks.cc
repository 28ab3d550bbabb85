// Checks return an error message, or "" if the argument is valid.
#include "bindings/cli/argument_checks.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "bindings/cli/utf8.h"

namespace hawser::cli {
namespace {

std::string refusal(const std::string& text, const std::string& wanted) {
  return "\"" + text + "\" is not " + wanted;
}

std::string empty_word(const std::string& text) {
  if (!text.empty()) return "";
  return "\"\" is empty (an unset variable?); give a value or leave the option out";
}

std::string broken_word(const std::string& text) {
  const size_t at = first_byte_not_utf8(text);
  if (at == std::string::npos) return "";
  return "\"" + with_marks(text, "?") + "\" is not valid UTF-8 at byte " + std::to_string(at) +
         ", which configs and reports require; choose another name";
}

}  // namespace

CLI::Validator whole_number(int64_t least) {
  const auto check = [least](const std::string& text) {
    int64_t value = 0;
    if (read_number(text, &value) && value >= least) return std::string();
    return refusal(text, "a whole number of at least " + std::to_string(least));
  };
  return CLI::Validator(check, "");
}

CLI::Validator seed_number() {
  const auto check = [](const std::string& text) {
    uint64_t value = 0;
    return read_number(text, &value) ? std::string() : refusal(text, "a whole number from 0 to 2^64 - 1");
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_from_zero() {
  const auto check = [](const std::string& text) {
    double value = 0;
    if (read_number(text, &value) && std::isfinite(value) && value >= 0) return std::string();
    return refusal(text, "a number of at least 0");
  };
  return CLI::Validator(check, "");
}

CLI::Validator share() {
  const auto check = [](const std::string& text) {
    double value = 0;
    return read_number(text, &value) && value > 0 && value <= 1
               ? std::string()
               : refusal(text, "a number above 0 and at most 1");
  };
  return CLI::Validator(check, "");
}

void add_sets(CLI::App* app, std::vector<std::string>* sets) {
  app->add_option("--set", *sets, "Set a config field (repeatable)")
      ->type_name("/POINTER=VALUE")
      ->allow_extra_args(false);
}

void add_average(CLI::App* app, std::vector<std::string>* sets) {
  app->add_flag_callback(
      "--average", [sets] { sets->push_back("/init/average=true"); },
      "Use the moving average of the weights (/optimizer/average)");
}

void add_search(CLI::App* plan, bool* search, int64_t* ranks, int32_t* top) {
  plan->add_flag("--search", *search,
                 "With --cluster: print the fastest layouts; fields that the config sets stay as they are");
  plan->add_option("--ranks", *ranks,
                   "With --search: the number of devices; otherwise the cluster's, or that of /mesh")
      ->check(CLI::PositiveNumber);
  plan->add_option("--top", *top, "With --search: the number of layouts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_cluster(CLI::App* plan, std::string* cluster, double* tokens, double* imbalance,
                 std::string* trace) {
  plan->add_option("--cluster", *cluster,
                   "Predict a step on these devices: a cluster file, or a100-80, h100-80 or h200-141")
      ->type_name("FILE|NAME");
  plan->add_option("--tokens", *tokens,
                   "With --cluster: tokens of a whole run, such as 1.5e12, to predict its days")
      ->type_name("TOKENS")
      ->check(number_from_zero());
  plan->add_option(
          "--imbalance", *imbalance,
          "With --cluster: predict the step of the busiest rank, whose experts get this many times the mean "
          "number of rows")
      ->type_name("RATIO");
  plan->add_option(
          "--trace", *trace,
          "With --cluster: also write the predicted step to this file: an SVG image if its name ends in "
          ".svg, otherwise JSON for ui.perfetto.dev")
      ->type_name("FILE");
}

void add_published(CLI::App* plan, CLI::Option* config, bool* published, std::string* tables) {
  CLI::Option* const flag = plan->add_flag_callback(
      "--published",
      [=] {
        *published = true;
        config->required(false);
      },
      "Compare published training runs with their predictions");
  flag->trigger_on_parse();
  flag->excludes(config);
  for (const char* const other : {"--set", "--cluster", "--search", "--trace"})
    flag->excludes(plan->get_option(other));
  plan->add_option("--tables", *tables, "With --published: a table of runs, or a folder of tables")
      ->type_name("FILE|DIR")
      ->needs(flag);
}

void add_measure(CLI::App* device, std::string* file) {
  device
      ->add_option("--measure", *file,
                   "Write a cluster file of this host's kernels, for `hawser plan --cluster` (half a minute)")
      ->type_name("FILE");
}

void add_adapter(CLI::App* app, bool* lora, bool* qlora, bool* dora) {
  app->add_flag(
      "--lora", *lora,
      "Train an adapter, the model stays as it is: rank 16, alpha 32, all linears, rate 2e-4, 3 epochs");
  app->add_flag("--qlora", *qlora, "As --lora, with the frozen linears kept in 4 bits (NF4)");
  app->add_flag("--dora", *dora,
                "As --lora, with a trained magnitude for each row (DoRA); also with --qlora");
}

void add_objective(CLI::App* app, std::string* objective) {
  CLI::Option* dpo = app->add_flag_callback(
      "--dpo", [=] { *objective = "dpo"; },
      "Train on preferences by DPO, 1 epoch: rows with \"prompt\", \"chosen\" and \"rejected\"");
  app->add_option("--objective", *objective, "The same by another objective")
      ->check(CLI::IsMember({"dpo", "ipo", "hinge", "dpo_sft", "simpo", "orpo", "reward"}))
      ->excludes(dpo);
}

void add_teacher(CLI::App* app, std::string* teacher) {
  app->add_option("--teacher", *teacher,
                  "Distil: train on the token probabilities of this model (teacher.weight, teacher.top)")
      ->type_name("MODEL");
}

void check_words(CLI::App* app, const WordsThatMayBe& may) {
  const auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (CLI::Option* option : app->get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    const std::string name = option->get_name();
    if (!among(may.empty, name)) option->check(CLI::Validator(empty_word, ""));
    if (!among(may.no_text, name)) option->check(CLI::Validator(broken_word, ""));
  }
  for (CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; })) check_words(sub, may);
}

}  // namespace hawser::cli
