/* Const calls: any number of threads may make them at once, also while one trains. Each call succeeds or
 * returns HWS_BUSY, and none changes the results of training. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "misuse.h"
#include "tiny.h"

enum { kThreads = 16, kRounds = 3, kMostConst = 128, kSteps = 12, kArrayBytes = 128 };

/* A const function's row, and the results of its calls. */
typedef struct tally {
  const function* f;
  int calls, done;
} tally;

typedef struct hammer {
  pthread_t thread;
  int number, rounds, beside_training;
  tally tallies[kMostConst];
  cell cells[kParameters];
} hammer;

static hammer g_hammers[kThreads];
static int g_const_count;
static char g_folder[512];
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static int g_running;

/* ----------------------------------------------------------------------------------------- what is const */

static char* text_of(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) exit(3);
  static char text[1 << 18];
  const size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = '\0';
  return text;
}

static const function* row_of(const function* functions, int count, const char* name, size_t length) {
  for (int i = 0; i < count; ++i) {
    if (strlen(functions[i].name) == length && strncmp(functions[i].name, name, length) == 0)
      return &functions[i];
  }
  return NULL;
}

/* Every `HWS_API ... name(const hws_... *` whose first parameter is a handle. */
static void find_const_functions(const function* functions, int count, const char* header) {
  for (const char* at = text_of(header); (at = strstr(at, "\nHWS_API ")) != NULL; ++at) {
    const char* open = strchr(at, '(');
    if (strncmp(open + 1, "const hws_", 10) != 0) continue;
    const char* name = open;
    while (name[-1] != ' ' && name[-1] != '*') --name;
    const function* f = row_of(functions, count, name, (size_t)(open - name));
    if (f == NULL) {
      check_failed(header, 0, name);
    } else if (f->parameters[0].kind == kHandle && g_const_count < kMostConst && !is_without_module(f)) {
      for (int i = 0; i < kThreads; ++i) g_hammers[i].tallies[g_const_count].f = f;
      ++g_const_count;
    }
  }
}

/* ---------------------------------------------------------------------------------------------- one call */

/* Returns an argument that no other thread uses: memory of this thread, or a path of this call. */
static value argument(hammer* h, const function* f, int at, int call) {
  const parameter* p = &f->parameters[at];
  cell* c = &h->cells[at];
  value v;
  if (p->kind == kPath) {
    snprintf((char*)c->bytes, kCellBytes, "%s-%d-%d", g_folder, h->number, call);
  } else if (p->kind == kArray && p->low > 1) {
    memcpy(c->bytes, p->good.p, kArrayBytes);
  } else {
    return good_value(f, at, c);
  }
  v.p = c;
  return v;
}

/* True if a call may return this status: that of its row, or one of a few others. */
static int may_answer(const hammer* h, const tally* t, int32_t status) {
  const int type = t->f->parameters[0].type;
  const char* name = t->f->name;
  if (status == t->f->status) return 1;
  if (status == HWS_FAILED_PRECONDITION) return strcmp(name, "hws_tensor_statistics") == 0; /* none pending */
  if (status != HWS_BUSY) return 0;
  if (strcmp(name, "hws_engine_create_ranks") == 0) return 1; /* the comm serves one engine at a time */
  if (strcmp(name, "hws_engine_metrics") == 0 || strcmp(name, "hws_engine_flight") == 0 ||
      strcmp(name, "hws_engine_sizes") == 0 || strcmp(name, "hws_engine_progress") == 0 ||
      strcmp(name, "hws_engine_cancel") == 0)
    return 0; /* at any time */
  return type == kEngine && h->beside_training;
}

static void call(hammer* h, tally* t) {
  const function* f = t->f;
  value v[kParameters];
  for (int i = 0; i < kParameters; ++i) v[i] = argument(h, f, i, t->calls);
  const int32_t status = f->call(v);
  ++t->calls;
  t->done += status == f->status;
  if (!may_answer(h, t, status)) check_status(f->name, h->number, f->name, status, f->status);
  for (int i = 0; i < kParameters; ++i) {
    if (f->parameters[i].kind == kOut && status == HWS_OK)
      destroy_object(f->parameters[i].type, h->cells[i].pointer);
  }
}

static void* run(void* user) {
  hammer* h = user;
  for (int round = 0; round < h->rounds; ++round) {
    for (int i = 0; i < g_const_count; ++i) call(h, &h->tallies[(i + 5 * h->number) % g_const_count]);
  }
  pthread_mutex_lock(&g_mutex);
  --g_running;
  pthread_mutex_unlock(&g_mutex);
  return NULL;
}

/* ------------------------------------------------------------------------------------------------ phases */

static void begin(int rounds, int beside_training) {
  g_running = kThreads;
  for (int i = 0; i < kThreads; ++i) {
    hammer* h = &g_hammers[i];
    h->number = i, h->rounds = rounds, h->beside_training = beside_training;
    for (int k = 0; k < g_const_count; ++k) h->tallies[k].done = 0;
    CHECK(pthread_create(&h->thread, NULL, run, h) == 0);
  }
}

static void end(void) {
  for (int i = 0; i < kThreads; ++i) pthread_join(g_hammers[i].thread, NULL);
}

static int still_running(void) {
  pthread_mutex_lock(&g_mutex);
  const int running = g_running;
  pthread_mutex_unlock(&g_mutex);
  return running > 0;
}

/* Leaves the other threads some time without training. */
static void pause_a_little(void) {
  const struct timespec millisecond = {0, 1000000};
  nanosleep(&millisecond, NULL);
}

/* Takes one step: in one call, in two phases, or by train. If another thread cancels it, takes it again. */
static void step(hws_engine* engine, int64_t number) {
  int32_t status = HWS_CANCELLED;
  if (number % 3 == 0) {
    CHECK_OK(hws_engine_forward_backward(engine, NULL));
    pause_a_little();
    CHECK_OK(hws_engine_commit(engine, NULL));
    return;
  }
  while (status == HWS_CANCELLED) {
    status = number % 3 == 1 ? hws_engine_train_step(engine, NULL)
                             : hws_engine_train(engine, number, NULL, NULL, NULL);
    /* The metrics show whether the call was cancelled before or after the step. */
    hws_buffer* out = NULL;
    char words[32];
    snprintf(words, sizeof words, "\"step\":%d,", (int)number);
    CHECK_OK(hws_engine_metrics(engine, &out));
    if (strstr(hws_buffer_data(out), words) != NULL) status = HWS_OK;
    hws_buffer_destroy(out);
  }
  CHECK_OK(status);
}

static void final_weights(hws_engine* engine, float* weights, int64_t* count) {
  *count = all_weights(engine, weights, kMaxWeights);
}

void hammer_const_calls(const function* functions, int count, const char* header) {
  static float disturbed[kMaxWeights], alone[kMaxWeights];
  int64_t disturbed_count = 0, alone_count = 0, steps = 0;
  int calls = 0;
  hws_engine *engine = g_alive[kEngine], *other = NULL;
  find_const_functions(functions, count, header);
  CHECK(g_const_count > 30);
  snprintf(g_folder, sizeof g_folder, "%s", check_path("const"));
  CHECK_OK(hws_engine_set_trace(engine, HWS_TRACE_KERNELS));
  step(engine, ++steps); /* so that there is something to report */

  begin(kRounds, 1);
  while (still_running() || steps < kSteps) {
    step(engine, ++steps);
    pause_a_little();
  }
  end();
  final_weights(engine, disturbed, &disturbed_count);
  CHECK_OK(hws_engine_create(g_alive[kConfig], 0, &other));
  for (int64_t i = 1; i <= steps; ++i) step(other, i);
  final_weights(other, alone, &alone_count);
  CHECK(alone_count == disturbed_count && alone_count > 1000);
  CHECK(memcmp(alone, disturbed, (size_t)alone_count * sizeof *alone) == 0);
  hws_engine_destroy(other);

  CHECK_OK(hws_engine_forward_backward(engine, NULL)); /* a step is pending, and nobody trains */
  begin(1, 0);
  end();
  for (int k = 0; k < g_const_count; ++k) {
    int done = 0;
    for (int i = 0; i < kThreads; ++i) {
      done += g_hammers[i].tallies[k].done;
      calls += g_hammers[i].tallies[k].calls;
    }
    const char* name = g_hammers[0].tallies[k].f->name;
    if (strcmp(name, "hws_engine_create_ranks") == 0 ? done == 0 : done != kThreads)
      check_failed(name, done, "is not done by every thread although nobody trains");
  }
  char note[128];
  snprintf(note, sizeof note, "%d functions, %d calls from %d threads, %d steps meanwhile", g_const_count,
           calls, kThreads, (int)steps);
  check_note(note);
}
