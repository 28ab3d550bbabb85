// The bytes that ranks exchange inside blocks in a step, by the formulas of the papers: Megatron-LM
// (arXiv:1909.08053), sequence parallelism (arXiv:2205.05198), ring attention (arXiv:2310.01889), Ulysses
// (arXiv:2309.14509). Printed with a plan, which counts them by running the modules dry; both must agree.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/mesh/mesh_config.h"
#include "engine/nn/model_config.h"
#include "engine/parallel/closed_forms.h"

namespace hawser::parallel {

/// In the formulas A micro-batches of R own rows (with the padding of context parallelism) pass L blocks, l
/// of them with a backward; C is the width, H and K heads and key/value heads of a rank, D their size, e the
/// bytes of an element of the products' type. With Ulysses, h and k are the heads that a rank has of all
/// columns. S of the blocks are sparse (s of those with a backward): they exchange no rows of the residual
/// stream, but 2E + 1 numbers for each row of the batch. Of p ranks that divide experts each sends the
/// others' counts of E experts, and in balance Q of its k choices of a row to each of the others; Q' of them
/// in later rounds. M rows of weights whose inputs ranks divide have magnitudes (m of those with a backward).
struct ExchangeShape {
  nn::ModelConfig local;  ///< what one tensor-parallel rank has (nn::local_model)
  mesh::MeshConfig mesh;
  int64_t micro_batches = 1;
  int64_t rows = 0;             ///< R
  int64_t batch = 0;            ///< rows of the batch in a micro-batch (B)
  int64_t element_bytes = 4;    ///< e
  int32_t first_trainable = 0;  ///< lowest block with a backward
  int64_t round_rows = 0;       ///< the most rows from one rank to another in a round
};

/// Of FORWARD, LOSS and BACKWARD; those that send nothing are left out.
std::vector<ClosedForm> exchange_forms(const ExchangeShape& shape);

}  // namespace hawser::parallel
