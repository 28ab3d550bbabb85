// What the command line accepts as a number. CLI11's own checks print their limits with 300 digits, and read
// "-1" as an unsigned number.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace hawser::cli {

/// A whole number of at least `least` that an int64 holds.
CLI::Validator whole_number(int64_t least);
/// A whole number from 0 that a uint64 holds.
CLI::Validator seed_number();
/// A finite number that is at least 0.
CLI::Validator number_from_zero();
/// A number above 0 and at most 1.
CLI::Validator share();

/// Options whose words may be anything in this respect.
struct WordsThatMayBe {
  std::vector<std::string> empty, no_text;
};
/// Has every option and word of `app` and its subcommands refuse the empty text, which is what the shell
/// makes of a variable that was never set (`--out "$DIR"` must not train and keep nothing), and what is not
/// UTF-8.
void check_words(CLI::App* app, const WordsThatMayBe& may);

}  // namespace hawser::cli
