/* A few lines of test frame for C99. Each test program is a host like any other: it includes hawser.h and
 * links libhawser.so. Everything the program prints goes to the original stderr; file descriptors 1 and 2 are
 * caught for as long as it runs, and at the end they must be empty, because the library writes nothing to
 * them. */
#ifndef HAWSER_TESTS_CAPI_CHECK_H
#define HAWSER_TESTS_CAPI_CHECK_H

#include <hawser.h>
#include <stdint.h>

/* Opens and ends a test program. check_end's result is main's: 0 when nothing failed and nothing was printed.
 */
void check_begin(void);
int check_end(void);

/* Prints a note about a successful run, such as how much was tried. */
void check_note(const char* text);

/* Counts and prints a failure. */
void check_failed(const char* file, int line, const char* text);
/* Fails unless status is `expected`; prints the thread's last error. */
void check_status(const char* file, int line, const char* call, int32_t status, int32_t expected);
/* Checks and takes the thread's last error: its code, and `words` somewhere in its message. */
void check_error(const char* file, int line, int32_t code, const char* words);

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define CHECK_STATUS(call, expected) check_status(__FILE__, __LINE__, #call, (call), (expected))
#define CHECK_OK(call) CHECK_STATUS(call, HWS_OK)
/* The call fails with this code and a message with these words in it. */
#define CHECK_ERROR(call, code, words) \
  (CHECK_STATUS(call, code), check_error(__FILE__, __LINE__, code, words))

/* Returns a path below this program's own temporary folder, which is removed at the end. Static storage, 8
 * calls deep. */
const char* check_path(const char* name);

/* Checks that a buffer is NUL-terminated, destroys it, and returns its text, which lives until check_end.
 * Returns "" for NULL. */
const char* check_text(hws_buffer* buffer);

#endif
