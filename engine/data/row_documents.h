// Packing: what the document boundaries inside a row do to its targets, positions and attention.
#pragma once

#include <cstdint>

#include "engine/data/token_source.h"

namespace hawser::data {

inline constexpr int32_t kMaskedTarget = -100;

/// Arrays of `cols` entries for the row that starts at token `first` of `source`; `positions` and `kv_begin`
/// may be null. Positions restart and kv_begin moves to the column where each document starts; the last token
/// of a document has nothing to predict, so its target is masked. A document that began before the row counts
/// from column 0. Needs first + cols < source.size(). Allocates nothing.
void mark_documents(const TokenSource& source, int64_t first, int64_t cols, int32_t* targets,
                    int32_t* positions, int32_t* kv_begin);

/// The row as one document: positions 0..cols-1, all visible.
void mark_whole_row(int64_t cols, int32_t* positions, int32_t* kv_begin);

}  // namespace hawser::data
