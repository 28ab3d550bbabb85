// What the typemaps of python.i call: arrays in, exceptions out, and callables behind C callbacks.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <hawser.h>

// ------------------------------------------------------------------------------------------------ errors.c

/// factory(code, message, details) makes an exception; status_of(exception) gives (code, message).
void set_error_hooks(PyObject* factory, PyObject* status_of);
/// Sets the exception of a status, from this thread's last error.
void raise_status(hws_status status);
/// The status of the exception that is set, which is cleared. *message: for free().
hws_status take_exception(char** message);
/// UTF-8 of a str, or the bytes of a path; NULL for None, through *ok = 1. The caller drops *owner.
const char* text_of(PyObject* object, PyObject** owner, int* ok);

// ------------------------------------------------------------------------------------------------ arrays.c

/// A C-contiguous array of a Python object: by the buffer protocol, else by DLPack.
typedef struct array {
  void* data;
  int ndim;
  int64_t shape[8];
  int64_t elements;
  char kind;       ///< 'i' signed, 'u' unsigned, 'f' floating point, 'b' bool, '?' anything else
  int bits;        ///< of an element
  Py_buffer view;  ///< view.obj is NULL unless it is held
  PyObject* capsule;
  int32_t* converted;
} array;

void array_close(array* a);
/// int32 as they are, or int64 as a copy. Sets an exception that begins with `what`, and returns 0, for
/// others.
int array_integers(PyObject* object, array* a, const char* what, int ndim);
/// f32, to be read or to be written.
int array_floats(PyObject* object, array* a, const char* what, int writable);
/// Any bytes.
int array_bytes(PyObject* object, array* a, const char* what);
/// A batch from (tokens, targets or None, document_begin or None, weights or None). `arrays` are four, closed
/// by the caller.
int batch_of(PyObject* tuple, array* arrays, hws_batch* batch);
/// What a data source answered: a tuple as above to be copied, or None at the end.
int32_t fill_source_batch(PyObject* answer, hws_source_batch* batch);
PyObject* tensor_capsule(struct DLManagedTensorVersioned* tensor);

// --------------------------------------------------------------------------------------------- callbacks.c

/// Takes the interpreter for a callback. 0: it is shutting down, and the callback ends what it belongs to.
int enter_python(PyGILState_STATE* gil);
void leave_python(PyGILState_STATE gil);
/// At exit: from now on only the calling thread has callbacks. Waits, at most two seconds, for those that
/// run.
void end_callbacks(void);
/// Once: the child of a fork has none of its parent's callbacks.
void forget_threads_after_fork(void);
// A callable raises on the thread that made the call. The exception stays set there, ends the call, and the
// typemap of its status lets it out.
int32_t train_trampoline(void* user, const hws_train_record* record);
int32_t token_trampoline(void* user, int32_t token);
void metrics_trampoline(void* user, const char* json, size_t size);
int32_t source_trampoline(void* user, hws_source_batch* batch);
int32_t interrupt_trampoline(void* user);
/// Drops a callable, on any thread.
void drop(void* user);
/// Lets signals end long calls of the main thread.
void watch_signals(void);
PyObject* step_tuple(const hws_step_result* result);
PyObject* progress_tuple(const hws_progress* progress);

// --------------------------------------------------------------------------------------------- transport.c

/// hws_comm_create_host over an object with send, recv and others.
hws_status create_host_comm(PyObject* transport, int32_t rank, int32_t world_size, hws_comm** out);
/// The fields of an address, from a tuple that outlives it.
int address_of(PyObject* tuple, hws_comm_address* address);
