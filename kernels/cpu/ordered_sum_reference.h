// Reference for the ordered sum of one element: its definition, over the number type T.
#pragma once

#include "kernels/include/ordered_sum.h"

namespace hawser::kernels {

/// Adds by the balanced binary tree over addends [begin, begin + count).
template <class T, class Addend>
T tree_sum_reference(int32_t begin, int32_t count, const Addend& addend) {
  if (count == 1) return addend(begin);
  const int32_t half = count / 2;
  return tree_sum_reference<T>(begin, half, addend) + tree_sum_reference<T>(begin + half, half, addend);
}

/// addend(m) returns the value of member m, already rounded; round(sum, type) rounds a T to a type.
template <class T, class Addend, class Round>
T ordered_sum_reference(const OrderedSum& a, T out, const Addend& addend, const Round& round) {
  T total = T(0);
  if (a.tree) {
    total = tree_sum_reference<T>(0, a.members, addend);
  } else {
    const int32_t group = a.sum_group == 0 ? a.members : a.sum_group;
    for (int32_t g = 0; g < a.members; g += group) {
      T sum = addend(g);
      for (int32_t m = g + 1; m < g + group; ++m) sum = sum + addend(m);
      total = g == 0 ? sum : total + sum;
    }
  }
  total = round(total, a.round_to);
  return a.accumulate ? out + total : total;
}

}  // namespace hawser::kernels
