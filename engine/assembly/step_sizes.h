// StepSizes: the bytes and costs of a model's modules, from which the plans of a step are made.
#pragma once

#include "engine/assembly/engine_plans.h"
#include "engine/execute/step_values.h"
#include "engine/nn/model.h"
#include "engine/parallel/compose.h"
#include "engine/plan/serial.h"

namespace hawser::train {

/// Measures the modules by a dry run. The result lacks the state, which differs by stage. Exchanges within
/// blocks are noted in `notes`.
plan::Sizes step_sizes(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                       const parallel::Strategies& strategies, const parallel::BlockExchanges& exchanges,
                       ExchangeNotes* notes);

/// Returns the form of the micro-batches of training; ranks divide their columns as `columns` says.
MicroBatchForm micro_batch_form(const config::ResolvedConfig& config, const nn::LocalColumns& columns);

/// Returns the teacher settings of the config, without a teacher's rows.
kernels::Teacher teacher_of(const config::ResolvedConfig& config);

}  // namespace hawser::train
