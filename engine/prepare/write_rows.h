// Writes the rows of a prepared folder: which documents share a row, and their bytes.
#pragma once

#include "engine/checkpoint/file_io.h"
#include "engine/data/prepared_folder.h"
#include "engine/prepare/document_spool.h"

namespace hawser::train {

/// Writes tokens, marks and weights of all documents to `folder`. Sets rows, packed, weighted and digests of
/// `manifest`; reads its cols and pairs. The order of the rows is random, and follows from `seed`; pairs stay
/// together and share no row. Throws kCancelled.
void write_rows(const DocumentSpool& spool, const checkpoint::Folder& folder, bool packing, uint64_t seed,
                data::PreparedManifest* manifest);

}  // namespace hawser::train
