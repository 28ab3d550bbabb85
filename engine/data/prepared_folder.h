// PreparedFolder: a folder of prepared rows. Each row is stored in full, with its documents and targets.
//
//   prepared.json   describes the rows: number, length, tokenizer; digests of the files below
//   tokens.bin      u32 [rows, cols]
//   marks.bin       u8 [rows, cols]: kTargetToken, kDocumentBegin
//   weights.bin     f32 [rows, cols], the loss weight of each token as a target; only if one is not 1
//
// For pairs, rows 2i and 2i + 1 are the chosen and the rejected answer to the same prompt.
//
// The tokens of a document are adjacent within one row. The unused rest of a row is a document of token 0
// without targets.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/input_file.h"
#include "engine/base/json.h"

namespace hawser::data {

inline constexpr const char* kPreparedManifest = "prepared.json";
inline constexpr const char* kPreparedTokens = "tokens.bin";
inline constexpr const char* kPreparedMarks = "marks.bin";
inline constexpr const char* kPreparedWeights = "weights.bin";
inline constexpr int64_t kPreparedVersion = 2;  ///< 1 has no pairs; data without pairs is still written as 1

inline constexpr uint8_t kTargetToken = 1;    ///< the token is a target of the one before it
inline constexpr uint8_t kDocumentBegin = 2;  ///< a document begins with the token

struct PreparedManifest {
  int64_t rows = 0, cols = 0;
  int64_t vocabulary = 0;     ///< number of ids of the tokenizer: every token is below
  bool packed = false;        ///< rows hold several documents, which need the document mask
  bool weighted = false;      ///< weights.bin exists
  bool pairs = false;         ///< rows are pairs of answers; needs version 2
  std::string tokenizer;      ///< digest of tokenizer.json
  std::string chat_template;  ///< digest of the template; "" if no row was a chat
  std::string identity;       ///< digest of everything that determines the rows
  std::string tokens_digest, marks_digest, weights_digest;  ///< XXH3, 16 hexadecimal digits
  OrderedJson report;                                       ///< for people and programs; not read again
};

/// True if the folder has a manifest of prepared rows.
bool is_prepared(const std::string& folder);
/// Throws kDataInvalid, naming the field, for a manifest that is damaged, of a newer version or of another
/// kind of data; also throws what InputFile::open throws.
PreparedManifest read_manifest(const std::string& folder);
/// Returns XXH3 of a complete file as 16 hexadecimal digits. Throws what InputFile::read_at throws.
std::string file_digest(const InputFile& file);
std::string to_json(const PreparedManifest& manifest);

}  // namespace hawser::data
