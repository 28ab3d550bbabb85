// The activation of experts. It processes a row at a time, in tiles that stay in the first-level cache, so
// that one copy of each formula serves all types, with and without a gate.
#include "kernels/cpu/activation_formulas.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kTile = 512;  // a multiple of every level's lanes
constexpr int64_t kGrain = 8192;

struct Tile {
  float gate[kTile], up[kTile], dy[kTile], value[kTile], slope[kTile];
  float passes[kTile];  ///< of a clamped activation: 1 where the gradient of `up` passes, else 0
  int64_t n, padded;
};

template <Activation kKind>
HWS_NOINLINE void values_and_slopes(Tile& t) {
  for (int64_t j = 0; j < t.padded; j += kLanes) {
    vf value, slope;
    Act<kKind>::both(vload(t.gate + j), value, slope);
    vstore(t.value + j, value);
    vstore(t.slope + j, slope);
  }
}

void activate(Activation kind, Tile& t) {
  switch (kind) {
    case Activation::kGelu:
      return values_and_slopes<Activation::kGelu>(t);
    case Activation::kGeluTanh:
      return values_and_slopes<Activation::kGeluTanh>(t);
    case Activation::kSilu:
      return values_and_slopes<Activation::kSilu>(t);
    case Activation::kClampedSilu:
      return values_and_slopes<Activation::kClampedSilu>(t);
  }
}

/// A pointer to an element of an array of any type.
struct Array {
  void* data;
  DType type;
  Array from(int64_t element) const {
    return {static_cast<char*>(data) + element * (type == DType::kF32 ? 4 : 2), type};
  }
};
Array array_of(const void* data, DType type) { return {const_cast<void*>(data), type}; }

template <class E>
HWS_NOINLINE void read_as(float* to, const E* from, const Tile& t) {
  int64_t j = 0;
  for (; j + kLanes <= t.n; j += kLanes) vstore(to + j, load(from + j));
  if (j < t.n) vstore(to + j, load_n(from + j, static_cast<int>(t.n - j)));
}

template <class E>
HWS_NOINLINE void write_as(E* to, const float* from, const Tile& t) {
  int64_t j = 0;
  for (; j + kLanes <= t.n; j += kLanes) store(to + j, vload(from + j));
  if (j < t.n) store_n(to + j, vload(from + j), static_cast<int>(t.n - j));
}

/// Reads a tile as fp32; the rest of its last vector becomes zero.
void read(float* to, const Array& from, const Tile& t) {
  with_element(from.type,
               [&](auto element) { read_as(to, static_cast<const decltype(element)*>(from.data), t); });
}
void write(const Array& to, const float* from, const Tile& t) {
  with_element(to.type, [&](auto element) { write_as(static_cast<decltype(element)*>(to.data), from, t); });
}

HWS_NOINLINE void multiply(float* to, const float* a, const float* b, const Tile& t) {
  for (int64_t j = 0; j < t.padded; j += kLanes) vstore(to + j, vmul(vload(a + j), vload(b + j)));
}
HWS_NOINLINE void scale(float* x, float by, const Tile& t) {
  for (int64_t j = 0; j < t.padded; j += kLanes) vstore(x + j, vmul(vload(x + j), vset(by)));
}

/// Replaces `up` by the up factor of a clamped activation.
HWS_NOINLINE void clamp_up(Tile& t) {
  using Clamped = Factor<Activation::kClampedSilu>;
  for (int64_t j = 0; j < t.padded; j += kLanes) {
    const vf up = vload(t.up + j);
    vstore(t.passes + j, Clamped::gradient(vset(1.0f), up));
    vstore(t.up + j, Clamped::of(up));
  }
}

/// Reads elements [begin, begin + kTile) of a row of h, and activates them.
void begin_tile(Tile& t, const ExpertActivation& a, const Array& h, int64_t begin) {
  t.n = a.f - begin < kTile ? a.f - begin : kTile;
  t.padded = (t.n + kLanes - 1) / kLanes * kLanes;
  read(t.gate, h.from(begin), t);
  if (a.gated) read(t.up, h.from(a.f + begin), t);
  activate(a.kind, t);
  if (a.gated && a.kind == Activation::kClampedSilu) clamp_up(t);
}

HWS_NOINLINE void forward_row(const ExpertActivationForward& a, int64_t row, float weight) {
  const Array h = array_of(a.h, a.type).from(row * a.f * (a.gated ? 2 : 1)),
              y = array_of(a.y, a.type).from(row * a.f);
  Tile t;
  for (int64_t j = 0; j < a.f; j += kTile) {
    begin_tile(t, a, h, j);
    if (a.gated) multiply(t.value, t.value, t.up, t);
    scale(t.value, weight, t);
    write(y.from(j), t.value, t);
  }
}

/// Processes one row and returns the gradient of its weight.
HWS_NOINLINE float backward_row(const ExpertActivationBackward& a, int64_t row, float weight) {
  const int64_t at = row * a.f * (a.gated ? 2 : 1);
  const Array h = array_of(a.h, a.type).from(at), dh = array_of(a.dh, a.type).from(at);
  const Array dy = array_of(a.dy, a.type).from(row * a.f), y = array_of(a.y, a.type).from(row * a.f);
  vf sum = vzero();
  Tile t;
  for (int64_t j = 0; j < a.f; j += kTile) {
    begin_tile(t, a, h, j);
    read(t.dy, dy.from(j), t);
    float* const out = t.gate;  // the activation times its other factor; the gate is not read any more
    if (a.gated) multiply(out, t.value, t.up, t);
    const float* const activated = a.gated ? out : t.value;
    for (int64_t i = 0; i < t.padded; i += kLanes) sum = vfma(vload(t.dy + i), vload(activated + i), sum);
    scale(t.dy, weight, t);
    if (a.gated) {
      multiply(t.value, t.dy, t.value, t);  // the gradient of the other factor
      if (a.kind == Activation::kClampedSilu) multiply(t.value, t.value, t.passes, t);
      multiply(t.dy, t.dy, t.up, t);
      scale(out, weight, t);
      write(dh.from(a.f + j), t.value, t);
      write(y.from(j), out, t);
    } else {
      scale(t.value, weight, t);
      write(y.from(j), t.value, t);
    }
    multiply(t.dy, t.dy, t.slope, t);
    write(dh.from(j), t.dy, t);
  }
  return vsum(sum);
}

/// Calls body(row, choice, weight) for each existing row.
template <class Body>
void each_row(const ExpertActivation& a, Stream& stream, const Body& body) {
  const int64_t rows = a.end != nullptr ? *a.end : a.rows;
  parallel_ranges(stream, rows, a.f < kGrain ? kGrain / a.f : 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t choice = a.order != nullptr ? a.order[row] : row;
      body(row, choice, a.weights != nullptr ? a.weights[choice] : 1.0f);
    }
  });
}

}  // namespace

void expert_activation_forward(const ExpertActivationForward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  each_row(args, stream, [&](int64_t row, int64_t, float weight) { forward_row(args, row, weight); });
}

void expert_activation_backward(const ExpertActivationBackward& args, Stream& stream) {
  if (args.rows <= 0 || args.f <= 0) return;
  each_row(args, stream, [&](int64_t row, int64_t choice, float weight) {
    const float dweight = backward_row(args, row, weight);
    if (args.dweights != nullptr) args.dweights[choice] = dweight;
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
