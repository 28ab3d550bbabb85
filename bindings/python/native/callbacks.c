// Calls Python callables from the callbacks of the C API, and checks signals in its interrupt poll.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

// If a thread requests the interpreter while it shuts down, Python ends the thread by unwinding its stack.
// Unwinding through the library's C++ would end the process. So callbacks are counted, and after
// end_callbacks only the thread that called it may still run them.
static atomic_int inside, leaving;
static pthread_t leaver;
static void forget_other_threads(void) { atomic_store(&inside, 0); }

int enter_python(PyGILState_STATE* gil) {
  atomic_fetch_add(&inside, 1);
  if (atomic_load(&leaving) && !pthread_equal(pthread_self(), leaver)) {
    atomic_fetch_sub(&inside, 1);
    return 0;
  }
  *gil = PyGILState_Ensure();
  return 1;
}

void leave_python(PyGILState_STATE gil) {
  PyGILState_Release(gil);
  atomic_fetch_sub(&inside, 1);
}

void end_callbacks(void) {
  leaver = pthread_self();
  atomic_store(&leaving, 1);
  Py_BEGIN_ALLOW_THREADS;
  for (int waited = 0; atomic_load(&inside) > 0 && waited < 2000; ++waited) usleep(1000);
  Py_END_ALLOW_THREADS;
}

/// Returns 1 if the callback failed or returned False, which ends the run, and 0 for any other value.
static int32_t stops(PyObject* answer) {
  const int32_t stop = answer == NULL || answer == Py_False;
  Py_XDECREF(answer);
  return stop;
}

int32_t train_trampoline(void* user, const hws_train_record* r) {
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return 1;
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
  leave_python(gil);
  return stop;
}

int32_t token_trampoline(void* user, int32_t token) {
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return 1;
  int32_t stop = 1;
  if (PyErr_Occurred() == NULL && PyErr_CheckSignals() == 0)
    stop = stops(PyObject_CallFunction((PyObject*)user, "i", (int)token));
  leave_python(gil);
  return stop;
}

void metrics_trampoline(void* user, const char* json, size_t size) {
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return;
  if (PyErr_Occurred() == NULL)
    Py_XDECREF(PyObject_CallFunction((PyObject*)user, "y#", json, (Py_ssize_t)size));
  leave_python(gil);
}

int32_t progress_trampoline(void* user, const char* json, size_t size) {
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return 1;
  int32_t stop = 1;
  if (PyErr_Occurred() == NULL && PyErr_CheckSignals() == 0)
    stop = stops(PyObject_CallFunction((PyObject*)user, "y#", json, (Py_ssize_t)size));
  leave_python(gil);
  return stop;
}

int32_t source_trampoline(void* user, hws_source_batch* batch) {
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return HWS_SOURCE_END;
  int32_t answer = -1;
  if (PyErr_Occurred() == NULL) {
    PyObject* given =
        PyObject_CallFunction((PyObject*)user, "LLLL", (long long)batch->step, (long long)batch->samples,
                              (long long)batch->rows, (long long)batch->cols);
    if (given != NULL) answer = fill_source_batch(given, batch);
    Py_XDECREF(given);
  }
  leave_python(gil);
  return answer;
}

int32_t interrupt_trampoline(void* user) {
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return 1;
  int32_t end = PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0;
  if (!end && user != NULL) {
    PyObject* answer = PyObject_CallFunction((PyObject*)user, NULL);
    end = answer == NULL || PyObject_IsTrue(answer) != 0;
    Py_XDECREF(answer);
  }
  leave_python(gil);
  return end;
}

void drop(void* user) {
  PyGILState_STATE gil;
  // The process is ending, and the interpreter has shut down or is about to.
  if (!Py_IsInitialized() || !enter_python(&gil)) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_DECREF((PyObject*)user);
  PyErr_Restore(type, value, trace);
  leave_python(gil);
}

void forget_threads_after_fork(void) { pthread_atfork(NULL, NULL, forget_other_threads); }

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
