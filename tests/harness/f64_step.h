// F64Step: the loss and all gradients of a step by their definition, from the weights of a run, to compare
// with what its layout of ranks computes.
#pragma once

#include "engine/proof/reference_batch.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Takes a step on `batch`, which must be the rows of step 0, and compares the gradients of all parameters
/// with those of the model in f64. Returns the step's record.
StepRecord expect_f64_gradients(LayoutRun& run, const train::ReferenceBatch& batch);

/// The weights of a run as the reference model reads them (FlatLayout).
std::vector<double> flat_weights(LayoutRun& run);

}  // namespace hawser::testing
