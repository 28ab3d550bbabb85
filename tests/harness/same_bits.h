// Promise L2: two layouts of the same rows give the same bits.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Runs both layouts for `steps` steps. Expects losses, norms, raw gradients, weights and moments to be
/// equal.
void expect_same_bits(const Problem& problem, const Layout& one, const Layout& other, int steps);

/// Compares every ZeRO stage, also with small buckets, over the ranks of `ddp`.
void expect_stages_same_bits(const Problem& problem, const Layout& ddp, int steps);

/// Compares every ZeRO stage in every precision, over three ranks with two micro-batches.
void expect_stages_same_bits(const Problem& problem, int steps);

/// Layouts with one stage of a pipeline, and with two by `schedule`, for four layers and as many
/// micro-batches.
struct TwoStages {
  TwoStages(const Problem& base, const std::string& schedule);
  Problem problem;
  Layout one, two;
};
/// Returns the names of the schedules that have a steady state: all except gpipe.
std::vector<std::string> steady_schedules();

/// Compares every schedule of two stages. The schedule with a split backward also runs with ZeRO-3, where the
/// weight pass gathers weights, too.
void expect_schedules_same_bits(const Problem& problem, int steps);

}  // namespace hawser::testing
