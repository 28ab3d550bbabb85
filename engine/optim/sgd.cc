// SGD with momentum, as in PyTorch: one moment, or none without momentum.
#include "engine/optim/update.h"

namespace hawser::optim {
namespace sgd {
namespace {

StateTypes states(const OptimizerConfig& o, DType state) {
  if (o.momentum > 0) return {state};
  return {};
}

void update(const OptimizerConfig& o, const UpdateCall& c, const kernels::KernelTable& kernels,
            Stream& stream) {
  kernels.sgd({static_cast<float*>(c.weights), c.copy, static_cast<float*>(c.states[plan::kFirstMoment]),
               static_cast<const float*>(c.gradients), c.scalars, c.n, static_cast<float>(o.momentum),
               c.decay, o.nesterov, c.copy_type, c.rate},
              stream);
}

void update_bf16(const OptimizerConfig& o, const UpdateCall& c, const kernels::KernelTable& kernels,
                 Stream& stream) {
  kernels.sgd_bf16({c.weights, c.states[plan::kFirstMoment], c.gradients, c.scalars, c.n,
                    static_cast<float>(o.momentum), c.decay, o.nesterov, c.rounded, c.rate},
                   stream);
}

}  // namespace
}  // namespace sgd

const UpdateRule kSgd = {"sgd", UpdateUnit::kElements, sgd::states, sgd::update, sgd::update_bf16};

}  // namespace hawser::optim
