/* Host tests: an engine leaves the state of the host program unchanged: signal handlers and mask, locale,
 * environment, umask, working directory, floating-point state, open files. The library has no thread before
 * the first engine exists, and none after the last is destroyed. (check.h checks in every C test that
 * nothing is written to stdout or stderr.) */
#define _GNU_SOURCE
#include <dirent.h>
#include <fenv.h>
#include <float.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "tiny.h"

extern char** environ;
enum { kSignals = 64 };

typedef struct state {
  void (*handlers[kSignals])(int);
  int flags[kSignals];
  sigset_t mask;
  char locale[256], folder[1024];
  char** environment;
  size_t environment_bytes;
  mode_t umask;
  int rounding, trapping, denormal_results, denormal_operands;
  long files, threads;
} state;

static long entries(const char* folder) {
  long count = 0;
  DIR* listing = opendir(folder);
  while (listing != NULL && readdir(listing) != NULL) ++count;
  if (listing != NULL) closedir(listing);
  return count;
}

/* A joined thread disappears from /proc a moment later. */
static int threads_fall_to(long threads) {
  const struct timespec moment = {0, 1000000};
  for (int i = 0; i < 5000 && entries("/proc/self/task") > threads; ++i) nanosleep(&moment, NULL);
  return entries("/proc/self/task") == threads;
}

static void look(state* s) {
  memset(s, 0, sizeof *s);
  for (int i = 1; i < kSignals; ++i) {
    struct sigaction action;
    if (sigaction(i, NULL, &action) != 0) continue;
    s->handlers[i] = action.sa_handler;
    s->flags[i] = action.sa_flags;
  }
  pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
  snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
  CHECK(getcwd(s->folder, sizeof s->folder) != NULL);
  s->environment = environ;
  for (char** e = environ; *e != NULL; ++e) s->environment_bytes += strlen(*e) + 1;
  s->umask = umask(0);
  umask(s->umask);
  s->rounding = fegetround();
  s->trapping = fegetexcept();
  volatile float smallest = FLT_MIN, denormal = FLT_MIN / 2, one = 1;
  s->denormal_results = smallest / 2 > 0;
  s->denormal_operands = denormal * one > 0;
  s->files = entries("/proc/self/fd");
  s->threads = entries("/proc/self/task");
}

static void expect_same(const state* a, const state* b) {
  CHECK(memcmp(a->handlers, b->handlers, sizeof a->handlers) == 0);
  CHECK(memcmp(a->flags, b->flags, sizeof a->flags) == 0);
  for (int i = 1; i < kSignals; ++i) CHECK(sigismember(&a->mask, i) == sigismember(&b->mask, i));
  CHECK(strcmp(a->locale, b->locale) == 0);
  CHECK(strcmp(a->folder, b->folder) == 0);
  CHECK(a->environment == b->environment && a->environment_bytes == b->environment_bytes);
  CHECK(a->umask == b->umask);
  CHECK(a->rounding == b->rounding && a->trapping == b->trapping);
  CHECK(a->denormal_results == b->denormal_results && a->denormal_operands == b->denormal_operands);
}

static void live(int ranks) {
  hws_config* config = text_config();
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  hws_op* op = NULL;
  hws_buffer* out = NULL;
  char name[32];
  CHECK_OK(hws_config_set(config, "/mesh/dp_shard", ranks == 1 ? "1" : "2"));
  CHECK_OK(hws_config_set(config, "/batch", "{\"micro_batch\":1,\"global_batch\":4,\"sequence\":16}"));
  state before, during;
  look(&before);
  CHECK_OK(hws_comm_create_local(ranks, &comm));
  CHECK(entries("/proc/self/task") == before.threads); /* no thread before an engine */
  CHECK_OK(hws_engine_create_ranks(config, comm, 0, &engine));
  CHECK(entries("/proc/self/task") > before.threads);
  CHECK_OK(hws_engine_train(engine, 3, NULL, NULL, NULL));
  CHECK_OK(hws_engine_metrics(engine, &out));
  hws_buffer_destroy(out);
  snprintf(name, sizeof name, "saved-%d", ranks);
  CHECK_OK(hws_checkpoint_save(engine, check_path(name)));
  CHECK_OK(hws_checkpoint_load(engine, check_path(name), 0));
  snprintf(name, sizeof name, "beside-%d", ranks);
  CHECK_OK(hws_checkpoint_save_async(engine, check_path(name), &op));
  CHECK_OK(hws_op_wait(op, -1));
  hws_op_destroy(op);
  look(&during);
  expect_same(&before, &during);
  hws_engine_destroy(engine);
  hws_comm_destroy(comm);
  look(&during);
  expect_same(&before, &during);
  CHECK(during.files == before.files);
  CHECK(threads_fall_to(before.threads)); /* none after the last engine */
  hws_config_destroy(config);
}

static void on_signal(int number) { (void)number; }

int main(void) {
  check_begin();
  live(1);
  live(2);
  /* Repeats the check for a host program with settings of its own. */
  signal(SIGPIPE, SIG_IGN);
  signal(SIGUSR1, on_signal);
  fesetround(FE_UPWARD);
  umask(027);
  state before, after;
  look(&before);
  hws_engine* engine = tiny_engine(0);
  push_and_step(engine, 1);
  hws_engine_destroy(engine);
  look(&after);
  expect_same(&before, &after);
  CHECK(after.files == before.files && threads_fall_to(before.threads));
  fesetround(FE_TONEAREST);
  return check_end();
}
