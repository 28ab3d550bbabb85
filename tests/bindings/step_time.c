/* Measures the cost of a step in a C program, to compare with each language. Run it by hand, not with ctest.
 *   binding_step_time [STEPS]
 * pushes a batch and takes a step of a toy model, and prints a JSON object of medians in microseconds:
 *   "around"  time of push and step without the step's own time (hws_step_result.seconds)
 *   "whole"   time of push and step */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hawser.h"

#define ROWS 2
#define COLUMNS 8
#define WARM_UP 100

static const char kConfig[] =
    "{\"seed\": 7, \"cpu\": {\"threads\": 1}, \"model\": {\"vocab_size\": 61, \"context\": 8, \"layers\": 1, "
    "\"width\": 16, "
    "\"heads\": 2}, \"batch\": {\"micro_batch\": 2}, \"train\": {\"steps\": 1000000}}";

static double microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return values[count / 2];
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 2000;
  if (steps < 1) return 2;
  double* around = malloc(sizeof *around * (size_t)steps);
  double* whole = malloc(sizeof *whole * (size_t)steps);
  hws_config* config = NULL;
  hws_engine* engine = NULL;
  if (around == NULL || whole == NULL ||
      hws_config_parse(kConfig, strlen(kConfig), HWS_FORMAT_JSON, &config) != HWS_OK ||
      hws_engine_create(config, 0, &engine) != HWS_OK)
    return 1;
  int32_t tokens[ROWS * COLUMNS], targets[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; ++i) {
    tokens[i] = i;
    targets[i] = i + 1;
  }
  for (int i = -WARM_UP; i < steps; ++i) {
    hws_batch batch = {
        .struct_size = sizeof batch, .rows = ROWS, .cols = COLUMNS, .tokens = tokens, .targets = targets};
    hws_step_result result = {.struct_size = sizeof result};
    const double begin = microseconds();
    if (hws_data_push(engine, &batch) != HWS_OK || hws_engine_train_step(engine, &result) != HWS_OK) return 1;
    const double took = microseconds() - begin;
    if (i < 0) continue;
    whole[i] = took;
    around[i] = took - result.seconds * 1e6;
  }
  printf("{\"around\": %.2f, \"whole\": %.2f}\n", median(around, steps), median(whole, steps));
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  free(around);
  free(whole);
  return 0;
}
