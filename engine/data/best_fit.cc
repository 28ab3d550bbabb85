#include "engine/data/best_fit.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hawser::data {
namespace {

/// Sorts documents by falling length; documents of equal length keep their order.
std::vector<int64_t> by_length(const std::vector<int32_t>& lengths) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace

PackedRows best_fit_decreasing(const std::vector<int32_t>& lengths, int64_t cols) {
  std::vector<int64_t> row_of(lengths.size());
  std::map<int64_t, std::vector<int64_t>> rows_by_room;  // only rows with room for at least one token
  int64_t rows = 0;
  const std::vector<int64_t> order = by_length(lengths);
  for (const int64_t document : order) {
    const int64_t length = lengths[static_cast<size_t>(document)];
    int64_t row = rows, room = cols;
    if (const auto best = rows_by_room.lower_bound(length); best != rows_by_room.end()) {
      room = best->first;
      row = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) rows_by_room.erase(best);
    } else {
      ++rows;
    }
    row_of[static_cast<size_t>(document)] = row;
    if (room > length) rows_by_room[room - length].push_back(row);
  }
  PackedRows packed;
  packed.begins.assign(static_cast<size_t>(rows) + 1, 0);
  for (const int64_t row : row_of) ++packed.begins[static_cast<size_t>(row) + 1];
  std::partial_sum(packed.begins.begin(), packed.begins.end(), packed.begins.begin());
  packed.documents.resize(lengths.size());
  std::vector<int64_t> next(packed.begins.begin(), packed.begins.end() - 1);
  for (const int64_t document : order) {
    const auto row = static_cast<size_t>(row_of[static_cast<size_t>(document)]);
    packed.documents[static_cast<size_t>(next[row]++)] = document;
  }
  return packed;
}

PackedRows one_in_each_row(int64_t documents) {
  PackedRows rows;
  rows.documents.resize(static_cast<size_t>(documents));
  std::iota(rows.documents.begin(), rows.documents.end(), int64_t{0});
  rows.begins.resize(static_cast<size_t>(documents) + 1);
  std::iota(rows.begins.begin(), rows.begins.end(), int64_t{0});
  return rows;
}

}  // namespace hawser::data
