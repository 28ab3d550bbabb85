#include "engine/state/finite_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "engine/base/error.h"

namespace hawser::train {
namespace {

constexpr uint32_t kExponent = 0x7f800000u;  // all ones: infinite, or NaN

/// Counts values that are not finite. The loop has no branch, so it is as fast as memory.
bool all_finite(const float* values, int64_t n) {
  uint32_t others = 0;
  for (int64_t i = 0; i < n; ++i)
    others += (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent ? 1 : 0;
  return others == 0;
}

std::vector<int64_t> place_of(const std::vector<int64_t>& shape, int64_t element) {
  std::vector<int64_t> place(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; element /= shape[dim]) place[dim] = element % shape[dim];
  return place;
}

[[noreturn]] void fail_not_finite(const std::string& folder, const nn::Parameter& p,
                                  const std::string& what) {
  fail(Code::kNumeric,
       "the weights in {} are not finite: {} of parameter \"{}\"; use the model from before it diverged",
       folder, what, p.name);
}

}  // namespace

void require_finite(const std::string& folder, const nn::Parameter& p, int64_t first, const float* values,
                    int64_t n) {
  constexpr int64_t kPiece = int64_t{1} << 20;  // the count of a piece fits 32 bits
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t count = std::min(kPiece, n - at);
    if (all_finite(values + at, count)) continue;
    const float* const bad =
        std::find_if_not(values + at, values + at + count, [](float v) { return std::isfinite(v); });
    fail_not_finite(
        folder, p,
        fmt::format("element [{}] is {},", fmt::join(place_of(p.shape, first + (bad - values)), ", "),
                    static_cast<double>(*bad)));
  }
}

void require_finite(const std::string& folder, const nn::Parameter& p, const nn::Nf4Tensor& tensor) {
  const auto finite = [](const std::vector<float>& scales) {
    return all_finite(scales.data(), std::ssize(scales));
  };
  if (!std::isfinite(tensor.offset) || !finite(tensor.nested_absmax) || !finite(tensor.plain_absmax))
    fail_not_finite(folder, p, "a scale (absmax)");
}

}  // namespace hawser::train
