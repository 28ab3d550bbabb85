// Options that several commands have, such as --set, and checks of arguments. CLI11's own checks of numbers
// print their limits with 300 digits and accept "-1" as an unsigned number.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace hawser::cli {

/// Parses the whole of `text` as a number, without spaces and plus signs; false if it is not one.
template <typename Number>
bool read_number(std::string_view text, Number* value) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

/// Accepts an integer >= `least` that fits an int64.
CLI::Validator whole_number(int64_t least);
/// Accepts an integer >= 0 that fits a uint64.
CLI::Validator seed_number();
/// Accepts a finite number >= 0.
CLI::Validator number_from_zero();
/// Accepts a number above 0 and at most 1.
CLI::Validator share();

/// Adds the option --set, which all commands with a config have.
void add_sets(CLI::App* app, std::vector<std::string>* sets);
/// Adds the flag --average, which sets /init/average.
void add_average(CLI::App* app, std::vector<std::string>* sets);

/// Adds the options --lora, --qlora and --dora.
void add_adapter(CLI::App* app, bool* lora, bool* qlora, bool* dora);
/// Adds the options of `plan` that predict a step on the devices of a cluster.
void add_cluster(CLI::App* plan, std::string* cluster, double* tokens, double* imbalance, std::string* trace);
/// Adds the options of `plan` that search for the fastest layouts.
void add_search(CLI::App* plan, bool* search, int64_t* ranks, int32_t* top);
/// Adds the options of `plan` that print published runs, which need no `config`.
void add_published(CLI::App* plan, CLI::Option* config, bool* published, std::string* tables);
/// Adds the option of `device` that writes a cluster file.
void add_measure(CLI::App* device, std::string* file);

/// Adds the options --objective and --dpo, short for --objective dpo.
void add_objective(CLI::App* app, std::string* objective);
/// Adds the option --teacher.
void add_teacher(CLI::App* app, std::string* teacher);

/// Options that check_words exempts.
struct WordsThatMayBe {
  std::vector<std::string> empty, no_text;
};
/// Makes every option and argument of `app` and its subcommands refuse text that is not UTF-8, and empty
/// text. The shell turns an unset variable into empty text: `--out "$DIR"` must not train without keeping
/// anything.
void check_words(CLI::App* app, const WordsThatMayBe& may);

}  // namespace hawser::cli
