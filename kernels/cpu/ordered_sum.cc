// The ordered sum. It is bound by memory, so it processes a few vectors of each member at a time and reads
// every addend once.
#include "kernels/cpu/block_record.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int kDeepest = 31;  ///< levels of a tree over an int32_t of members

HWS_INLINE vf rounded_to(vf x, DType type) {
  if (type == DType::kBf16) return through<uint16_t>(x);
  return type == DType::kF16 ? through<Half>(x) : x;
}

/// The vector of one addend, by the types in which it is stored and to which it is rounded.
template <class Stored, class Rounded = Stored>
struct Addend {
  using Type = Stored;
  static HWS_INLINE vf get(const Type* p) { return rounded(load(p)); }
  static HWS_INLINE vf get_n(const Type* p, int n) { return rounded(load_n(p, n)); }

 private:
  static HWS_INLINE vf rounded(vf x) {
    if constexpr (__is_same(Stored, Rounded)) {
      return x;
    } else {
      return through<Rounded>(x);
    }
  }
};
using F32 = Addend<float>;

/// kVectors complete vectors, or (kVectors = 1) the first `count` lanes of one.
template <class A, int kVectors>
struct Block {
  vf x[kVectors];

  static HWS_INLINE Block load(const OrderedSum& args, int32_t member, int64_t i, int count) {
    const auto* p = static_cast<const typename A::Type*>(args.in[member]) + i;
    Block b;
    if (count < kVectors * kLanes) {
      b.x[0] = A::get_n(p, count);
      return b;
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) b.x[v] = A::get(p + v * kLanes);
    return b;
  }
  HWS_INLINE void add_to_left(const Block& left) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) x[v] = vadd(left.x[v], x[v]);
  }
  HWS_INLINE void add(const Block& right) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) x[v] = vadd(x[v], right.x[v]);
  }
};

template <class A, int kVectors>
HWS_INLINE Block<A, kVectors> sum_in_order(const OrderedSum& args, int64_t i, int count) {
  using B = Block<A, kVectors>;
  const int32_t group = args.sum_group == 0 ? args.members : args.sum_group;
  B total = B::load(args, 0, i, count);
  for (int32_t m = 1; m < group; ++m) total.add(B::load(args, m, i, count));
  for (int32_t g = group; g < args.members; g += group) {
    B sum = B::load(args, g, i, count);
    for (int32_t m = g + 1; m < g + group; ++m) sum.add(B::load(args, m, i, count));
    total.add(sum);
  }
  return total;
}

/// Adds by a tree. The stack holds subtrees that wait for their right neighbour; member m completes as many
/// of them as m has trailing ones.
template <class A>
HWS_INLINE Block<A, 1> sum_by_tree(const OrderedSum& args, int64_t i, int count) {
  Block<A, 1> stack[kDeepest + 1];
  int depth = 0;
  for (int32_t m = 0; m < args.members; ++m) {
    Block<A, 1> sum = Block<A, 1>::load(args, m, i, count);
    for (uint32_t bits = static_cast<uint32_t>(m); (bits & 1u) != 0; bits >>= 1) {
      sum.add_to_left(stack[--depth]);
    }
    stack[depth++] = sum;
  }
  return stack[0];
}

template <class A, int kVectors>
HWS_INLINE void finish(const OrderedSum& args, const Block<A, kVectors>& sum, int64_t i, int count) {
  float* out = args.out + i;
  if (count < kVectors * kLanes) {
    const vf total = rounded_to(sum.x[0], args.round_to);
    vstore_n(out, args.accumulate ? vadd(vload_n(out, count), total) : total, count);
    return;
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const vf total = rounded_to(sum.x[v], args.round_to);
    vstore(out + v * kLanes, args.accumulate ? vadd(vload(out + v * kLanes), total) : total);
  }
}

template <class A>
void sum_range(const OrderedSum& args, int64_t begin, int64_t end) {
  constexpr int kVectors = 4, kStep = kVectors * kLanes;
  int64_t i = begin;
  for (; !args.tree && i + kStep <= end; i += kStep) {
    finish<A, kVectors>(args, sum_in_order<A, kVectors>(args, i, kStep), i, kStep);
  }
  for (; i < end; i += kLanes) {
    const int count = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
    finish<A, 1>(args, args.tree ? sum_by_tree<A>(args, i, count) : sum_in_order<A, 1>(args, i, count), i,
                 count);
  }
}

/// Adds the addends of one record.
HWS_INLINE void add_numbers(float* sum, const float* x) {
  for (int i = 0; i < kIntBlock; ++i) sum[i] = sum[i] + x[i];
}

/// Sums record by record; each is decoded once.
template <class Codes>
void sum_records(const OrderedSum& args, int64_t begin, int64_t end) {
  const int32_t group = args.sum_group == 0 ? args.members : args.sum_group;
  for (int64_t block = begin; block < end; ++block) {
    const auto decode = [&](float* y, int32_t m) {
      decode_record<Codes>(y, static_cast<const uint8_t*>(args.in[m]) + block * Codes::kBytes);
    };
    float total[kIntBlock], sum[kIntBlock], x[kIntBlock];
    for (int32_t g = 0; g < args.members; g += group) {
      float* const of_group = g == 0 ? total : sum;
      decode(of_group, g);
      for (int32_t m = g + 1; m < g + group; ++m) decode(x, m), add_numbers(of_group, x);
      if (g > 0) add_numbers(total, sum);
    }
    const int64_t first = block * kIntBlock, rest = args.n - first;
    const int n = static_cast<int>(rest < kIntBlock ? rest : kIntBlock);
    for (int i = 0; i < n; i += kLanes) {
      Block<F32, 1> part;
      part.x[0] = vload(total + i);
      finish<F32, 1>(args, part, first + i, n - i < kLanes ? n - i : kLanes);
    }
  }
}

template <class Codes>
void sum_all_records(const OrderedSum& args, Stream& stream) {
  parallel_ranges(stream, (args.n + kIntBlock - 1) / kIntBlock, kGrain / kIntBlock,
                  [&](int64_t begin, int64_t end) { sum_records<Codes>(args, begin, end); });
}

template <class A>
void sum_addends(const OrderedSum& args, Stream& stream) {
  parallel_ranges(stream, args.n, kGrain,
                  [&](int64_t begin, int64_t end) { sum_range<A>(args, begin, end); });
}

}  // namespace

void ordered_sum(const OrderedSum& args, Stream& stream) {
  if (args.in_type == DType::kI8Block) return sum_all_records<I8Codes>(args, stream);
  if (args.in_type == DType::kI4Block) return sum_all_records<I4Codes>(args, stream);
  with_element(args.in_type, [&](auto stored) {
    using Stored = decltype(stored);
    if constexpr (__is_same(Stored, float)) {
      with_element(args.round_in, [&](auto to) { sum_addends<Addend<float, decltype(to)>>(args, stream); });
    } else {
      sum_addends<Addend<Stored>>(args, stream);
    }
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
