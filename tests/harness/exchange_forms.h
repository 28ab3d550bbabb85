// Closed forms of what ranks exchange inside blocks in a step: Megatron-LM (arXiv:1909.08053), sequence
// parallelism (arXiv:2205.05198), ring attention (arXiv:2310.01889), Ulysses (arXiv:2309.14509). An oracle
// for plans, which count these bytes by running the modules dry.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/mesh_config.h"
#include "engine/nn/model_config.h"
#include "tests/harness/closed_forms.h"

namespace hawser::testing {

/// The symbols are those of parallel/traffic_formulas.h.
struct ExchangeShape {
  nn::ModelConfig local;  ///< what one tensor-parallel rank has (nn::local_model)
  mesh::MeshConfig mesh;
  int64_t micro_batches = 1;
  int64_t rows = 0;             ///< R
  int64_t batch = 0;            ///< rows of the batch in a micro-batch (B)
  int64_t element_bytes = 4;    ///< e
  int32_t first_trainable = 0;  ///< lowest block with a backward
  int64_t round_rows = 0;       ///< the most rows from one rank to another in a round
  bool teacher = false;         ///< the loss follows a teacher
};

/// Of FORWARD, LOSS and BACKWARD; those that send nothing are left out.
std::vector<ClosedForm> exchange_forms(const ExchangeShape& shape);

}  // namespace hawser::testing
