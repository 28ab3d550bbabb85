#include "engine/nn/initial_values.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "engine/base/philox.h"
#include "engine/nn/normal_values.h"

namespace hawser::nn {
namespace {

constexpr int64_t kTaskElements = 1 << 14;
constexpr int64_t kValues = 4 * kNormalBlocks;

struct Fill {
  float* weights;      // points to element `begin`
  int64_t begin, end;  // range of elements of the parameter
  float std;
  uint64_t key;
};

void fill_task(void* arg, int64_t task, int32_t) {
  const Fill& f = *static_cast<const Fill*>(arg);
  const int64_t from = f.begin / kValues * kValues + task * kTaskElements,
                to = std::min(f.end, from + kTaskElements);
  for (int64_t i = from; i < to; i += kValues) {
    float v[kValues];
    normal_values(v, f.key, static_cast<uint64_t>(i / 4), f.std);
    const int64_t first = std::max(i, f.begin), last = std::min(i + kValues, f.end);
    std::copy(v + (first - i), v + (last - i), f.weights + (first - f.begin));
  }
}

/// Fills elements [begin, end) from Philox words, uniform in [-bound, bound).
void fill_uniform(float* weights, int64_t begin, int64_t end, float bound, uint64_t key) {
  PhiloxBlock words{};
  for (int64_t i = begin; i < end; ++i) {
    if (i == begin || i % 4 == 0) words = philox(key, static_cast<uint64_t>(i / 4), 0);
    weights[i - begin] = bound * (2 * philox_uniform(words.v[i % 4]) - 1);
  }
}

}  // namespace

uint64_t random_key(uint64_t seed, const Parameter& p, RandomUse use) {
  return philox_derive(seed, XXH3_64bits(p.name.data(), p.name.size()), static_cast<uint64_t>(use));
}

void fill_initial(float* weights, const Parameter& p, int64_t begin, int64_t end, double std, uint64_t seed,
                  Stream& stream) {
  if (begin >= end) return;
  if (p.initial.kind == InitialValue::Kind::kConstant) {
    std::fill_n(weights, end - begin, static_cast<float>(p.initial.value));
    return;
  }
  if (p.initial.kind == InitialValue::Kind::kUniform)
    return fill_uniform(weights, begin, end, static_cast<float>(p.initial.value),
                        random_key(seed, p, RandomUse::kInitialValues));
  Fill fill{weights, begin, end, static_cast<float>(std * p.initial.value),
            random_key(seed, p, RandomUse::kInitialValues)};
  stream.run(&stream, (end - begin / kValues * kValues + kTaskElements - 1) / kTaskElements, fill_task,
             &fill);
}

}  // namespace hawser::nn
