/* eval, forward, generate and text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

static float g_logits[kBatchTokens * kVocab];

static void eval_is_the_loss_of_the_logits(void) {
  hws_engine* engine = tiny_engine(0);
  tiny_batch b;
  fill_batch(&b, 5);
  double loss = 0, sum = 0;
  int64_t tokens = 0, count = 0;
  CHECK_OK(hws_engine_eval(engine, &b.batch, 0, &loss, &tokens));
  CHECK_OK(hws_engine_forward(engine, &b.batch, g_logits, sizeof g_logits));
  for (int i = 0; i < kBatchTokens; ++i) {
    if (b.targets[i] < 0) continue;
    double total = 0;
    for (int v = 0; v < kVocab; ++v) total += exp((double)g_logits[i * kVocab + v]);
    sum += log(total) - (double)g_logits[i * kVocab + b.targets[i]];
    ++count;
  }
  CHECK(tokens == count && fabs(loss - sum / (double)count) < 1e-5);

  b.batch.targets = NULL;
  b.batch.cols = 5; /* any rows and columns up to the sequence */
  b.batch.rows = 3;
  CHECK_OK(hws_engine_forward(engine, &b.batch, g_logits, 3 * 5 * kVocab * sizeof(float)));
  CHECK_ERROR(hws_engine_forward(engine, &b.batch, g_logits, 16), HWS_INVALID_ARGUMENT, "logits");
  CHECK_ERROR(hws_engine_forward(engine, &b.batch, (float*)b.tokens, sizeof b.tokens), HWS_INVALID_ARGUMENT,
              "overlaps");
  CHECK_ERROR(hws_engine_eval(engine, &b.batch, 0, &loss, NULL), HWS_INVALID_ARGUMENT, "targets");
  CHECK_ERROR(hws_engine_eval(engine, NULL, 0, &loss, NULL), HWS_FAILED_PRECONDITION, "validation");
  CHECK_ERROR(hws_engine_eval(engine, &b.batch, 0, NULL, NULL), HWS_INVALID_ARGUMENT, "loss");
  hws_engine_destroy(engine);
}

static void logprobs_are_those_of_the_logits(void) {
  hws_engine* engine = tiny_engine(0);
  tiny_batch b;
  fill_batch(&b, 5);
  static float logprobs[kBatchTokens], weights[kBatchTokens];
  double loss = 0, sum = 0;
  int64_t tokens = 0;
  CHECK_OK(hws_engine_eval(engine, &b.batch, 0, &loss, &tokens));
  for (int i = 0; i < kBatchTokens; ++i) weights[i] = 0.5f;
  b.batch.weights = weights; /* they do not matter */
  CHECK_OK(hws_engine_logprobs(engine, &b.batch, logprobs, sizeof logprobs));
  b.batch.weights = NULL;
  CHECK_OK(hws_engine_forward(engine, &b.batch, g_logits, sizeof g_logits));
  for (int i = 0; i < kBatchTokens; ++i) {
    double total = 0, expected = 0;
    for (int v = 0; v < kVocab; ++v) total += exp((double)g_logits[i * kVocab + v]);
    if (b.targets[i] >= 0) expected = (double)g_logits[i * kVocab + b.targets[i]] - log(total);
    CHECK(fabs((double)logprobs[i] - expected) < 1e-5);
    CHECK(b.targets[i] >= 0 || (logprobs[i] == 0 && !signbit(logprobs[i])));
    sum -= (double)logprobs[i];
  }
  CHECK(fabs(sum / (double)tokens - loss) < 1e-6);

  b.batch.cols = 5;
  b.batch.rows = 3;
  CHECK_OK(hws_engine_logprobs(engine, &b.batch, logprobs, 3 * 5 * sizeof(float)));
  CHECK_ERROR(hws_engine_logprobs(engine, &b.batch, logprobs, 16), HWS_INVALID_ARGUMENT,
              "3 x 5 floats take 60");
  CHECK_ERROR(hws_engine_logprobs(engine, &b.batch, (float*)b.targets, 60), HWS_INVALID_ARGUMENT, "overlaps");
  b.batch.targets = NULL;
  CHECK_ERROR(hws_engine_logprobs(engine, &b.batch, logprobs, 60), HWS_INVALID_ARGUMENT, "targets");
  hws_engine_destroy(engine);
}

static void top_logprobs_are_the_likeliest_of_the_logits(void) {
  hws_engine* engine = tiny_engine(0);
  tiny_batch b;
  fill_batch(&b, 5);
  static float logprobs[kBatchTokens * 3];
  static int32_t ids[kBatchTokens * 3];
  b.batch.targets = NULL; /* it needs none */
  CHECK_OK(hws_engine_top_logprobs(engine, &b.batch, 3, ids, sizeof ids, logprobs, sizeof logprobs));
  CHECK_OK(hws_engine_forward(engine, &b.batch, g_logits, sizeof g_logits));
  for (int i = 0; i < kBatchTokens; ++i) {
    const float* row = g_logits + (ptrdiff_t)i * kVocab;
    double total = 0;
    for (int v = 0; v < kVocab; ++v) total += exp((double)row[v]);
    for (int j = 0; j < 3; ++j) {
      const int32_t id = ids[3 * i + j];
      int better = 0; /* tokens that come before it */
      for (int v = 0; v < kVocab; ++v) better += row[v] > row[id] || (row[v] == row[id] && v < id);
      CHECK(better == j);
      CHECK(fabs((double)logprobs[3 * i + j] - ((double)row[id] - log(total))) < 1e-5);
    }
  }
  CHECK_ERROR(hws_engine_top_logprobs(engine, &b.batch, 2, ids, sizeof ids, logprobs, sizeof logprobs),
              HWS_INVALID_ARGUMENT, "there is room for");
  CHECK_ERROR(
      hws_engine_top_logprobs(engine, &b.batch, kVocab + 1, ids, sizeof ids, logprobs, sizeof logprobs),
      HWS_INVALID_ARGUMENT, "the model has a vocabulary of");
  CHECK_ERROR(
      hws_engine_top_logprobs(engine, &b.batch, 3, (int32_t*)logprobs, sizeof ids, logprobs, sizeof logprobs),
      HWS_INVALID_ARGUMENT, "overlaps ids");
  CHECK_ERROR(hws_engine_top_logprobs(engine, &b.batch, 3, b.tokens, 12, logprobs, sizeof logprobs),
              HWS_INVALID_ARGUMENT, "overlaps the arrays");
  hws_engine_destroy(engine);
}

typedef struct text {
  int32_t tokens[64];
  int64_t length, stop_at, destroyed;
} text;

static int32_t on_token(void* user, int32_t token) {
  text* t = user;
  t->tokens[t->length++] = token;
  return t->length == t->stop_at;
}
static void on_destroy(void* user) { ++((text*)user)->destroyed; }

static int32_t argmax(const float* row) {
  int32_t best = 0;
  for (int32_t v = 1; v < kVocab; ++v) {
    if (row[v] > row[best]) best = v;
  }
  return best;
}

static void greedy_is_the_argmax_of_forward(void) {
  hws_engine* engine = tiny_engine(0);
  for (uint32_t i = 0; i < 6; ++i) push_and_step(engine, i);
  text t = {{3, 6, 9}, 3, 0, 0};
  hws_generate_request request = {sizeof request, -1, NULL, 3, 30, 0, 0, 1, 0, NULL, 0};
  int32_t prompt[] = {3, 6, 9};
  request.prompt = prompt;
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &t, on_destroy));
  CHECK(t.length == 33 && t.destroyed == 1);
  for (int64_t at = 3; at < kCols; ++at) { /* as long as all of it is in the window */
    hws_batch batch = {.struct_size = sizeof batch, .rows = 1};
    batch.cols = at;
    batch.tokens = t.tokens;
    CHECK_OK(hws_engine_forward(engine, &batch, g_logits, (size_t)at * kVocab * sizeof(float)));
    CHECK(argmax(g_logits + (at - 1) * kVocab) == t.tokens[at]);
  }
  text u = {{3, 6, 9}, 3, 5, 0};
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &u, NULL));
  CHECK(u.length == 5);
  u.length = 0;
  u.stop_at = 0;
  request.stop_token = t.tokens[7];
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &u, NULL));
  CHECK(u.length <= 5 && u.tokens[u.length - 1] == t.tokens[7]); /* delivered */
  const int64_t ended = u.length;
  const int32_t stops[] = {-7, kVocab + 5, t.tokens[7]}; /* any of many ends it, too */
  u.length = 0;
  request.stop_token = -1;
  request.stop_tokens = stops;
  request.stop_count = 3;
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &u, NULL));
  CHECK(u.length == ended && u.tokens[u.length - 1] == t.tokens[7]);
  request.stop_count = 2;
  u.length = 0;
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &u, NULL));
  CHECK(u.length == 30);
  hws_engine_destroy(engine);
}

static void sampling_follows_the_seed(void) {
  hws_engine* engine = tiny_engine(HWS_ENGINE_INFERENCE);
  int32_t prompt[] = {1};
  hws_generate_request request = {sizeof request, -1, prompt, 1, 20, 1.0, 10, 0.9, 42, NULL, 0};
  text a = {{0}, 0, 0, 0}, b = a, c = a;
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &a, NULL));
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &b, NULL));
  request.seed = 43;
  CHECK_OK(hws_engine_generate(engine, &request, on_token, &c, NULL));
  CHECK(memcmp(a.tokens, b.tokens, sizeof a.tokens) == 0);
  CHECK(memcmp(a.tokens, c.tokens, sizeof a.tokens) != 0);

  const hws_generate_request good = request;
  request.top_p = 0;
  CHECK_ERROR(hws_engine_generate(engine, &request, on_token, &c, on_destroy), HWS_INVALID_ARGUMENT, "top_p");
  CHECK(c.destroyed == 1);
  request = good, request.temperature = -1;
  CHECK_ERROR(hws_engine_generate(engine, &request, on_token, &c, NULL), HWS_INVALID_ARGUMENT, "temperature");
  request = good, request.prompt_length = 0;
  CHECK_ERROR(hws_engine_generate(engine, &request, on_token, &c, NULL), HWS_INVALID_ARGUMENT,
              "prompt_length");
  request = good, prompt[0] = kVocab;
  CHECK_STATUS(hws_engine_generate(engine, &request, on_token, &c, NULL), HWS_DATA_INVALID);
  prompt[0] = 1;
  CHECK_ERROR(hws_engine_generate(engine, &request, NULL, NULL, NULL), HWS_INVALID_ARGUMENT, "callback");
  hws_engine_destroy(engine);
}

static void text_goes_both_ways(void) {
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  CHECK_OK(hws_engine_create(config, 0, &engine));
  hws_buffer* tokens = NULL;
  hws_buffer* text = NULL;
  CHECK_OK(hws_text_encode(engine, "a\xc3\xa9z", 4, &tokens));
  CHECK(hws_buffer_size(tokens) == 16);
  const int32_t* ids = hws_buffer_data(tokens);
  CHECK(ids[0] == 'a' && ids[1] == 0xc3 && ids[3] == 'z');
  CHECK_OK(hws_text_decode(engine, ids, 4, &text));
  CHECK(strcmp(check_text(text), "a\xc3\xa9z") == 0);
  hws_buffer_destroy(tokens);
  CHECK_OK(hws_text_encode(engine, NULL, 0, &tokens));
  CHECK(hws_buffer_size(tokens) == 0);
  hws_buffer_destroy(tokens);
  const int32_t wrong = 256;
  CHECK_STATUS(hws_text_decode(engine, &wrong, 1, &text), HWS_INVALID_ARGUMENT);
  CHECK_ERROR(hws_text_decode(engine, NULL, 1, &text), HWS_INVALID_ARGUMENT, "tokens");
  CHECK_ERROR(hws_text_decode(engine, &wrong, (size_t)-1, &text), HWS_INVALID_ARGUMENT, "tokens");
  hws_engine_destroy(engine);
  hws_config_destroy(config);

  engine = tiny_engine(0); /* no vocabulary */
  CHECK_STATUS(hws_text_encode(engine, "a", 1, &tokens), HWS_FAILED_PRECONDITION);
  CHECK(tokens == NULL);
  hws_engine_destroy(engine);
}

/* Stores the losses of two steps and of an evaluation. */
static void train_a_little(hws_engine* engine, double* losses) {
  tiny_batch batch;
  int64_t tokens = 0;
  for (int i = 0; i < 2; ++i) losses[i] = push_and_step(engine, (uint32_t)i).loss;
  fill_batch(&batch, 9);
  CHECK_OK(hws_engine_eval(engine, &batch.batch, 0, &losses[2], &tokens));
}

static void engines_stand_on_one_base(void) {
  char folder[512], init[640];
  snprintf(folder, sizeof folder, "%s", check_path("base"));
  snprintf(init, sizeof init, "{\"from\": \"%s\"}", folder);
  hws_engine* engine = tiny_engine(0);
  CHECK_OK(hws_engine_export(engine, folder, "f32"));
  hws_config* config = tiny_config();
  hws_engine *base = NULL, *one = NULL, *two = NULL, *alone = NULL;
  CHECK_OK(hws_config_set(config, "/init", init));
  CHECK_OK(hws_engine_create(config, HWS_ENGINE_INFERENCE, &base));
  CHECK_ERROR(hws_engine_create_on(base, config, NULL, 0, &one), HWS_CONFIG_INVALID, "/adapter");
  CHECK(one == NULL);
  CHECK_OK(hws_config_set(config, "/adapter", "{\"rank\": 2}"));
  CHECK_ERROR(hws_engine_create_on(engine, config, NULL, 0, &one), HWS_FAILED_PRECONDITION,
              "HWS_ENGINE_INFERENCE");
  CHECK_OK(hws_engine_create_on(base, config, NULL, 0, &one));
  CHECK_OK(hws_engine_create_on(base, config, NULL, 0, &two));
  hws_engine_destroy(base); /* its weights stay */
  CHECK_ERROR(hws_engine_create_on(base, config, NULL, 0, &base), HWS_BAD_HANDLE, "engine");
  CHECK_OK(hws_engine_create(config, 0, &alone));
  double losses[3][3];
  train_a_little(one, losses[0]);
  hws_engine_destroy(one);
  train_a_little(two, losses[1]);
  train_a_little(alone, losses[2]);
  CHECK(memcmp(losses[0], losses[2], sizeof losses[0]) == 0);
  CHECK(memcmp(losses[1], losses[2], sizeof losses[0]) == 0);
  hws_engine_destroy(two);
  hws_engine_destroy(alone);
  hws_engine_destroy(engine);
  hws_config_destroy(config);
}

int main(void) {
  check_begin();
  engines_stand_on_one_base();
  eval_is_the_loss_of_the_logits();
  logprobs_are_those_of_the_logits();
  top_logprobs_are_the_likeliest_of_the_logits();
  greedy_is_the_argmax_of_forward();
  sampling_follows_the_seed();
  text_goes_both_ways();
  return check_end();
}
