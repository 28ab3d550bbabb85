/* Runs three short trainings through the C API, which each language must reproduce bit for bit.
 *   binding_losses FILE
 * writes a JSON object:
 *   "rows", "columns"  the shape of a batch
 *   "batches"          [{"tokens": [rows * columns numbers], "targets": [...]}], one element per step
 *   "runs"             [{"name", "ranks", "config": {...}, "losses": [...], "grad_norms": [...]}], with one
 *                      number per step
 * Numbers have 17 digits, so a reader of doubles gets the same bits. */
#include <stdio.h>
#include <string.h>

#include "hawser.h"

#define ROWS 8
#define COLUMNS 16
#define VOCABULARY 61
#define STEPS 6

#define MODEL                                                                                                \
  "\"seed\": 7, \"cpu\": {\"threads\": 2}, \"model\": {\"vocab_size\": 61, \"context\": 16, \"layers\": 2, " \
  "\"width\": 32, \"heads\": 4}, \"optimizer\": {\"learning_rate\": 0.01}, \"train\": {\"steps\": 8}, "

static const struct {
  const char* name;
  int32_t ranks; /* these are threads of this process */
  const char* config;
} kRuns[] = {
    {"fp32", 1, "{" MODEL "\"batch\": {\"micro_batch\": 4, \"grad_accum_steps\": 2}}"},
    {"bf16", 1, "{" MODEL "\"precision\": \"bf16\", \"batch\": {\"micro_batch\": 8}}"},
    {"zero", 4,
     "{" MODEL "\"mesh\": {\"dp_shard\": 4}, \"zero\": {\"stage\": 2}, \"batch\": {\"micro_batch\": 2}}"}};

static int32_t tokens[STEPS][ROWS * COLUMNS], targets[STEPS][ROWS * COLUMNS];

static void fill(void) { /* Each target is the next token; the last target of a row is masked. */
  uint32_t random = 1;
  for (int s = 0; s < STEPS; ++s) {
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
      random = random * 1664525u + 1013904223u;
      tokens[s][i] = (int32_t)((random >> 16) % VOCABULARY);
    }
    for (int i = 0; i < ROWS * COLUMNS; ++i)
      targets[s][i] = i % COLUMNS == COLUMNS - 1 ? -100 : tokens[s][i + 1];
  }
}

static int failed(const char* run, const char* what) {
  hws_error* error = NULL;
  if (hws_error_take(&error) == HWS_OK) fprintf(stderr, "%s: %s: %s\n", run, what, hws_error_message(error));
  hws_error_destroy(error);
  return 1;
}

static void write_integers(FILE* out, const char* name, const int32_t* values) {
  fprintf(out, "\"%s\": [", name);
  for (int i = 0; i < ROWS * COLUMNS; ++i) fprintf(out, "%s%d", i > 0 ? ", " : "", values[i]);
  fputs("]", out);
}

static void write_numbers(FILE* out, const char* name, const double* values) {
  fprintf(out, ", \"%s\": [", name);
  for (int s = 0; s < STEPS; ++s) fprintf(out, "%s%.17g", s > 0 ? ", " : "", values[s]);
  fputs("]", out);
}

static int write_run(FILE* out, const char* name, int32_t ranks, const char* json) {
  hws_config* config = NULL;
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  double losses[STEPS], norms[STEPS];
  if (hws_config_parse(json, strlen(json), HWS_FORMAT_JSON, &config)) return failed(name, "config");
  if (ranks > 1 && hws_comm_create_local(ranks, &comm)) return failed(name, "comm");
  if (ranks > 1 ? hws_engine_create_ranks(config, comm, 0, &engine) : hws_engine_create(config, 0, &engine))
    return failed(name, "engine");
  for (int s = 0; s < STEPS; ++s) {
    const hws_batch batch = {.struct_size = sizeof batch,
                             .rows = ROWS,
                             .cols = COLUMNS,
                             .tokens = tokens[s],
                             .targets = targets[s]};
    hws_step_result result = {.struct_size = sizeof result};
    if (hws_data_push(engine, &batch)) return failed(name, "push");
    if (hws_engine_train_step(engine, &result)) return failed(name, "step");
    losses[s] = result.loss;
    norms[s] = result.grad_norm;
  }
  fprintf(out, "{\"name\": \"%s\", \"ranks\": %d, \"config\": %s", name, ranks, json);
  write_numbers(out, "losses", losses);
  write_numbers(out, "grad_norms", norms);
  fputs("}", out);
  hws_engine_destroy(engine);
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  return 0;
}

int main(int argc, char** argv) {
  FILE* out = argc == 2 ? fopen(argv[1], "w") : NULL;
  if (out == NULL) {
    fputs("usage: binding_losses FILE (one that can be written)\n", stderr);
    return 2;
  }
  fill();
  fprintf(out, "{\"rows\": %d, \"columns\": %d,\n\"batches\": [", ROWS, COLUMNS);
  for (int s = 0; s < STEPS; ++s) {
    fputs(s > 0 ? ",\n{" : "\n{", out);
    write_integers(out, "tokens", tokens[s]);
    fputs(", ", out);
    write_integers(out, "targets", targets[s]);
    fputs("}", out);
  }
  fputs("],\n\"runs\": [", out);
  int failures = 0;
  for (size_t r = 0; r < sizeof kRuns / sizeof kRuns[0]; ++r) {
    fputs(r > 0 ? ",\n" : "\n", out);
    failures += write_run(out, kRuns[r].name, kRuns[r].ranks, kRuns[r].config);
  }
  fputs("]}\n", out);
  return fclose(out) != 0 || failures > 0;
}
