// write_rows: a function that decides which documents share a row and writes the rows of a prepared folder.
#pragma once

#include "engine/checkpoint/file_io.h"
#include "engine/data/prepared_folder.h"
#include "engine/prepare/document_spool.h"

namespace hawser::train {

/// Writes tokens, marks and weights of all documents to `folder`. Sets rows, packed, weighted and digests of
/// `manifest`; reads its cols and pairs. `seed` determines the random order of the rows. The two answers of a
/// pair are consecutive rows, and neither shares its row. Throws kCancelled.
void write_rows(const DocumentSpool& spool, const checkpoint::Folder& folder, bool packing, uint64_t seed,
                data::PreparedManifest* manifest);

}  // namespace hawser::train
