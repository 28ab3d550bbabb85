// Lion (Chen et al., arXiv 2302.06675): one moment. The direction of a step is the sign of a mean.
#include "engine/optim/update.h"

namespace hawser::optim {
namespace lion {
namespace {

StateTypes states(const OptimizerConfig&, DType state) { return {state}; }

void update(const OptimizerConfig& o, const UpdateCall& c, const kernels::KernelTable& kernels,
            Stream& stream) {
  kernels.lion({static_cast<float*>(c.weights), c.copy, static_cast<float*>(c.states[plan::kFirstMoment]),
                static_cast<const float*>(c.gradients), c.scalars, c.n, static_cast<float>(o.beta1),
                static_cast<float>(o.beta2), c.decay, c.copy_type, c.rate},
               stream);
}

void update_bf16(const OptimizerConfig& o, const UpdateCall& c, const kernels::KernelTable& kernels,
                 Stream& stream) {
  kernels.lion_bf16({c.weights, c.states[plan::kFirstMoment], c.gradients, c.scalars, c.n,
                     static_cast<float>(o.beta1), static_cast<float>(o.beta2), c.decay, c.rounded, c.rate},
                    stream);
}

}  // namespace
}  // namespace lion

const UpdateRule kLion = {"lion", UpdateUnit::kElements, lion::states, lion::update, lion::update_bf16};

}  // namespace hawser::optim
