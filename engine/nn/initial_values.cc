#include "engine/nn/initial_values.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/philox.h"

namespace hawser::nn {
namespace {

constexpr int64_t kTaskElements = 1 << 14;

struct Fill {
  float* weights;      // element `begin`
  int64_t begin, end;  // elements of the parameter
  float std;
  uint64_t key;
};

/// Two normals from two words. The first uniform is in (0, 1], so the logarithm is finite.
void normal_pair(float* out, uint32_t a, uint32_t b, float std) {
  const float u = 1.0f - philox_uniform(a),
              angle = static_cast<float>(2.0 * std::numbers::pi) * philox_uniform(b);
  const float radius = std * std::sqrt(-2.0f * std::log(u));
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

void fill_task(void* arg, int64_t task, int32_t) {
  const Fill& f = *static_cast<const Fill*>(arg);
  const int64_t from = f.begin / 4 * 4 + task * kTaskElements, to = std::min(f.end, from + kTaskElements);
  for (int64_t i = from; i < to; i += 4) {
    const PhiloxBlock words = philox(f.key, static_cast<uint64_t>(i / 4), 0);
    float v[4];
    normal_pair(v, words.v[0], words.v[1], f.std);
    normal_pair(v + 2, words.v[2], words.v[3], f.std);
    const int64_t first = std::max(i, f.begin), last = std::min(i + 4, f.end);
    std::copy(v + (first - i), v + (last - i), f.weights + (first - f.begin));
  }
}

}  // namespace

void fill_initial(float* weights, const Parameter& p, int64_t begin, int64_t end, double std, uint64_t seed,
                  Stream& stream) {
  if (begin >= end) return;
  if (p.initial.kind == InitialValue::Kind::kConstant) {
    std::fill_n(weights, end - begin, static_cast<float>(p.initial.value));
    return;
  }
  Fill fill{weights, begin, end, static_cast<float>(std * p.initial.value),
            philox_derive(seed, XXH3_64bits(p.name.data(), p.name.size()), 1)};
  stream.run(&stream, (end - begin / 4 * 4 + kTaskElements - 1) / kTaskElements, fill_task, &fill);
}

}  // namespace hawser::nn
