// Helpers for the typemaps of python.i: convert arrays and exceptions, and call Python callables from C
// callbacks.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <hawser.h>

// ------------------------------------------------------------------------------------------------ errors.c

/// factory(code, message, details) makes an exception; status_of(exception) returns (code, message).
void set_error_hooks(PyObject* factory, PyObject* status_of);
/// Sets the exception for a status, from this thread's last error.
void raise_status(hws_status status);
/// Clears the current exception and returns its status. The caller frees *message.
hws_status take_exception(char** message);
/// Returns the UTF-8 of a str, the bytes of a path, or NULL for None or on failure; *ok is 0 on failure. The
/// caller drops the reference *owner.
const char* text_of(PyObject* object, PyObject** owner, int* ok);

// ------------------------------------------------------------------------------------------------ arrays.c

/// The C-contiguous array of a Python object, by the buffer protocol or else by DLPack.
typedef struct array {
  void* data;
  int ndim;
  int64_t shape[8];
  int64_t elements;
  char kind;       ///< 'i' signed, 'u' unsigned, 'f' floating point, 'b' bool, '?' anything else
  int bits;        ///< size of an element
  Py_buffer view;  ///< view.obj is NULL if no buffer is held
  PyObject* capsule;
  int32_t* converted;
} array;

void array_close(array* a);
/// Takes int32 without a copy, or int64 as a copy. For other arrays, sets an exception that begins with
/// `what` and returns 0.
int array_integers(PyObject* object, array* a, const char* what, int ndim);
/// Takes an f32 array for reading or, if `writable`, for writing.
int array_floats(PyObject* object, array* a, const char* what, int writable);
/// Takes an int32 array for writing.
int array_out_integers(PyObject* object, array* a, const char* what);
/// Takes an array of bytes of any type.
int array_bytes(PyObject* object, array* a, const char* what);
/// The number of arrays of a batch.
enum { kBatchArrays = 7 };
/// Makes a batch from (tokens, targets or None, document_begin or None, weights or None), with up to three
/// more elements: references, teacher_ids, teacher_logprobs. The caller closes all kBatchArrays `arrays`.
int batch_of(PyObject* tuple, array* arrays, hws_batch* batch);
/// Copies a data source's result into the batch: a tuple as above, or None at the end of the data.
int32_t fill_source_batch(PyObject* answer, hws_source_batch* batch);
PyObject* tensor_capsule(struct DLManagedTensorVersioned* tensor);

// --------------------------------------------------------------------------------------------- callbacks.c

/// Acquires the interpreter for a callback. Returns 0 if it is shutting down; the callback must then end its
/// call.
int enter_python(PyGILState_STATE* gil);
void leave_python(PyGILState_STATE gil);
/// Called at exit. From then on, only the calling thread may run callbacks. Waits at most two seconds for
/// callbacks that are running.
void end_callbacks(void);
/// Called once. After a fork, the child then does not count the parent's running callbacks.
void forget_threads_after_fork(void);
// If a callable raises on the thread that made the call, the exception stays set there and ends the call. The
// typemap of hws_status then raises it.
int32_t train_trampoline(void* user, const hws_train_record* record);
int32_t token_trampoline(void* user, int32_t token);
void metrics_trampoline(void* user, const char* json, size_t size);
int32_t source_trampoline(void* user, hws_source_batch* batch);
int32_t progress_trampoline(void* user, const char* json, size_t size);
int32_t interrupt_trampoline(void* user);
/// Drops the reference to a callable, on any thread.
void drop(void* user);
/// Lets signals end long calls of the main thread.
void watch_signals(void);
PyObject* step_tuple(const hws_step_result* result);
PyObject* progress_tuple(const hws_progress* progress);

// --------------------------------------------------------------------------------------------- transport.c

/// Calls hws_comm_create_host for an object with send, recv and perhaps other methods.
hws_status create_host_comm(PyObject* transport, int32_t rank, int32_t world_size, hws_comm** out);
/// Sets the fields of an address from a tuple, which must outlive the address.
int address_of(PyObject* tuple, hws_comm_address* address);
