// Converts statuses to exceptions of hawser.errors, and exceptions to statuses.
#include <stdlib.h>
#include <string.h>

#include "support.h"

static PyObject* error_factory = NULL;
static PyObject* error_status = NULL;

void set_error_hooks(PyObject* factory, PyObject* status_of) {
  Py_INCREF(factory);
  Py_INCREF(status_of);
  Py_XDECREF(error_factory);
  Py_XDECREF(error_status);
  error_factory = factory;
  error_status = status_of;
}

static PyObject* text(const char* utf8) {  // messages may quote paths, which can be any bytes
  return PyUnicode_DecodeUTF8(utf8, (Py_ssize_t)strlen(utf8), "backslashreplace");
}

void raise_status(hws_status status) {
  hws_error* error = NULL;
  const char *message = hws_status_name(status), *details = "{}";
  if (hws_error_take(&error) == HWS_OK && hws_error_code(error) == status) {  // otherwise it is an old error
    message = hws_error_message(error);
    details = hws_error_details(error);
  }
  PyObject* raised = error_factory == NULL ? PyObject_CallFunction(PyExc_RuntimeError, "N", text(message))
                                           : PyObject_CallFunction(error_factory, "iNN", (int)status,
                                                                   text(message), text(details));
  if (raised != NULL) PyErr_SetObject((PyObject*)Py_TYPE(raised), raised);
  Py_XDECREF(raised);
  hws_error_destroy(error);
}

hws_status take_exception(char** message) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  int status = HWS_UNAVAILABLE;
  *message = NULL;
  PyObject* told = error_status == NULL ? NULL : PyObject_CallFunction(error_status, "O", value);
  const char* words = NULL;
  if (told != NULL && PyArg_ParseTuple(told, "iy", &status, &words)) *message = strdup(words);
  PyErr_Clear();
  Py_XDECREF(told);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return status == HWS_OK ? HWS_UNAVAILABLE : status;
}

const char* text_of(PyObject* object, PyObject** owner, int* ok) {
  *ok = 1;
  *owner = NULL;
  if (object == Py_None) return NULL;
  if (PyUnicode_Check(object)) {
    *owner = PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape");
  } else if (!PyUnicode_FSConverter(object, owner)) {
    *owner = NULL;
  }
  char* bytes = NULL;
  Py_ssize_t size = 0;
  *ok = *owner != NULL && PyBytes_AsStringAndSize(*owner, &bytes, &size) == 0;
  if (*ok && memchr(bytes, 0, (size_t)size) != NULL) {
    PyErr_SetString(PyExc_ValueError, "a text has a NUL inside, where the library would cut it off");
    *ok = 0;
  }
  return *ok ? bytes : NULL;
}
