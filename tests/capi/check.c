/* See check.h. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kPaths = 8, kTexts = 256 };

static int g_failures, g_saved[2];
static FILE* g_caught;
static char g_folder[256];
static char g_paths[kPaths][512];
static char* g_texts[kTexts];
static int g_text_count;

/* Defined by sanitizer runtimes. Their reports are for the person who runs the test. */
extern void __sanitizer_set_report_fd(void* fd) __attribute__((weak));

void check_begin(void) {
  const char* temporary = getenv("TMPDIR");
  snprintf(g_folder, sizeof g_folder, "%s/hawser-capi-XXXXXX", temporary != NULL ? temporary : "/tmp");
  if (mkdtemp(g_folder) == NULL) exit(3);
  g_caught = tmpfile();
  if (g_caught == NULL) exit(3);
  fflush(NULL);
  for (int i = 0; i < 2; ++i) {
    g_saved[i] = dup(i + 1);
    dup2(fileno(g_caught), i + 1);
  }
  if (__sanitizer_set_report_fd != NULL) __sanitizer_set_report_fd((void*)(intptr_t)g_saved[1]);
}

static int remove_entry(const char* path, const struct stat* status, int type, struct FTW* at) {
  (void)status, (void)type, (void)at;
  return remove(path);
}

static void check_silence(void) {
  char text[512];
  ssize_t size = 0;
  fflush(NULL);
  if (lseek(1, 0, SEEK_END) == 0) return;
  check_failed(__FILE__, __LINE__, "something was written to stdout or stderr:");
  lseek(1, 0, SEEK_SET);
  while ((size = read(1, text, sizeof text)) > 0) dprintf(g_saved[1], "%.*s", (int)size, text);
}

int check_end(void) {
  check_silence();
  for (int i = 0; i < 2; ++i) dup2(g_saved[i], i + 1);
  fclose(g_caught);
  nftw(g_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  for (int i = 0; i < g_text_count; ++i) free(g_texts[i]);
  return g_failures == 0 ? 0 : 1;
}

void check_note(const char* text) { dprintf(g_saved[1], "%s\n", text); }

void check_failed(const char* file, int line, const char* text) {
  ++g_failures;
  dprintf(g_saved[1], "%s:%d: %s\n", file, line, text);
}

void check_status(const char* file, int line, const char* call, int32_t status, int32_t expected) {
  if (status == expected) return;
  hws_error* error = NULL;
  hws_error_take(&error);
  ++g_failures;
  dprintf(g_saved[1], "%s:%d: %s\n  is %s, not %s: %s\n", file, line, call, hws_status_name(status),
          hws_status_name(expected), hws_error_message(error));
  hws_error_destroy(error);
}

void check_error(const char* file, int line, int32_t code, const char* words) {
  hws_error* error = NULL;
  if (hws_error_take(&error) != HWS_OK) {
    check_failed(file, line, "there is no last error");
    return;
  }
  if (hws_error_code(error) != code || strstr(hws_error_message(error), words) == NULL) {
    ++g_failures;
    dprintf(g_saved[1], "%s:%d: error %s \"%s\" is not %s with \"%s\"\n", file, line,
            hws_status_name(hws_error_code(error)), hws_error_message(error), hws_status_name(code), words);
  }
  hws_error_destroy(error);
}

const char* check_path(const char* name) {
  static int next;
  char* path = g_paths[next++ % kPaths];
  snprintf(path, sizeof g_paths[0], "%s/%s", g_folder, name);
  return path;
}

const char* check_text(hws_buffer* buffer) {
  if (buffer == NULL) return "";
  const size_t size = hws_buffer_size(buffer);
  const char* data = hws_buffer_data(buffer);
  if (data[size] != '\0') check_failed(__FILE__, __LINE__, "a text ends with a NUL");
  char* copy = malloc(size + 1);
  if (copy == NULL || g_text_count == kTexts) exit(3);
  memcpy(copy, data, size + 1);
  hws_buffer_destroy(buffer);
  g_texts[g_text_count++] = copy;
  return copy;
}
