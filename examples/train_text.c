/* Trains the quickstart model on a text and exports it. README.md shows this program. MODEL is a new Hugging
 * Face folder, or a file for llama.cpp if its name ends in .gguf.
 *   cc examples/train_text.c $(pkg-config --cflags --libs hawser) -o train_text
 *   ./train_text BOOK.txt MODEL */
#include <hawser.h>
#include <stdio.h>

static int32_t show(void* user, const hws_train_record* at) {
  (void)user;
  if (at->step % 20 == 0) printf("step %lld: loss %.3f\n", (long long)at->step, at->loss);
  return 0; /* anything else ends the run */
}

int main(int argc, char** argv) {
  hws_config* config = NULL;
  hws_engine* engine = NULL;
  hws_error* error = NULL;
  if (argc != 3) return fprintf(stderr, "usage: train_text TEXT MODEL\n"), 2;
  FILE* taken = fopen(argv[2], "r"); /* opens a folder too */
  if (taken) return fclose(taken), fprintf(stderr, "%s exists; give a new folder\n", argv[2]), 2;
  if (!hws_config_preset("quickstart", &config) && !hws_config_set(config, "/data/path", argv[1]) &&
      !hws_config_set(config, "/train/steps", "100") && !hws_engine_create(config, 0, &engine) &&
      !hws_engine_train(engine, 0, show, NULL, NULL) && !hws_engine_export(engine, argv[2], "bf16"))
    printf("saved %s\n", argv[2]);
  else if (!hws_error_take(&error))
    fprintf(stderr, "%s\n", hws_error_message(error));
  hws_error_destroy(error);
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  return error != NULL;
}
