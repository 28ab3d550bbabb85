// AdamW with both moments in records of 8-bit codes (kernels/include/state_records.h): 2.125 bytes a
// parameter instead of 8. A record has 64 elements of the parameter group, whose size is a multiple of 64,
// and no shard divides it, so the state does not depend on how data-parallel ranks shard it. Moments of
// parameters of every size are stored in records.
#include "engine/mesh/flat_shard.h"
#include "engine/optim/update.h"

namespace hawser::optim {
namespace adamw8 {
namespace {

static_assert(mesh::kShardAlign % kStateBlock == 0 && nn::ParameterTable::kGroupAlign % kStateBlock == 0,
              "no shard divides a record");

StateTypes states(const OptimizerConfig&, DType) { return {DType::kS8Block, DType::kU8Block}; }

void update(const OptimizerConfig& o, const UpdateCall& c, const kernels::KernelTable& kernels,
            Stream& stream) {
  kernels.adamw8(
      {static_cast<float*>(c.weights), c.copy, c.states[plan::kFirstMoment], c.states[plan::kSecondMoment],
       static_cast<const float*>(c.gradients), c.scalars, c.runs, c.first, c.n, static_cast<float>(o.beta1),
       static_cast<float>(o.beta2), static_cast<float>(o.eps), c.copy_type},
      stream);
}

}  // namespace
}  // namespace adamw8

const UpdateRule kAdamW8 = {"adamw8", UpdateUnit::kRecords, adamw8::states, adamw8::update, nullptr};

}  // namespace hawser::optim
