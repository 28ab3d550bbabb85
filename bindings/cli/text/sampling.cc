#include "bindings/cli/text/sampling.h"

#include "bindings/cli/argument_checks.h"

namespace hawser::cli {

void add_sampling_options(CLI::App* command, Sampling* sampling) {
  command
      ->add_option("--temperature", sampling->temperature,
                   "Sampling temperature; 0 always takes the likeliest token")
      ->check(number_from_zero())
      ->capture_default_str();
  command->add_option("--top-k", sampling->top_k, "Sample from the k likeliest tokens; 0: from all")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      ->add_option("--top-p", sampling->top_p,
                   "Sample from the likeliest tokens with this total probability; 1: from all")
      ->check(share())
      ->capture_default_str();
  command->add_option("--seed", sampling->seed, "Random seed; the same seed gives the same text")
      ->check(seed_number())
      ->capture_default_str();
}

}  // namespace hawser::cli
