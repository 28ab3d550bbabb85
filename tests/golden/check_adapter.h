// Adapter checks: checks that only golden cases with an adapter need.
#pragma once

#include <string>

#include "tests/golden/adapter_case.h"
#include "tests/golden/engine_session.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/report.h"

namespace hawser::golden {

/// Compares the logits of the model without the adapter.
void check_base(const EngineSession& base, const AdapterCase& adapter, const GoldenCase& golden,
                const Tolerances& tolerances, Report& report);

/// Compares the logits of the first batch after training, and the merged weights, exported to `folder` as
/// f32: those of the case must be within its tolerances, and the rest unchanged.
void check_trained_adapter(const EngineSession& engine, const AdapterCase& adapter, const GoldenCase& golden,
                           const Tolerances& tolerances, const std::string& folder, Report& report);

}  // namespace hawser::golden
