/* Host file tests: a write beyond RLIMIT_FSIZE makes the call fail, and never ends the host program by
 * SIGXFSZ, whichever thread writes. If a host program has closed its standard descriptors, its output does
 * not go to a file or a connection of the library. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "tiny.h"

static void limit_file_size(rlim_t bytes) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  limit.rlim_cur = bytes;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static int entries(const char* folder) {
  int count = -2; /* . and .. */
  DIR* listing = opendir(folder);
  while (listing != NULL && readdir(listing) != NULL) ++count;
  if (listing != NULL) closedir(listing);
  return count;
}

/* Checks that the thread's signal mask is unchanged and that no SIGXFSZ is pending. */
static void check_signals(const sigset_t* before) {
  sigset_t mask, pending;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  sigpending(&pending);
  for (int i = 1; i < 32; ++i) CHECK(sigismember(&mask, i) == sigismember(before, i));
  CHECK(!sigismember(&pending, SIGXFSZ));
}

static hws_engine* engine_of(int ranks) {
  if (ranks == 1) return tiny_engine(0);
  hws_config* config = tiny_config();
  hws_comm* comm = NULL;
  hws_engine* engine = NULL;
  CHECK_OK(hws_config_set(config, "/mesh/dp_shard", "2"));
  CHECK_OK(hws_config_set(config, "/batch/grad_accum_steps", "1"));
  CHECK_OK(hws_comm_create_local(ranks, &comm));
  CHECK_OK(hws_engine_create_ranks(config, comm, 0, &engine));
  hws_comm_destroy(comm);
  hws_config_destroy(config);
  return engine;
}

static const char kWords[] = "File too large; the process has a limit on file sizes";

static void saves_say_that_a_file_may_not_grow(int ranks) {
  hws_engine* engine = engine_of(ranks);
  hws_op* op = NULL;
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  char folder[512], old[600], next[600], model[600];
  snprintf(folder, sizeof folder, "%s-%d", check_path("limited"), ranks);
  snprintf(old, sizeof old, "%s/step-1", folder);
  snprintf(next, sizeof next, "%s/step-2", folder);
  snprintf(model, sizeof model, "%s/model", folder);
  CHECK_OK(hws_checkpoint_save(engine, old));
  CHECK_OK(hws_checkpoint_export(old, model, ""));
  const int there = entries(folder);

  limit_file_size(2000);
  for (int i = 0; i < 3; ++i) CHECK_ERROR(hws_checkpoint_save(engine, next), HWS_IO, kWords);
  CHECK_OK(hws_checkpoint_save_async(engine, next, &op));
  CHECK_ERROR(hws_op_wait(op, -1), HWS_IO, kWords);
  hws_op_destroy(op);
  CHECK_ERROR(hws_checkpoint_export(old, next, ""), HWS_IO, kWords);
  CHECK_ERROR(hws_checkpoint_import(model, next, "[]"), HWS_IO, kWords);
  check_signals(&before);
  CHECK(entries(folder) == there);
  CHECK_OK(hws_checkpoint_verify(old));
  limit_file_size(RLIM_INFINITY);

  CHECK_OK(hws_checkpoint_save(engine, next));
  CHECK_OK(hws_checkpoint_verify(next));
  hws_engine_destroy(engine);
}

static volatile int g_printing;

/* Prints as a host program does, whatever its descriptors are. */
static void* print(void* unused) {
  (void)unused;
  while (g_printing)
    for (int file = 0; file < 3; ++file)
      if (write(file, "words of the host", 17) < 0) continue;
  return NULL;
}

static void nothing_printed_lands_in_a_file(void) {
  hws_engine* engine = tiny_engine(0);
  int kept[3];
  for (int file = 0; file < 3; ++file) {
    kept[file] = fcntl(file, F_DUPFD_CLOEXEC, 3);
    close(file);
  }
  pthread_t printer;
  g_printing = 1;
  CHECK(pthread_create(&printer, NULL, print, NULL) == 0);
  for (int i = 0; i < 20; ++i) {
    char path[600];
    snprintf(path, sizeof path, "%s/step-%d", check_path("printed"), i);
    CHECK_OK(hws_checkpoint_save(engine, path));
    CHECK_OK(hws_checkpoint_verify(path));
  }
  g_printing = 0;
  pthread_join(printer, NULL);
  for (int file = 0; file < 3; ++file) {
    CHECK(dup2(kept[file], file) == file);
    close(kept[file]);
  }
  hws_engine_destroy(engine);
}

int main(void) {
  check_begin();
  saves_say_that_a_file_may_not_grow(1);
  saves_say_that_a_file_may_not_grow(2);
  nothing_printed_lands_in_a_file();
  return check_end();
}
