// Callables behind the callbacks of the C API, and signals behind its interrupt poll.
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

/// Whether a callback wants more: False ends the run, anything else goes on.
static int32_t stops(PyObject* answer) {
  const int32_t stop = answer == NULL || answer == Py_False;
  Py_XDECREF(answer);
  return stop;
}

int32_t train_trampoline(void* user, const hws_train_record* r) {
  PyGILState_STATE gil = PyGILState_Ensure();
  int32_t stop = 1;
  if (PyErr_Occurred() == NULL && PyErr_CheckSignals() == 0) {
    stop = user == NULL ? 0
                        : stops(PyObject_CallFunction(
                              (PyObject*)user, "((iLdddLLLdddLiiLL))", (int)r->outcome, (long long)r->step,
                              r->loss, r->grad_norm, r->learning_rate, (long long)r->tokens,
                              (long long)r->samples, (long long)r->skipped, r->seconds, r->validation_loss,
                              r->tokens_per_second, (long long)r->total_steps, (int)r->saved, (int)r->best,
                              (long long)r->communication_bytes, (long long)r->save_failures));
  }
  PyGILState_Release(gil);
  return stop;
}

int32_t token_trampoline(void* user, int32_t token) {
  PyGILState_STATE gil = PyGILState_Ensure();
  int32_t stop = 1;
  if (PyErr_Occurred() == NULL && PyErr_CheckSignals() == 0)
    stop = stops(PyObject_CallFunction((PyObject*)user, "i", (int)token));
  PyGILState_Release(gil);
  return stop;
}

void metrics_trampoline(void* user, const char* json, size_t size) {
  PyGILState_STATE gil = PyGILState_Ensure();
  if (PyErr_Occurred() == NULL)
    Py_XDECREF(PyObject_CallFunction((PyObject*)user, "y#", json, (Py_ssize_t)size));
  PyGILState_Release(gil);
}

int32_t source_trampoline(void* user, hws_source_batch* batch) {
  PyGILState_STATE gil = PyGILState_Ensure();
  int32_t answer = -1;
  if (PyErr_Occurred() == NULL) {
    PyObject* given =
        PyObject_CallFunction((PyObject*)user, "LLLL", (long long)batch->step, (long long)batch->samples,
                              (long long)batch->rows, (long long)batch->cols);
    if (given != NULL) answer = fill_source_batch(given, batch);
    Py_XDECREF(given);
  }
  PyGILState_Release(gil);
  return answer;
}

int32_t interrupt_trampoline(void* user) {
  PyGILState_STATE gil = PyGILState_Ensure();
  int32_t end = PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0;
  if (!end && user != NULL) {
    PyObject* answer = PyObject_CallFunction((PyObject*)user, NULL);
    end = answer == NULL || PyObject_IsTrue(answer) != 0;
    Py_XDECREF(answer);
  }
  PyGILState_Release(gil);
  return end;
}

void drop(void* user) {
  if (!Py_IsInitialized()) return;  // the process ends, and the interpreter has gone before this thread
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_DECREF((PyObject*)user);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
}

void watch_signals(void) {
  static __thread int watched = 0;
  if (watched) return;
  watched = 1;
  if (syscall(SYS_gettid) == getpid()) hws_thread_set_interrupt(interrupt_trampoline, NULL, NULL);
}

PyObject* step_tuple(const hws_step_result* r) {
  return Py_BuildValue("(iLdddLLLd)", (int)r->outcome, (long long)r->step, r->loss, r->grad_norm,
                       r->learning_rate, (long long)r->tokens, (long long)r->samples, (long long)r->skipped,
                       r->seconds);
}

PyObject* progress_tuple(const hws_progress* p) {
  return Py_BuildValue("(iLLLLLLLLdddddddLi)", (int)p->phase, (long long)p->step, (long long)p->until_step,
                       (long long)p->total_steps, (long long)p->samples, (long long)p->tokens,
                       (long long)p->skipped, (long long)p->done, (long long)p->total, p->loss, p->grad_norm,
                       p->learning_rate, p->step_seconds, p->tokens_per_second, p->validation_loss,
                       p->running_seconds, (long long)p->save_failures, (int)p->saving);
}
