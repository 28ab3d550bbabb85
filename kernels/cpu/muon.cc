// The element-wise parts of Muon, each in one pass over memory. Tails use the same vector arithmetic as the
// body, so results do not depend on how a matrix is divided into pieces.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;

/// Calls body(i, n) for vectors of n elements from i on.
template <class Body>
void each_vector(Stream& stream, int64_t elements, const Body& body) {
  parallel_ranges(stream, elements, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes)
      body(i, end - i < kLanes ? static_cast<int>(end - i) : kLanes);
  });
}

/// Returns alpha, divided by the root of the squares, if there are any.
float factor_of(const Axpby& a) {
  if (a.squares == nullptr) return a.alpha;
  const double root = __builtin_sqrt(a.squares->value()), eps = static_cast<double>(a.eps);
  return static_cast<float>(static_cast<double>(a.alpha) / (root < eps ? eps : root));
}

template <class T>
void combine(const Axpby& a, Stream& stream) {
  const vf alpha = vset(factor_of(a)), beta = vset(a.beta);
  auto* const out = static_cast<T*>(a.out);
  const auto* const y = static_cast<const T*>(a.y);
  each_vector(stream, a.n, [&](int64_t i, int n) {
    const vf scaled = vmul(alpha, vload_n(a.x + i, n));
    store_n(out + i, y != nullptr ? vfma(beta, load_n(y + i, n), scaled) : scaled, n);
  });
}

template <class Copy>
void step(const MuonUpdate& a, Stream& stream) {
  const float lr = a.scalars->lr * a.rate;
  const vf along = vset(lr * a.scale), decay = vset(lr * a.weight_decay);
  auto* const copy = static_cast<Copy*>(a.copy);
  each_vector(stream, a.n, [&](int64_t i, int n) {
    vf w = vload_n(a.weight + i, n);
    w = vfnma(along, vload_n(a.direction + i, n), vfnma(decay, w, w));
    vstore_n(a.weight + i, w, n);
    if constexpr (!__is_same(Copy, float)) store_n(copy + i, w, n);
  });
}

}  // namespace

void muon_momentum(const MuonMomentum& a, Stream& stream) {
  const vf scale = vset(a.scalars->grad_scale), momentum = vset(a.momentum), rest = vset(1.0f - a.momentum);
  each_vector(stream, a.n, [&](int64_t i, int n) {
    const vf g = vmul(rest, vmul(vload_n(a.grad + i, n), scale));
    const vf m = vfma(momentum, vload_n(a.m + i, n), g);
    vstore_n(a.m + i, m, n);
    vstore_n(a.u + i, vfma(momentum, m, g), n);
  });
}

void axpby(const Axpby& args, Stream& stream) {
  args.type == DType::kF32 ? combine<float>(args, stream) : combine<uint16_t>(args, stream);
}

void muon_update(const MuonUpdate& args, Stream& stream) {
  if (args.copy == nullptr) return step<float>(args, stream);
  args.copy_type == DType::kBf16 ? step<uint16_t>(args, stream) : step<Half>(args, stream);
}

}  // namespace hawser::kernels::HWS_LEVEL
