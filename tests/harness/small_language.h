// A small language that a run learns within a few hundred steps, to compare what several runs learn.
#pragma once

#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Trains a small model on it. Returns the mean loss of the last 50 of 400 steps.
double learned_loss(const Layout& layout, const std::string& optimizer = "adamw");

}  // namespace hawser::testing
