// Typemaps for Python: a handle becomes an int, a status an exception, a buffer bytes, a struct a tuple. See
// native/support.h.
%begin %{
#define PY_SSIZE_T_CLEAN
%}
%{
#include <dlfcn.h>
#include <string.h>

#include "support.h"
%}

%exception {
  watch_signals();
  $action
}

// --- Results. If a callback raised, its exception takes precedence over the status that it caused.
%typemap(out) hws_status {
  if (PyErr_Occurred()) SWIG_fail;
  if ($1 != HWS_OK) {
    raise_status($1);
    SWIG_fail;
  }
  $result = SWIG_Py_Void();
}
%typemap(out) const char* "$result = PyUnicode_FromString($1);"

// --- Handles.
%define HANDLE(T)
%typemap(in) T*, const T* {
  $1 = (T*)PyLong_AsVoidPtr($input);
  if (PyErr_Occurred()) SWIG_fail;
}
%typemap(in, numinputs=0) T** out (T* handle = NULL) "$1 = &handle;"
%typemap(argout) T** out "$result = PyLong_FromVoidPtr(*$1);"
%enddef
HANDLE(hws_config) HANDLE(hws_plan) HANDLE(hws_comm) HANDLE(hws_engine) HANDLE(hws_op)
HANDLE(hws_tokenizer)

%typemap(in, numinputs=0) hws_buffer** out (hws_buffer* buffer = NULL) "$1 = &buffer;"
%typemap(argout) hws_buffer** out
  "$result = PyBytes_FromStringAndSize((const char*)hws_buffer_data(*$1), (Py_ssize_t)hws_buffer_size(*$1));"
%typemap(freearg) hws_buffer** out "hws_buffer_destroy(*$1);"

// --- Structs and numbers that a function returns.
%define STRUCT_OUT(T, NAME, TO_TUPLE)
%typemap(in, numinputs=0) T* NAME (T filled) {
  memset(&filled, 0, sizeof filled);
  filled.struct_size = sizeof filled;
  $1 = &filled;
}
%typemap(argout) T* NAME "$result = TO_TUPLE($1);"
%enddef
%{
static PyObject* sizes_tuple(const hws_sizes* s) {
  return Py_BuildValue("(LLLL)", (long long)s->vocab_size, (long long)s->sequence, (long long)s->global_batch,
                       (long long)s->outputs);
}
%}
STRUCT_OUT(hws_step_result, result, step_tuple)
STRUCT_OUT(hws_sizes, sizes, sizes_tuple)
STRUCT_OUT(hws_progress, progress, progress_tuple)

%typemap(in, numinputs=0) double* rate (double number = 0), double* flops (double number = 0) "$1 = &number;"
%typemap(argout) double* rate, double* flops "$result = PyFloat_FromDouble(*$1);"
%typemap(in, numinputs=0) (double* loss, int64_t* tokens) (double loss = 0, int64_t tokens = 0) "$1 = &loss; $2 = &tokens;"
%typemap(argout) (double* loss, int64_t* tokens) { $result = Py_BuildValue("(dL)", *$1, (long long)*$2); }
%typemap(in, numinputs=0) int32_t* ended (int32_t flag = 0) "$1 = &flag;"
%typemap(argout) int32_t* ended "$result = PyBool_FromLong(*$1);"
%typemap(in, numinputs=0) (int64_t* done_bytes, int64_t* total_bytes) (int64_t done = 0, int64_t total = 0) "$1 = &done; $2 = &total;"
%typemap(argout) (int64_t* done_bytes, int64_t* total_bytes)
  { $result = Py_BuildValue("(LL)", (long long)*$1, (long long)*$2); }

// --- Text and arrays that a function takes.
%typemap(in) const char* (PyObject* owner = NULL) {
  int ok;
  $1 = (char*)text_of($input, &owner, &ok);
  if (!ok) SWIG_fail;
}
%typemap(freearg) const char* "Py_XDECREF(owner$argnum);"

%define ARRAY_IN(POINTER, SIZE, UNIT, OPEN)
%typemap(arginit) (POINTER, SIZE) "memset(&array$argnum, 0, sizeof array$argnum);"
%typemap(in) (POINTER, SIZE) (array array) {
  if (!OPEN) SWIG_fail;
  $1 = array.data;
  $2 = (size_t)array.elements * UNIT;
}
%typemap(freearg) (POINTER, SIZE) "array_close(&array$argnum);"
%enddef
ARRAY_IN(const void* data, size_t size, 1, array_bytes($input, &array, "data"))
ARRAY_IN(const char* text, size_t size, 1, array_bytes($input, &array, "text"))
ARRAY_IN(const void* data, size_t bytes, 4, array_floats($input, &array, "values", 0))
ARRAY_IN(void* data, size_t bytes, 4, array_floats($input, &array, "out", 1))
ARRAY_IN(float* logits, size_t logits_bytes, 4, array_floats($input, &array, "out", 1))
ARRAY_IN(float* logprobs, size_t logprobs_bytes, 4, array_floats($input, &array, "out", 1))
ARRAY_IN(int32_t* ids, size_t ids_bytes, 4, array_out_integers($input, &array, "ids"))
ARRAY_IN(const float* gradients, size_t gradients_bytes, 4, array_floats($input, &array, "gradients", 0))
ARRAY_IN(const int32_t* tokens, size_t count, 1, array_integers($input, &array, "tokens", 1))

// A batch is None or (tokens, targets or None, document_begin or None, weights or None), with up to three more
// elements, each an array or None: references, teacher_ids, teacher_logprobs.
%typemap(arginit) const hws_batch* batch "memset(arrays$argnum, 0, sizeof arrays$argnum);"
%typemap(in) const hws_batch* batch (array arrays[kBatchArrays], hws_batch value) {
  if ($input != Py_None) {
    if (!batch_of($input, arrays, &value)) SWIG_fail;
    $1 = &value;
  }
}
%typemap(freearg) const hws_batch* batch "for (int i = 0; i < kBatchArrays; ++i) array_close(&arrays$argnum[i]);"

// A request is (prompt, max_tokens, temperature, top_k, top_p, seed, stop_token, stop_tokens).
%typemap(arginit) const hws_generate_request* request "memset(arrays$argnum, 0, sizeof arrays$argnum);"
%typemap(in) const hws_generate_request* request (array arrays[2], hws_generate_request value) {
  PyObject *prompt, *stop_tokens;
  long long max_tokens, top_k;
  unsigned long long seed;
  int stop_token;
  memset(&value, 0, sizeof value);
  if (!PyArg_ParseTuple($input, "OLdLdKiO", &prompt, &max_tokens, &value.temperature, &top_k, &value.top_p, &seed, &stop_token,
                        &stop_tokens)) SWIG_fail;
  if (!array_integers(prompt, &arrays[0], "prompt", 1)) SWIG_fail;
  if (!array_integers(stop_tokens, &arrays[1], "stop_tokens", 1)) SWIG_fail;
  value.struct_size = sizeof value;
  value.prompt = arrays[0].data;
  value.prompt_length = arrays[0].elements;
  value.stop_tokens = arrays[1].data;
  value.stop_count = arrays[1].elements;
  value.max_tokens = max_tokens;
  value.top_k = top_k;
  value.seed = seed;
  value.stop_token = stop_token;
  $1 = &value;
}
%typemap(freearg) const hws_generate_request* request "for (int i = 0; i < 2; ++i) array_close(&arrays$argnum[i]);"

%typemap(in) const hws_comm_address* (hws_comm_address value) {
  if ($input != Py_None) {
    if (!address_of($input, &value)) SWIG_fail;
    $1 = &value;
  }
}

// --- Callbacks. Each is a callable or None.
%define CALLBACK(FN, TRAMPOLINE, ALWAYS)
%typemap(in) (FN callback, void* user, void (*destroy)(void*)) {
  $1 = ALWAYS || $input != Py_None ? TRAMPOLINE : NULL;
  if ($input != Py_None) {
    if (!PyCallable_Check($input)) {
      PyErr_SetString(PyExc_TypeError, "expected a callable");
      SWIG_fail;
    }
    Py_INCREF($input);
    $2 = $input;
    $3 = drop;
  }
}
%enddef
CALLBACK(hws_train_fn, train_trampoline, 1)
CALLBACK(hws_token_fn, token_trampoline, 0)
CALLBACK(hws_metrics_fn, metrics_trampoline, 0)
CALLBACK(hws_prepare_fn, metrics_trampoline, 0)
CALLBACK(hws_source_fn, source_trampoline, 0)
CALLBACK(hws_progress_fn, progress_trampoline, 0)
CALLBACK(hws_interrupt_fn, interrupt_trampoline, 1)

%typemap(in, numinputs=0) struct DLManagedTensorVersioned** out (struct DLManagedTensorVersioned* tensor = NULL) "$1 = &tensor;"
%typemap(argout) struct DLManagedTensorVersioned** out "$result = tensor_capsule(*$1);"

// --- Functions that need code for Python.
%ignore hws_comm_create_host;
%nothread hws_status_name; %nothread hws_library_abi; %nothread hws_library_version; %nothread hws_engine_cancel;
%nothread hws_engine_sizes; %nothread hws_engine_progress; %nothread set_error_hooks; %nothread library_path;
%nothread end_callbacks;
%typemap(in) PyObject* "$1 = $input;"
%inline %{
/* Makes a host comm from an object with send, recv and perhaps exchange and abort. */
static hws_status hws_comm_create_host_object(PyObject* transport, int32_t rank, int32_t world_size, hws_comm** out) {
  return create_host_comm(transport, rank, world_size, out);
}
/* Returns the path of the loaded library. */
static const char* library_path(void) {
  Dl_info info;
  return dladdr((void*)(size_t)hws_library_abi, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "";
}
%}
void set_error_hooks(PyObject* factory, PyObject* status_of);
void end_callbacks(void);
%init %{
  forget_threads_after_fork();
%}
%constant const char* MODULE_VERSION = HAWSER_VERSION;
