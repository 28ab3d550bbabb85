/* Implements reinforcement learning outside the library: group relative policy optimisation (GRPO, Shao et
 * al., arXiv:2402.03300). The model generates groups of answers, a function scores them, and clipped steps
 * make the better answers more likely. The task is to repeat the token of the prompt.
 *   cc examples/grpo.c $(pkg-config --cflags --libs hawser) -lm -o grpo && ./grpo */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hawser.h"

#define PROMPTS 8 /* each prompt is one token */
#define GROUP 8   /* answers per prompt */
#define ROWS (PROMPTS * GROUP)
#define ANSWER 6
#define COLS (1 + ANSWER)
#define ROUNDS 60
#define STEPS 4 /* steps per round of answers */

static const char* config_json =
    "{\"model\": {\"vocab_size\": 16, \"context\": 8, \"layers\": 2, \"width\": 32, \"heads\": 2},"
    " \"batch\": {\"micro_batch\": 64, \"sequence\": 7}, \"train\": {\"steps\": 240},"
    " \"optimizer\": {\"learning_rate\": 0.01, \"weight_decay\": 0}, \"schedule\": {\"kind\": "
    "\"constant\"}}";

typedef struct rollout {
  int32_t tokens[ROWS * COLS], targets[ROWS * COLS];
  double advantages[ROWS]; /* (reward - mean of the group) / standard deviation of the group */
  double reward;           /* mean reward */
} rollout;

static int failed(const char* what) { /* Prints the thread's last error. */
  hws_error* error;
  if (hws_error_take(&error) == HWS_OK) fprintf(stderr, "%s: %s\n", what, hws_error_message(error));
  hws_error_destroy(error);
  return 1;
}

/* Returns the reward of an answer. Any function can be used here. */
static double score(int32_t prompt, const int32_t* answer) {
  int equal = 0;
  for (int i = 0; i < ANSWER; ++i) equal += answer[i] == prompt;
  return (double)equal / ANSWER;
}

static int32_t on_token(void* user, int32_t token) {
  int32_t** next = user;
  *(*next)++ = token;
  return 0;
}

/* Generates answers with the current model. Row r answers prompt r / GROUP. */
static int write_answers(hws_engine* engine, uint64_t seed, rollout* r) {
  double rewards[ROWS];
  r->reward = 0;
  for (int row = 0; row < ROWS; ++row) {
    int32_t* tokens = r->tokens + row * COLS;
    tokens[0] = (int32_t)((seed + (uint64_t)(row / GROUP)) % 16);
    int32_t* next = tokens + 1;
    const hws_generate_request request = {.struct_size = sizeof request,
                                          .stop_token = -1,
                                          .prompt = tokens,
                                          .prompt_length = 1,
                                          .max_tokens = ANSWER,
                                          .temperature = 1,
                                          .top_p = 1,
                                          .seed = seed * ROWS + (uint64_t)row};
    if (hws_engine_generate(engine, &request, on_token, &next, NULL)) return failed("generate");
    for (int t = 0; t < COLS; ++t) r->targets[row * COLS + t] = t < ANSWER ? tokens[t + 1] : -100;
    rewards[row] = score(tokens[0], tokens + 1);
    r->reward += rewards[row] / ROWS;
  }
  for (int first = 0; first < ROWS; first += GROUP) {
    double mean = 0, squares = 0;
    for (int i = 0; i < GROUP; ++i) mean += rewards[first + i] / GROUP;
    for (int i = 0; i < GROUP; ++i) squares += pow(rewards[first + i] - mean, 2);
    for (int i = 0; i < GROUP; ++i)
      r->advantages[first + i] = (rewards[first + i] - mean) / (sqrt(squares / (GROUP - 1)) + 1e-4);
  }
  return 0;
}

/* Takes one clipped step. The objective is the mean over tokens of -min(ratio a, clip(ratio) a) + 0.04
 * (exp(g) - g - 1), g = reference - policy. The library needs only its gradient by each token's
 * log-probability. */
static int take_step(hws_engine* engine, const hws_batch* batch, const rollout* r, const float* old,
                     const float* reference) {
  float now[ROWS * COLS], gradients[ROWS * COLS] = {0};
  if (hws_engine_logprobs(engine, batch, now, sizeof now)) return failed("logprobs");
  for (int i = 0; i < ROWS * COLS; ++i) {
    if (r->targets[i] == -100) continue;
    const double a = r->advantages[i / COLS], ratio = exp((double)now[i] - (double)old[i]);
    const double gap = (double)reference[i] - (double)now[i];
    const int clipped = a > 0 ? ratio > 1.2 : ratio < 0.8;
    gradients[i] = (float)(((clipped ? 0 : -ratio * a) + 0.04 * (1 - exp(gap))) / (ROWS * ANSWER));
  }
  if (hws_engine_backward_with(engine, batch, gradients, sizeof gradients, NULL)) return failed("backward");
  return hws_engine_commit(engine, NULL) ? failed("commit") : 0;
}

int main(void) {
  hws_config* config;
  hws_engine *engine, *frozen; /* the policy, and the reference: an untrained copy of the same model */
  if (hws_config_parse(config_json, strlen(config_json), HWS_FORMAT_JSON, &config)) return failed("config");
  if (hws_engine_create(config, 0, &engine)) return failed("engine");
  if (hws_engine_create(config, HWS_ENGINE_INFERENCE, &frozen)) return failed("reference");
  double first = 0, last = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    static rollout r;
    static float old[ROWS * COLS], reference[ROWS * COLS];
    if (write_answers(engine, (uint64_t)round, &r)) return 1;
    const hws_batch batch = {
        .struct_size = sizeof batch, .rows = ROWS, .cols = COLS, .tokens = r.tokens, .targets = r.targets};
    if (hws_engine_logprobs(engine, &batch, old, sizeof old)) return failed("logprobs");
    if (hws_engine_logprobs(frozen, &batch, reference, sizeof reference)) return failed("logprobs");
    for (int step = 0; step < STEPS; ++step)
      if (take_step(engine, &batch, &r, old, reference)) return 1;
    if (round == 0) first = r.reward;
    last = r.reward;
    if (round % 20 == 19) printf("round %d: reward %.3f\n", round + 1, r.reward);
  }
  hws_engine_destroy(frozen);
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  return last > first + 0.3 ? 0 : 1;
}
