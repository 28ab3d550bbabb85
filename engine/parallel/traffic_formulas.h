// Traffic formulas: what a rank sends in a step, in the notation of the papers, for the plan report to print
// beside the bytes. They are text only, because the plan counts the bytes (traffic.h, dry runs of modules);
// tests evaluate the same formulas (tests/harness/closed_forms.h). Papers: Megatron-LM (arXiv:1909.08053),
// ZeRO (arXiv:1910.02054), sequence parallelism (arXiv:2205.05198), ring attention (arXiv:2310.01889),
// Ulysses (arXiv:2309.14509).
#pragma once

#include <cstdint>
#include <string>

#include "engine/mesh/mesh_config.h"
#include "engine/nn/model_config.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// What decides which formulas hold.
struct FormulaTerms {
  const ShardLayout& layout;
  const DataParallelStrategy& strategy;
  const mesh::MeshConfig& mesh;
  const nn::ModelConfig& local;  ///< what one tensor-parallel rank has (nn::local_model)
  int64_t micro_batches = 1;
  int64_t element_bytes = 4;    ///< of the products' type
  int32_t first_trainable = 0;  ///< lowest block with a backward
  bool teacher = false;         ///< the loss follows a teacher
};

/// The formula for all instructions of `op` in the plan of a training step, such as "2(N-1)/N·Φg"; empty if
/// none is known.
///
/// Transfers: N ranks share a copy, R hold the same shard, S form the smaller group, and there are A
/// micro-batches. Φ is the size of all shards together in bytes as sent, with padding: Φg gradients (in
/// records, with all bytes of these), Φs their sums, Φw weights; with quantized_gradients, Φr the sums of
/// shards as they go to the replicas, in records or f32, and Φr' the finished sums as they return; Φe, Φb, Φh
/// of embedding, blocks and head; Φb' of the blocks that have a backward, if not all do. Φt: gradients that
/// are summed over all t tensor-parallel ranks; Φk: over the k of them that hold the same key/value heads.
/// With experts that ranks divide, M share a copy of the same ones: of these N is M, and E the size.
/// GATHER_MATRIX and SCATTER_MATRIX have no formula: their bytes depend on the homes that matrices get.
///
/// Exchanges inside blocks: A micro-batches of R own rows (with the padding of context parallelism) pass L
/// blocks, l of them with a backward; C is the width, H and K heads and key/value heads of a rank, D their
/// size, e the bytes of an element of the products' type, x of one of the residual stream. With Ulysses, h
/// and k are the heads that a rank has of all columns. S of the blocks are sparse (s of those with a
/// backward): they exchange no rows of the residual stream, but 2E + 1 numbers for each row of the batch. Of
/// p ranks that divide experts each sends the others' counts of E experts, and in balance Q of its k choices
/// of a row to each of the others; Q' of them in later rounds. M rows of weights whose inputs ranks divide
/// have magnitudes (m of those with a backward).
std::string traffic_formula(plan::Op op, const plan::Plan& train, const FormulaTerms& terms);

}  // namespace hawser::parallel
