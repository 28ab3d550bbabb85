/* A model of some 20,000 parameters and batches for it, shared by the C tests. */
#ifndef HAWSER_TESTS_CAPI_TINY_H
#define HAWSER_TESTS_CAPI_TINY_H

#include <hawser.h>
#include <stdint.h>

enum { kRows = 4, kCols = 16, kVocab = 61, kBatchTokens = kRows * kCols };

/* GPT-2 in small: batches of kRows x kCols are pushed. */
extern const char kTinyConfig[];

hws_config* tiny_config(void);
hws_engine* tiny_engine(uint32_t flags);
/* Reads its tokens as bytes from a text file that this writes; vocabulary of 256; 8 steps, then validation.
 */
hws_config* text_config(void);

/* A batch with its storage; targets are the next tokens, some masked. Deterministic in `seed`. */
typedef struct tiny_batch {
  hws_batch batch;
  int32_t tokens[kBatchTokens];
  int32_t targets[kBatchTokens];
} tiny_batch;
void fill_batch(tiny_batch* b, uint32_t seed);

/* Pushes batch number `seed` and takes a step. */
hws_step_result push_and_step(hws_engine* engine, uint32_t seed);
/* Writes all weights, one after the other, to an array of `capacity` floats. Returns how many there are. */
int64_t all_weights(hws_engine* engine, float* weights, int64_t capacity);
enum { kMaxWeights = 65536 };

#endif
