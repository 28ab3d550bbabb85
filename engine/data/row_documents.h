// Row documents: computes how document boundaries inside a row affect its targets, positions and attention.
#pragma once

#include <cstdint>

#include "engine/data/token_source.h"

namespace hawser::data {

inline constexpr int32_t kMaskedTarget = -100;

/// Fills arrays of `cols` entries for the row that starts at token `first` of `source`; `positions` and
/// `kv_begin` may be null. At the start of each document, positions restart and kv_begin moves to that
/// column. The last token of a document has nothing to predict, so its target is masked. A document that
/// began before the row counts from column 0. Requires first + cols < source.size(). Allocates nothing.
void mark_documents(const TokenSource& source, int64_t first, int64_t cols, int32_t* targets,
                    int32_t* positions, int32_t* kv_begin);

/// Treats the row as one document: positions 0..cols-1, all visible.
void mark_whole_row(int64_t cols, int32_t* positions, int32_t* kv_begin);

}  // namespace hawser::data
