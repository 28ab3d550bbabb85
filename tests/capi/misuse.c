#include "misuse.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

void *g_alive[kTypes], *g_gone[kTypes];
int g_destroyed;

static int g_calls;
static cell g_cells[kParameters];
static char* g_endless; /* longer than any text that is taken */
enum { kEndless = (16 << 20) + 2 };

static const int kGarbage;

static void complain(const function* f, const char* parameter, const char* what, const char* got) {
  char text[512];
  snprintf(text, sizeof text, "%s, `%s` %s: %s", f->name, parameter, what, got);
  check_failed(__FILE__, __LINE__, text);
}

/* --------------------------------------------------------------------------------------------- one call */

void destroy_object(int type, void* object) {
  typedef struct view {
    uint32_t version[2];
    void* context;
    void (*deleter)(struct view*);
  } view;
  switch (type) {
    case kError:
      hws_error_destroy(object);
      break;
    case kBuffer:
      hws_buffer_destroy(object);
      break;
    case kConfig:
      hws_config_destroy(object);
      break;
    case kPlan:
      hws_plan_destroy(object);
      break;
    case kComm:
      hws_comm_destroy(object);
      break;
    case kEngine:
      hws_engine_destroy(object);
      break;
    case kOp:
      hws_op_destroy(object);
      break;
    case kTokenizer:
      hws_tokenizer_destroy(object);
      break;
    default:
      ((view*)object)->deleter(object);
  }
}

value good_value(const function* f, int at, cell* c) {
  const parameter* p = &f->parameters[at];
  value v = p->good;
  switch (p->kind) {
    case kHandle:
      v.p = g_alive[p->type];
      break;
    case kOut:
    case kCell:
      v.p = c;
      break;
    case kPath:
      v.p = (void*)(uintptr_t)check_path(p->good.p);
      break;
    case kStruct:
      memset(c, 0, sizeof *c);
      memcpy(c, p->layout->good, p->layout->size);
      v.p = c;
      break;
    default:
      break;
  }
  return v;
}

static void good_arguments(const function* f, value* v) {
  for (int i = 0; i < kParameters; ++i) v[i] = good_value(f, i, &g_cells[i]);
}

/* Makes the call. Destroys the objects that it returns, and checks that it returns none if it fails. */
static int32_t make(const function* f, const value* v) {
  for (int i = 0; i < kParameters; ++i) {
    if (f->parameters[i].kind == kOut) g_cells[i].pointer = (void*)(uintptr_t)&kGarbage;
  }
  g_destroyed = 0;
  ++g_calls;
  const int32_t status = f->call(v);
  for (int i = 0; i < kParameters; ++i) {
    if (f->parameters[i].kind != kOut || v[i].p != &g_cells[i]) continue;
    if (status == HWS_OK) {
      destroy_object(f->parameters[i].type, g_cells[i].pointer);
    } else if (g_cells[i].pointer != NULL) {
      complain(f, f->parameters[i].name, "is not NULL after", hws_status_name(status));
    }
  }
  return status;
}

/* -------------------------------------------------------------------------------------------- wrong calls */

/* Makes a call with a wrong `name`. Checks the status, and that the error contains the function and `words`.
 * */
static void expect(const function* f, const char* name, const char* what, const value* v, int32_t wanted,
                   const char* words, int destroyed) {
  const int32_t status = make(f, v);
  if (status != wanted) complain(f, name, what, hws_status_name(status));
  if ((f->flags & (kCallback | kTransport)) != 0 && g_destroyed != destroyed)
    complain(f, name, what, "`destroy` did not run exactly once");
  if ((f->flags & kSilent) != 0) return;
  hws_error* error = NULL;
  if (hws_error_take(&error) != HWS_OK) {
    complain(f, name, what, "no last error");
    return;
  }
  const char* message = hws_error_message(error);
  if (strstr(message, words) == NULL) complain(f, name, what, message);
  if (strstr(message, f->name) == NULL && strstr(hws_error_details(error), f->name) == NULL)
    complain(f, name, what, message);
  if (hws_error_code(error) != wanted) complain(f, name, what, hws_status_name(hws_error_code(error)));
  hws_error_destroy(error);
}

static void expect_invalid(const function* f, int at, const char* what, value wrong) {
  value v[kParameters];
  char words[64];
  good_arguments(f, v);
  v[at] = wrong;
  snprintf(words, sizeof words, "`%s", f->parameters[at].name);
  expect(f, f->parameters[at].name, what, v, HWS_INVALID_ARGUMENT, words, 1);
}

static void invalid_pointer(const function* f, int at, const char* what, const void* pointer) {
  value v;
  v.p = (void*)(uintptr_t)pointer;
  expect_invalid(f, at, what, v);
}

static void invalid_number(const function* f, int at, int64_t number) {
  char what[64];
  value v;
  v.i = number;
  snprintf(what, sizeof what, "= %lld", (long long)number);
  expect_invalid(f, at, what, v);
}

static void bad_handle(const function* f, int at, const char* what, void* handle) {
  value v[kParameters];
  good_arguments(f, v);
  v[at].p = handle;
  expect(f, "handle", what, v, HWS_BAD_HANDLE, f->name, 1);
}

static void wrong_handles(const function* f, int at) {
  const int type = f->parameters[at].type;
  bad_handle(f, at, "is NULL", NULL);
  bad_handle(f, at, "is a pointer", &g_cells[0]);
  bad_handle(f, at, "is a number", (void*)(uintptr_t)-1);
  bad_handle(f, at, "is a small number", (void*)(uintptr_t)1);
  bad_handle(f, at, "is of another generation", (void*)((uintptr_t)g_alive[type] ^ 0x100000));
  bad_handle(f, at, "is destroyed", g_gone[type]);
  for (int t = 0; t < kTypes; ++t) {
    if (t != type) bad_handle(f, at, "is of another type", g_alive[t]); /* or NULL, without the module */
  }
}

static const char* endless(void) {
  if (g_endless == NULL) {
    g_endless = malloc(kEndless);
    if (g_endless == NULL) exit(3);
    memset(g_endless, 'a', kEndless);
  }
  g_endless[kEndless - 1] = '\0';
  return g_endless;
}

static void wrong_texts(const function* f, int at) {
  static const char* const kNoUtf8[] = {"a\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"};
  const parameter* p = &f->parameters[at];
  if (!p->optional) invalid_pointer(f, at, "is NULL", NULL);
  invalid_pointer(f, at, "has no end", endless());
  if (p->kind == kPath) {
    invalid_pointer(f, at, "is empty", "");
    return; /* its bytes are the file system's */
  }
  for (size_t i = 0; i < sizeof kNoUtf8 / sizeof kNoUtf8[0]; ++i)
    invalid_pointer(f, at, "is not UTF-8", kNoUtf8[i]);
  if (p->kind == kDtype) invalid_pointer(f, at, "is no type", "float32");
  if (p->kind == kNames) {
    invalid_pointer(f, at, "is no array", "{}");
    invalid_pointer(f, at, "holds a number", "[\"a\",1]");
    invalid_pointer(f, at, "is cut short", "[\"a\"");
  }
}

static void wrong_arrays(const function* f, int at) {
  const int64_t element = f->parameters[at].low;
  invalid_pointer(f, at, "is NULL", NULL);
  if (element > 1) invalid_pointer(f, at, "is misaligned", g_cells[at].bytes + 1);
}

/* A size is wrong if such memory cannot exist, or if it is no multiple of an element. */
static void wrong_sizes(const function* f, int at) {
  const parameter* p = &f->parameters[at];
  const int64_t huge[] = {-1, INT64_MIN, INT64_MAX, INT64_C(1) << 57, -8};
  for (size_t i = 0; i < sizeof huge / sizeof huge[0]; ++i) {
    value v[kParameters];
    good_arguments(f, v);
    v[at].i = huge[i];
    char what[64];
    snprintf(what, sizeof what, "= %llx", (unsigned long long)huge[i]);
    expect(f, p->name, what, v, HWS_INVALID_ARGUMENT, "`", 1);
  }
  if (p->high > 1) invalid_number(f, at, p->good.i + 1);
  value v[kParameters];
  good_arguments(f, v);
  v[at].i = 0;
  if (p->low != HWS_OK) {
    expect(f, p->name, "= 0", v, (int32_t)p->low, "", 1);
  } else if (make(f, v) != HWS_OK) {
    complain(f, p->name, "= 0", "is an error");
  }
}

static void wrong_numbers(const function* f, int at) {
  const parameter* p = &f->parameters[at];
  value v;
  switch (p->kind) {
    case kRange:
      invalid_number(f, at, p->low - 1);
      if (p->low > INT32_MIN) invalid_number(f, at, INT32_MIN);
      if (p->high < INT32_MAX) invalid_number(f, at, p->high + 1);
      if (p->high < INT32_MAX) invalid_number(f, at, INT32_MAX);
      break;
    case kFlags:
      for (int bit = 0; bit < 32; ++bit) {
        if ((p->low >> bit & 1) == 0) invalid_number(f, at, INT64_C(1) << bit);
      }
      break;
    case kSeconds:
      v.d = (double)NAN;
      expect_invalid(f, at, "is not a number", v);
      if (p->optional) break;
      v.d = -1;
      expect_invalid(f, at, "is negative", v);
      v.d = (double)INFINITY;
      expect_invalid(f, at, "is infinite", v);
      break;
    default:
      invalid_number(f, at, 0);
  }
}

/* --------------------------------------------------------------------------------------------- structs */

static int is_told(const function* f, int destroyed_if_read) {
  return (f->flags & kTransport) != 0 ? destroyed_if_read : 1;
}

static void wrong_struct_size(const function* f, int at, uint32_t size) {
  const layout* s = f->parameters[at].layout;
  value v[kParameters];
  char what[64];
  good_arguments(f, v);
  memcpy(v[at].p, &size, sizeof size);
  snprintf(what, sizeof what, "has struct_size %u", (unsigned)size);
  const int readable = size >= s->first_size && size <= 4096;
  expect(f, f->parameters[at].name, what, v, HWS_ABI_MISMATCH, "`", is_told(f, readable));
}

/* Sets each byte of the fields that a newer version of the struct could have. */
static void wrong_tails(const function* f, int at) {
  const layout* s = f->parameters[at].layout;
  for (uint32_t byte = s->size; byte < s->size + 16; ++byte) {
    value v[kParameters];
    const uint32_t size = s->size + 16;
    good_arguments(f, v);
    memcpy(v[at].p, &size, sizeof size);
    ((unsigned char*)v[at].p)[byte] = 1;
    expect(f, f->parameters[at].name, "sets an unknown field", v, HWS_ABI_MISMATCH, "newer", 1);
  }
}

/* Makes the call as a program built with the first header, or with a newer one whose new fields are 0. */
static void other_versions(const function* f, int at) {
  const layout* s = f->parameters[at].layout;
  const uint32_t sizes[] = {s->first_size, s->size + 8, 4096};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    value v[kParameters];
    good_arguments(f, v);
    memcpy(v[at].p, &sizes[i], sizeof sizes[i]);
    const int32_t status = make(f, v);
    /* A second push is refused, and a second commit has nothing to commit. */
    if (status != f->status && status != HWS_BUSY && status != HWS_FAILED_PRECONDITION)
      complain(f, f->parameters[at].name, "is of another version", hws_status_name(status));
  }
}

static void wrong_structs(const function* f, int at) {
  const parameter* p = &f->parameters[at];
  const uint32_t sizes[] = {0, 1, 4, p->layout->first_size - 1, 4097, UINT32_MAX};
  value v[kParameters];
  for (int misaligned = p->optional; misaligned < 2; ++misaligned) {
    good_arguments(f, v);
    v[at].p = misaligned ? g_cells[at].bytes + 1 : NULL;
    expect(f, p->name, misaligned ? "is misaligned" : "is NULL", v, HWS_INVALID_ARGUMENT, p->name,
           is_told(f, 0));
  }
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) wrong_struct_size(f, at, sizes[i]);
  wrong_tails(f, at);
  for (const wrong_field* w = p->layout->wrong; w != NULL && w->words != NULL; ++w) {
    good_arguments(f, v);
    memcpy((unsigned char*)v[at].p + w->offset, &w->wrong, w->bytes);
    expect(f, p->name, w->words, v, HWS_INVALID_ARGUMENT, w->words, 1);
  }
}

/* ---------------------------------------------------------------------------------------------- the walk */

static void wrong(const function* f, int at) {
  const parameter* p = &f->parameters[at];
  switch (p->kind) {
    case kHandle:
      wrong_handles(f, at);
      break;
    case kOut:
    case kCell:
      if (!p->optional) invalid_pointer(f, at, "is NULL", NULL);
      if (p->kind == kOut || p->low > 1) invalid_pointer(f, at, "is misaligned", g_cells[at].bytes + 1);
      break;
    case kText:
    case kPath:
    case kDtype:
    case kNames:
      wrong_texts(f, at);
      break;
    case kArray:
      wrong_arrays(f, at);
      break;
    case kSize:
      wrong_sizes(f, at);
      break;
    case kStruct:
      wrong_structs(f, at);
      break;
    case kNoMore:
      break;
    default:
      wrong_numbers(f, at);
  }
}

/* Makes the call rightly; then as programs of other versions do, and without optional arguments. */
static void rightly(const function* f) {
  value v[kParameters];
  good_arguments(f, v);
  const int32_t status = make(f, v);
  if (status != f->status) {
    complain(f, "all", "is right", hws_status_name(status));
    check_status(__FILE__, __LINE__, f->name, status, f->status);
  }
  for (int i = 0; i < kParameters; ++i) {
    const parameter* p = &f->parameters[i];
    if (p->kind == kStruct) other_versions(f, i);
    if (!p->optional || p->kind != kCell) continue;
    good_arguments(f, v);
    v[i].p = NULL;
    const int32_t without = make(f, v);
    if (without != f->status) complain(f, p->name, "is left out", hws_status_name(without));
  }
}

int is_without_module(const function* f) {
  return strstr(f->name, "_tokenizer") != NULL && g_alive[kTokenizer] == NULL;
}

int misuse(const function* f) {
  g_calls = 0;
  if (is_without_module(f)) return 0;
  for (int i = 0; i < kParameters; ++i) wrong(f, i);
  if ((f->flags & kOnlyWrongly) == 0) rightly(f);
  free(g_endless);
  g_endless = NULL;
  return g_calls;
}
