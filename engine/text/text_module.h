// The interface between the core and libhawser_text.so, which is Rust over Hugging Face's tokenizers,
// minijinja and parquet: plain structs and C functions. Both sides compare build ids before anything else is
// called. module/src/contract.rs is the other side of this file.
//
// All text is UTF-8 with a length, without a NUL. Results go to sinks as they are made. A function returns a
// TextStatus; if it is not kTextOk, a message without the name of a file has gone to the sink `error`. No
// function keeps an argument, starts a thread or prints. Calls with a const handle may run beside each other.
// Templates, tokenizers and rows come from strangers, so their use of stack, memory and time is bounded.
// Exceeding a bound returns kTextInvalid. The process aborts only if the machine itself has no memory left,
// because Rust offers no other way.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hawser::text {

enum TextStatus : int32_t {
  kTextOk = 0,
  kTextInvalid = 1,  ///< what was given is at fault: a file, a text, an id
  kTextStopped = 2,  ///< a sink, a source or a poll ended the call
  kTextGaveUp = 3,   ///< a parser panicked at what was given: something in it that no valid file has
};

/// Where a result goes. `write` returns 0, or another number to stop the call; it must not throw.
struct TextSink {
  void* user;
  int32_t (*write)(void* user, const void* data, size_t bytes);
};

/// Where texts come from. `next` returns 1 and a text that stays until the next call, 0 at the end, and a
/// negative number to stop the call; it must not throw.
struct TextSource {
  void* user;
  int32_t (*next)(void* user, const char** text, size_t* bytes);
};

/// A callback that returns whether to end the call; it runs on the calling thread from time to time. `stop`
/// returns 0 to continue, and may be null.
struct TextPoll {
  void* user;
  int32_t (*stop)(void* user);
};

struct TextTokenizer;  ///< a tokenizer.json
struct TextStream;     ///< ids that become text one after the other
struct TextTemplate;   ///< a chat template
struct TextRows;       ///< a Parquet file

struct TextModule {
  const char* build_id;

  /// Reads the text of a tokenizer.json. Truncation and padding that it asks for are left out.
  int32_t (*tokenizer_open)(const char* json, size_t bytes, TextTokenizer** out, const TextSink* error);
  void (*tokenizer_close)(TextTokenizer* tokenizer);
  /// How many ids the vocabulary has room for: the greatest one plus 1, added tokens among them.
  uint32_t (*vocabulary_size)(const TextTokenizer* tokenizer);
  /// The token of an id to `token`; kTextInvalid if there is none. *special: 1 for a special token.
  int32_t (*token_of)(const TextTokenizer* tokenizer, uint32_t id, const TextSink* token, int32_t* special,
                      const TextSink* error);
  /// *id: that of a token, or -1.
  void (*id_of)(const TextTokenizer* tokenizer, const char* token, size_t bytes, int64_t* id);
  /// Encodes a text, or a pair of them (`second` may be null). add_special: 1 adds what the post-processor
  /// adds. To `ids`: uint32_t each. To `spans`, unless it is null: two uint64_t for each id, the bytes
  /// [begin, end) of its text; of an added special token 0 and 0.
  int32_t (*encode)(const TextTokenizer* tokenizer, const char* first, size_t first_bytes, const char* second,
                    size_t second_bytes, int32_t add_special, const TextPoll* poll, const TextSink* ids,
                    const TextSink* spans, const TextSink* error);
  int32_t (*decode)(const TextTokenizer* tokenizer, const uint32_t* ids, size_t count, int32_t skip_special,
                    const TextSink* text, const TextSink* error);

  int32_t (*stream_open)(int32_t skip_special, TextStream** out);
  void (*stream_close)(TextStream* stream);
  /// Adds one id. To `text`: what can be said now; nothing while the bytes of a character are not whole.
  int32_t (*stream_next)(const TextTokenizer* tokenizer, TextStream* stream, uint32_t id,
                         const TextSink* text, const TextSink* error);

  /// Learns a byte-level BPE of `vocabulary` tokens from texts, the special ones first (`specials`: a JSON
  /// array of names), and writes its tokenizer.json. Equal texts give equal bytes.
  int32_t (*train_bpe)(const TextSource* texts, uint32_t vocabulary, const char* specials,
                       size_t specials_bytes, const TextPoll* poll, const TextSink* json,
                       const TextSink* error);

  /// Reads a chat template: Jinja as Transformers sets it up. *has_generation: 1 if it says what is learned,
  /// by {% generation %}.
  int32_t (*template_open)(const char* source, size_t bytes, TextTemplate** out, int32_t* has_generation,
                           const TextSink* error);
  void (*template_close)(TextTemplate* chat_template);
  /// Renders with the variables of a JSON object (messages, add_generation_prompt, bos_token, ...). `now`:
  /// the time that strftime_now prints, in seconds since 1970, in UTC. To `learned`: two uint64_t for each
  /// span of {% generation %}, the bytes [begin, end) of the text. kTextInvalid: the template's own message
  /// if it refuses the variables; also a template that takes too many steps, too much memory or too long
  /// (module/src/limits.rs).
  int32_t (*template_render)(const TextTemplate* chat_template, const char* variables, size_t bytes,
                             int64_t now, const TextPoll* poll, const TextSink* text, const TextSink* learned,
                             const TextSink* error);

  /// Opens a Parquet file. The path may hold any bytes but NUL. *total: its rows.
  int32_t (*rows_open)(const char* path, size_t bytes, TextRows** out, int64_t* total, const TextSink* error);
  void (*rows_close)(TextRows* rows);
  /// The next row as a JSON object to `json`. *more: 0 at the end, else 1.
  int32_t (*rows_next)(TextRows* rows, int32_t* more, const TextSink* json, const TextSink* error);
};

inline constexpr const char* kTextLibrary = "libhawser_text.so";
inline constexpr const char* kTextEntry = "hawser_text_module";
/// extern "C" const TextModule* hawser_text_module();
using TextEntry = const TextModule* (*)();

}  // namespace hawser::text
