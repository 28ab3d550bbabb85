// Text module: the interface between the core and libhawser_text.so, which is written in Rust with Hugging
// Face's tokenizers, minijinja and parquet. It consists of plain structs and C functions. Both sides compare
// build ids before anything else is called. module/src/contract.rs is the other side of this file.
//
// All text is UTF-8 with a length, without a NUL. Results are written to sinks while they are computed. A
// function returns a TextStatus; if it is not kTextOk, the sink `error` has received a message that does not
// name a file. No function stores an argument, starts a thread or prints. Calls with a const handle may run
// concurrently. Templates, tokenizers and rows are untrusted, so their use of stack, memory and time is
// bounded. Exceeding a bound returns kTextInvalid. The process aborts only if the machine itself has no
// memory left, because Rust offers no other way.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hawser::text {

enum TextStatus : int32_t {
  kTextOk = 0,
  kTextInvalid = 1,  ///< the input is at fault: a file, a text, an id
  kTextStopped = 2,  ///< a sink, a source or a poll ended the call
  kTextGaveUp = 3,   ///< a parser panicked: the input has something that no valid file has
};

/// Receives a result. `write` returns 0, or another number to stop the call; it must not throw.
struct TextSink {
  void* user;
  int32_t (*write)(void* user, const void* data, size_t bytes);
};

/// Provides texts. `next` returns 1 and a text that stays valid until the next call, 0 at the end, and a
/// negative number to stop the call; it must not throw.
struct TextSource {
  void* user;
  int32_t (*next)(void* user, const char** text, size_t* bytes);
};

/// A callback that can end the call; it runs on the calling thread from time to time. `stop` returns 0 to
/// continue, and may be null.
struct TextPoll {
  void* user;
  int32_t (*stop)(void* user);
};

struct TextTokenizer;  ///< a tokenizer.json
struct TextStream;     ///< a decoder that converts ids to text one by one
struct TextTemplate;   ///< a chat template
struct TextRows;       ///< a Parquet file

struct TextModule {
  const char* build_id;

  /// Reads the text of a tokenizer.json. Ignores its truncation and padding.
  int32_t (*tokenizer_open)(const char* json, size_t bytes, TextTokenizer** out, const TextSink* error);
  void (*tokenizer_close)(TextTokenizer* tokenizer);
  /// Returns the number of ids of the vocabulary: the greatest id plus 1, including added tokens.
  uint32_t (*vocabulary_size)(const TextTokenizer* tokenizer);
  /// Writes the token of an id to `token`; kTextInvalid if there is none. *special: 1 for a special token.
  int32_t (*token_of)(const TextTokenizer* tokenizer, uint32_t id, const TextSink* token, int32_t* special,
                      const TextSink* error);
  /// Sets *id to the token's id, or -1 if there is no such token.
  void (*id_of)(const TextTokenizer* tokenizer, const char* token, size_t bytes, int64_t* id);
  /// Encodes a text, or a pair of them (`second` may be null). add_special: 1 adds the tokens of the
  /// post-processor. Writes a uint32_t for each token to `ids`. Writes two uint64_t for each id to `spans`,
  /// unless it is null: the bytes [begin, end) of its text, or 0 and 0 for an added special token.
  int32_t (*encode)(const TextTokenizer* tokenizer, const char* first, size_t first_bytes, const char* second,
                    size_t second_bytes, int32_t add_special, const TextPoll* poll, const TextSink* ids,
                    const TextSink* spans, const TextSink* error);
  int32_t (*decode)(const TextTokenizer* tokenizer, const uint32_t* ids, size_t count, int32_t skip_special,
                    const TextSink* text, const TextSink* error);

  int32_t (*stream_open)(int32_t skip_special, TextStream** out);
  void (*stream_close)(TextStream* stream);
  /// Adds one id. Writes the text that is now complete to `text`; nothing while a character is incomplete.
  int32_t (*stream_next)(const TextTokenizer* tokenizer, TextStream* stream, uint32_t id,
                         const TextSink* text, const TextSink* error);

  /// Trains a byte-level BPE of `vocabulary` tokens on texts, with the special ones first (`specials`: a JSON
  /// array of names), and writes its tokenizer.json. Equal texts give equal bytes.
  int32_t (*train_bpe)(const TextSource* texts, uint32_t vocabulary, const char* specials,
                       size_t specials_bytes, const TextPoll* poll, const TextSink* json,
                       const TextSink* error);

  /// Reads a chat template: Jinja with Transformers' settings. *has_generation: 1 if the template marks the
  /// text to train on with {% generation %}.
  int32_t (*template_open)(const char* source, size_t bytes, TextTemplate** out, int32_t* has_generation,
                           const TextSink* error);
  void (*template_close)(TextTemplate* chat_template);
  /// Renders with the variables of a JSON object (messages, add_generation_prompt, bos_token, ...). `now`:
  /// the time that strftime_now prints, in seconds since 1970, in UTC. Writes two uint64_t for each span of
  /// {% generation %} to `learned`: the bytes [begin, end) of the text. Returns kTextInvalid with the
  /// template's own message if it refuses the variables, and also if it takes too many steps, too much memory
  /// or too long (module/src/limits.rs).
  int32_t (*template_render)(const TextTemplate* chat_template, const char* variables, size_t bytes,
                             int64_t now, const TextPoll* poll, const TextSink* text, const TextSink* learned,
                             const TextSink* error);

  /// Opens a Parquet file. The path may contain any bytes except NUL. *total: its number of rows.
  int32_t (*rows_open)(const char* path, size_t bytes, TextRows** out, int64_t* total, const TextSink* error);
  void (*rows_close)(TextRows* rows);
  /// Writes the next row to `json` as a JSON object. *more: 0 at the end, else 1.
  int32_t (*rows_next)(TextRows* rows, int32_t* more, const TextSink* json, const TextSink* error);
};

inline constexpr const char* kTextLibrary = "libhawser_text.so";
inline constexpr const char* kTextEntry = "hawser_text_module";
/// Type of: extern "C" const TextModule* hawser_text_module();
using TextEntry = const TextModule* (*)();

}  // namespace hawser::text
