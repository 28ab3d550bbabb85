// Promise L2: two layouts of the same rows give the same bits.
#pragma once

#include <string>

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Runs both for `steps` steps. Expects losses, norms, raw gradients, weights and moments to be equal.
void expect_same_bits(const Problem& problem, const Layout& one, const Layout& other, int steps);

/// Every ZeRO stage, in small buckets too, over the ranks of `ddp`.
void expect_stages_same_bits(const Problem& problem, const Layout& ddp, int steps);

/// The same in every precision over three ranks, with two micro-batches.
void expect_stages_same_bits(const Problem& problem, int steps);

/// One stage of a pipeline, and two by `schedule`, of four layers and as many micro-batches.
struct TwoStages {
  TwoStages(const Problem& base, const std::string& schedule);
  Problem problem;
  Layout one, two;
};
inline constexpr const char* kSchedules[] = {"1f1b", "interleaved", "zb_h1", "zbv", "dualpipev"};

/// Every schedule of two stages; the one with halves also beside ZeRO-3, where the second half gathers
/// weights, too.
void expect_schedules_same_bits(const Problem& problem, int steps);

}  // namespace hawser::testing
