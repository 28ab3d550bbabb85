/* Misuse: makes every wrong call that the kind of each parameter allows. misuse_rows.inc lists the
 * parameters of every exported function; misuse.c makes the wrong calls and checks their results. */
#ifndef HAWSER_TESTS_CAPI_MISUSE_H
#define HAWSER_TESTS_CAPI_MISUSE_H

#include <hawser.h>
#include <stddef.h>
#include <stdint.h>

/* One argument, as the expression of a row reads it. */
typedef union value {
  void* p;
  int64_t i;
  double d;
} value;

enum { kError, kBuffer, kConfig, kPlan, kComm, kEngine, kOp, kTokenizer, kTypes, kView = kTypes };

typedef enum kind {
  kNoMore,
  kHandle,   /* of `type` */
  kOut,      /* where a handle of `type` (or a DLPack view) goes */
  kCell,     /* where a number goes, `low` bytes wide; NULL is fine if `optional` */
  kText,     /* UTF-8 */
  kPath,     /* below the test's folder */
  kArray,    /* elements of `low` bytes; its size is the next parameter */
  kSize,     /* of the array before it, in elements of `high` bytes; 0 gives `low` (a status) */
  kRange,    /* low <= i <= high */
  kFlags,    /* no bit beyond `low` */
  kSeconds,  /* 0 <= d, or any number if `optional` */
  kFunction, /* a callback that must be there: 1 or 0 */
  kDtype,
  kNames, /* a JSON array of strings, or NULL */
  kStruct /* `layout` */
} kind;

/* A field of a struct and a value that is not valid for it. */
typedef struct wrong_field {
  const char* words; /* in the message */
  size_t offset, bytes;
  value wrong;
} wrong_field;

typedef struct layout {
  const void* good; /* with struct_size set */
  uint32_t size, first_size;
  const wrong_field* wrong; /* up to one without words */
} layout;

typedef struct parameter {
  kind kind;
  const char* name;
  value good;
  int64_t low, high;
  int type, optional;
  const layout* layout;
} parameter;

enum { kParameters = 7 };
enum {
  kSilent = 1,     /* leaves no last error */
  kCallback = 2,   /* has a `destroy`, which runs exactly once when the call fails */
  kTransport = 4,  /* the same, if only the struct can be read */
  kOnlyWrongly = 8 /* ends handles: it is never called as it should be */
};

typedef struct function {
  const char* name;
  int32_t (*call)(const value* v);
  int32_t status; /* of the call as it should be */
  int flags;
  parameter parameters[kParameters];
} function;

/* The objects for calls, objects that are destroyed, and (g_destroyed) how often a `destroy` ran. */
extern void *g_alive[kTypes], *g_gone[kTypes];
/* True if the function needs the text module and the build lacks it. */
int is_without_module(const function* f);
extern int g_destroyed;

/* The memory of a parameter, to which outs, numbers and structs are written. */
enum { kCellBytes = 8192 };
typedef union cell {
  double align;
  void* pointer;
  unsigned char bytes[kCellBytes];
} cell;

/* Returns a valid argument for parameter `at`. If it needs memory, it is in `c`. */
value good_value(const function* f, int at, cell* c);
/* Destroys an object that a call returned. */
void destroy_object(int type, void* object);

/* Calls every function whose handle is const from 16 threads at once, first while the engine trains, then
 * while it does not. `header`: hawser.h, which declares them; each must have a row. */
void hammer_const_calls(const function* functions, int count, const char* header);

/* Calls `f` in every wrong way, one parameter at a time, and once rightly. Returns the number of calls. */
int misuse(const function* f);

#endif
