// Finds where two JSON trees differ, by pointer: for models, data and configs that should be equal.
#pragma once

#include <string>

#include "engine/base/json.h"

namespace hawser {

/// Calls fn(pointer, value in a, value in b) for each leaf that differs: first those of `a` in order, then
/// those that only `b` has. A missing value is a null pointer and equals null.
template <typename Fn>
void each_difference(const Json& a, const Json& b, Fn fn) {
  const Json left = a.flatten(), right = b.flatten();
  const auto find = [](const Json& flat, const std::string& pointer) {
    const auto found = flat.find(pointer);
    return found == flat.end() ? nullptr : &*found;
  };
  const auto compare = [&](const std::string& pointer) {
    const Json nothing, *const x = find(left, pointer), *const y = find(right, pointer);
    if ((x ? *x : nothing) != (y ? *y : nothing)) fn(pointer, x, y);
  };
  for (const auto& [pointer, value] : left.items()) compare(pointer);
  for (const auto& [pointer, value] : right.items())
    if (!left.contains(pointer)) compare(pointer);
}

}  // namespace hawser
