// Checks of a golden case that only one with an adapter has.
#pragma once

#include <string>

#include "tests/golden/adapter_case.h"
#include "tests/golden/engine_session.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/report.h"

namespace hawser::golden {

/// The logits of the model without the adapter.
void check_base(const EngineSession& base, const AdapterCase& adapter, const GoldenCase& golden,
                const Tolerances& tolerances, Report& report);

/// Logits of the first batch after training, and the merged weights, exported to `folder` as f32: those of
/// the case within its tolerances, and the rest as it was.
void check_trained_adapter(const EngineSession& engine, const AdapterCase& adapter, const GoldenCase& golden,
                           const Tolerances& tolerances, const std::string& folder, Report& report);

}  // namespace hawser::golden
