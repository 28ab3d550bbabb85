// The arithmetic of one optimizer step in vector lanes, independent of the storage of the state.
#pragma once

#include "kernels/cpu/philox_lanes.h"
#include "kernels/include/optimizer.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// The constants of one step, in every lane: those of means of gradients.
struct MeanConstants {
  vf grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, lr, decay;

  template <class Args>
  explicit MeanConstants(const Args& a)
      : grad_scale(vset(a.scalars->grad_scale)),
        beta1(vset(a.beta1)),
        one_minus_beta1(vset(1.0f - a.beta1)),
        beta2(vset(a.beta2)),
        one_minus_beta2(vset(1.0f - a.beta2)),
        lr(vset(a.scalars->lr * a.rate)),
        decay(vset(a.scalars->lr * a.rate * a.weight_decay)) {}
};

struct AdamWConstants : MeanConstants {
  vf correction1, correction2, eps;

  template <class Args>
  explicit AdamWConstants(const Args& a)
      : MeanConstants(a),
        correction1(vset(a.scalars->bias_correction1)),
        correction2(vset(a.scalars->bias_correction2)),
        eps(vset(a.eps)) {}
};

HWS_INLINE void adamw_step(const AdamWConstants& c, vf grad, vf& w, vf& m, vf& v) {
  const vf g = vmul(grad, c.grad_scale);
  m = vfma(c.beta1, m, vmul(c.one_minus_beta1, g));
  v = vfma(c.beta2, v, vmul(vmul(c.one_minus_beta2, g), g));
  const vf denominator = vadd(vsqrt(vdiv(v, c.correction2)), c.eps);
  const vf decayed = vfnma(c.decay, w, w);
  w = vfnma(c.lr, vdiv(vdiv(m, c.correction1), denominator), decayed);
}

struct SgdConstants {
  vf grad_scale, decay, momentum, lr;
  bool has_momentum, nesterov;

  template <class Args>
  explicit SgdConstants(const Args& a)
      : grad_scale(vset(a.scalars->grad_scale)),
        decay(vset(a.weight_decay)),
        momentum(vset(a.momentum)),
        lr(vset(a.scalars->lr * a.rate)),
        has_momentum(a.buf != nullptr),
        nesterov(a.nesterov) {}
};

HWS_INLINE void sgd_step(const SgdConstants& c, vf grad, vf& w, vf& buf) {
  const vf g = vfma(c.decay, w, vmul(grad, c.grad_scale));
  vf direction = g;
  if (c.has_momentum) {
    buf = vfma(c.momentum, buf, g);
    direction = c.nesterov ? vfma(c.momentum, buf, g) : buf;
  }
  w = vfnma(c.lr, direction, w);
}

/// Returns 1 with the sign of x; x itself if it is 0 or not a number.
HWS_INLINE vf sign_of(vf x) {
  const vwords bits = (vwords)x, magnitude = bits & 0x7fffffffu;
  const vwords has_sign = (vwords)(magnitude - 1 < 0x7f800000u);
  return (vf)((((bits & 0x80000000u) | 0x3f800000u) & has_sign) | (bits & ~has_sign));
}

HWS_INLINE void lion_step(const MeanConstants& c, vf grad, vf& w, vf& m) {
  const vf g = vmul(grad, c.grad_scale);
  const vf direction = sign_of(vfma(c.beta1, m, vmul(c.one_minus_beta1, g)));
  m = vfma(c.beta2, m, vmul(c.one_minus_beta2, g));
  w = vfnma(c.lr, direction, vfnma(c.decay, w, w));
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
