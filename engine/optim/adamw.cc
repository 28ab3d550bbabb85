// AdamW (Loshchilov and Hutter, arXiv 1711.05101): two moments.
#include "engine/optim/update.h"

namespace hawser::optim {
namespace adamw {
namespace {

StateTypes states(const OptimizerConfig&, DType state) { return {state, state}; }

void update(const OptimizerConfig& o, const UpdateCall& c, const kernels::KernelTable& kernels,
            Stream& stream) {
  const auto f32 = [](auto* p) { return static_cast<float*>(p); };
  kernels.adamw(
      {f32(c.weights), c.copy, f32(c.states[plan::kFirstMoment]), f32(c.states[plan::kSecondMoment]),
       static_cast<const float*>(c.gradients), c.scalars, c.n, static_cast<float>(o.beta1),
       static_cast<float>(o.beta2), static_cast<float>(o.eps), c.decay, c.copy_type, c.rate},
      stream);
}

void update_bf16(const OptimizerConfig& o, const UpdateCall& c, const kernels::KernelTable& kernels,
                 Stream& stream) {
  kernels.adamw_bf16({c.weights, c.states[plan::kFirstMoment], c.states[plan::kSecondMoment], c.gradients,
                      c.scalars, c.n, static_cast<float>(o.beta1), static_cast<float>(o.beta2),
                      static_cast<float>(o.eps), c.decay, c.rounded, c.rate},
                     stream);
}

}  // namespace
}  // namespace adamw

const UpdateRule kAdamW = {"adamw", UpdateUnit::kElements, adamw::states, adamw::update, adamw::update_bf16};

}  // namespace hawser::optim
