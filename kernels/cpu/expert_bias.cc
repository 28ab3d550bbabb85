// Biases of experts: adds them to rows, sums their gradients, and moves gate weights between lists of choices
// and matrices.
#include "kernels/include/expert_bias.h"

#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kRowBlock = 128;  ///< rows whose sum is computed before it is added to the total
constexpr int64_t kColumns = 256;   ///< columns of a task

/// Adds the bias of one group to its rows, columns [begin, end).
template <class T>
void add_to_rows(const ExpertBias& a, int64_t group, int64_t begin, int64_t end) {
  const float* const bias = a.bias + group * a.s.n;
  for (int64_t r = a.s.offsets[group]; r < a.s.offsets[group + 1]; ++r) {
    T* const y = static_cast<T*>(a.y) + r * a.s.stride;
    for (int64_t j = begin; j < end; j += kLanes) {
      const int lanes = static_cast<int>(end - j < kLanes ? end - j : kLanes);
      store_n(y + j, vadd(load_n(y + j, lanes), vload_n(bias + j, lanes)), lanes);
    }
  }
}

/// Sums columns [begin, end) of one group's rows.
template <class T>
void sum_rows(const ExpertBiasSum& a, int64_t group, int64_t begin, int64_t end) {
  float* const out = a.dbias + (a.first + group) * a.s.n;
  const int64_t last = a.s.offsets[group + 1];
  for (int64_t j = begin; j < end; j += kLanes) {
    const int lanes = static_cast<int>(end - j < kLanes ? end - j : kLanes);
    vf total = vzero();
    for (int64_t r0 = a.s.offsets[group]; r0 < last; r0 += kRowBlock) {
      const int64_t stop = r0 + kRowBlock < last ? r0 + kRowBlock : last;
      vf sum = vzero();
      for (int64_t r = r0; r < stop; ++r)
        sum = vadd(sum, load_n(static_cast<const T*>(a.dy) + r * a.s.stride + j, lanes));
      total = vadd(total, sum);
    }
    vstore_n(out + j, a.accumulate ? vadd(vload_n(out + j, lanes), total) : total, lanes);
  }
}

/// Calls body(group, first column, last column) for the tasks of all groups.
template <class Body>
void each_group(const GroupedRows& s, Stream& stream, const Body& body) {
  const int64_t parts = (s.n + kColumns - 1) / kColumns;
  parallel(stream, s.groups * parts, [&](int64_t task, int32_t) {
    const int64_t begin = task % parts * kColumns;
    body(task / parts, begin, begin + kColumns < s.n ? begin + kColumns : s.n);
  });
}

/// Calls body(row, choice, expert) for the choices that were not dropped.
template <class Body>
void each_choice(const ChosenExperts& s, int64_t begin, int64_t end, const Body& body) {
  for (int64_t c = begin * s.top_k; c < end * s.top_k; ++c)
    if (s.place[c] >= 0) body(c / s.top_k, c, s.choice[c]);
}

constexpr int64_t kGrain = 256;  ///< rows of choices in a task

}  // namespace

void expert_bias(const ExpertBias& args, Stream& stream) {
  if (args.s.n <= 0) return;
  with_element(args.s.type, [&](auto element) {
    each_group(args.s, stream, [&](int64_t group, int64_t begin, int64_t end) {
      add_to_rows<decltype(element)>(args, group, begin, end);
    });
  });
}

void expert_bias_sum(const ExpertBiasSum& args, Stream& stream) {
  if (args.s.n <= 0) return;
  const int64_t n = args.s.n, before = args.first * n, after = before + args.s.groups * n;
  for (int64_t i = 0; i < args.total * n && !args.accumulate; ++i)
    if (i < before || i >= after) args.dbias[i] = 0;
  with_element(args.s.type, [&](auto element) {
    each_group(args.s, stream, [&](int64_t group, int64_t begin, int64_t end) {
      sum_rows<decltype(element)>(args, group, begin, end);
    });
  });
}

void spread_weights(const SpreadWeights& args, Stream& stream) {
  const ChosenExperts& s = args.s;
  parallel_ranges(stream, s.rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * s.experts; i < end * s.experts; ++i) args.y[i] = 0;
    each_choice(s, begin, end, [&](int64_t row, int64_t choice, int64_t expert) {
      args.y[row * s.experts + expert] = args.weights[choice];
    });
  });
}

void add_chosen(const AddChosen& args, Stream& stream) {
  const ChosenExperts& s = args.s;
  parallel_ranges(stream, s.rows, kGrain, [&](int64_t begin, int64_t end) {
    each_choice(s, begin, end, [&](int64_t row, int64_t choice, int64_t expert) {
      args.y[choice] += args.x[row * s.experts + expert];
    });
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
