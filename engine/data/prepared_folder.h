// PreparedFolder: rows that are already made, on disk. Each row stands whole, with what it teaches.
//
//   prepared.json   what the rows are: how many, how long, from which tokenizer; digests of the files below
//   tokens.bin      u32 [rows, cols]
//   marks.bin       u8 [rows, cols]: kTargetToken, kDocumentBegin
//   weights.bin     f32 [rows, cols], how much each token counts as a target; only if one is not 1
//
// Of pairs, rows 2i and 2i + 1 are the chosen and the rejected answer to the same prompt.
//
// A document's tokens stand beside each other within one row. What is left of a row is a document of token 0
// that teaches nothing.
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
inline constexpr int64_t kPreparedVersion = 2;  ///< 1: without pairs, which are written as 1 still

inline constexpr uint8_t kTargetToken = 1;    ///< the token is a target of the one before it
inline constexpr uint8_t kDocumentBegin = 2;  ///< a document begins with the token

struct PreparedManifest {
  int64_t rows = 0, cols = 0;
  int64_t vocabulary = 0;     ///< ids of the tokenizer: every token is below
  bool packed = false;        ///< rows hold several documents, which need the document mask
  bool weighted = false;      ///< there is weights.bin
  bool pairs = false;         ///< rows are pairs of answers; needs version 2
  std::string tokenizer;      ///< digest of tokenizer.json
  std::string chat_template;  ///< digest of the template; "" if no row was a chat
  std::string identity;       ///< digest of all that the rows follow from
  std::string tokens_digest, marks_digest, weights_digest;  ///< XXH3, 16 hexadecimal digits
  OrderedJson report;                                       ///< for people and programs; not read again
};

/// Whether a folder has a manifest of prepared rows.
bool is_prepared(const std::string& folder);
/// Throws kDataInvalid, naming the field, for a manifest that is damaged, of a newer version or of something
/// else; what InputFile::open throws.
PreparedManifest read_manifest(const std::string& folder);
/// XXH3 of a whole file, 16 hexadecimal digits. Throws what InputFile::read_at throws.
std::string file_digest(const InputFile& file);
std::string to_json(const PreparedManifest& manifest);

}  // namespace hawser::data
