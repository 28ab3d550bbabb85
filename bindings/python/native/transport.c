// Implements hws_comm_host by a Python object. Its methods run on threads of the library.
#include <stdlib.h>
#include <string.h>

#include "support.h"

typedef struct transport_link {
  PyObject* transport;
  char* message;  ///< message of the last call that failed
} transport_link;

/// Returns the status of a call that returned `answer`, or that raised.
static hws_status ended(transport_link* link, PyObject* answer) {
  if (answer != NULL) {
    Py_DECREF(answer);
    return HWS_OK;
  }
  free(link->message);
  return take_exception(&link->message);
}

// A transport reads from a copy and writes to a buffer that is copied afterwards, so a view that it keeps
// never points to the library's memory.
static PyObject* writable(PyObject* bytes) { return bytes == NULL ? NULL : PyMemoryView_FromObject(bytes); }

static hws_status send_bytes(void* user, int32_t to, const void* data, int64_t bytes, double timeout) {
  transport_link* link = (transport_link*)user;
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return HWS_UNAVAILABLE;
  const hws_status status = ended(
      link, PyObject_CallMethod(link->transport, "send", "iy#d", (int)to, data, (Py_ssize_t)bytes, timeout));
  leave_python(gil);
  return status;
}

static hws_status receive_bytes(void* user, int32_t from, void* data, int64_t bytes, double timeout) {
  transport_link* link = (transport_link*)user;
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return HWS_UNAVAILABLE;
  PyObject* filled = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)bytes);
  const hws_status status =
      ended(link, PyObject_CallMethod(link->transport, "recv", "iNd", (int)from, writable(filled), timeout));
  if (status == HWS_OK) memcpy(data, PyByteArray_AsString(filled), (size_t)bytes);
  Py_XDECREF(filled);
  leave_python(gil);
  return status;
}

static hws_status exchange_bytes(void* user, int32_t rank, const void* sent, int64_t sent_bytes,
                                 void* received, int64_t received_bytes, double timeout) {
  transport_link* link = (transport_link*)user;
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return HWS_UNAVAILABLE;
  PyObject* filled = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)received_bytes);
  const hws_status status =
      ended(link, PyObject_CallMethod(link->transport, "exchange", "iy#Nd", (int)rank, sent,
                                      (Py_ssize_t)sent_bytes, writable(filled), timeout));
  if (status == HWS_OK) memcpy(received, PyByteArray_AsString(filled), (size_t)received_bytes);
  Py_XDECREF(filled);
  leave_python(gil);
  return status;
}

static void abort_transport(void* user, hws_status code, const char* message) {
  transport_link* link = (transport_link*)user;
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return;
  PyObject* done = PyObject_CallMethod(link->transport, "abort", "is", (int)code, message);
  if (done == NULL) PyErr_Clear();  // there is no caller to report to
  Py_XDECREF(done);
  leave_python(gil);
}

static const char* last_message(void* user) { return ((transport_link*)user)->message; }

static void destroy_link(void* user) {
  transport_link* link = (transport_link*)user;
  drop(link->transport);
  free(link->message);
  free(link);
}

hws_status create_host_comm(PyObject* transport, int32_t rank, int32_t world_size, hws_comm** out) {
  PyGILState_STATE gil = PyGILState_Ensure();
  transport_link* link = (transport_link*)calloc(1, sizeof *link);
  Py_INCREF(transport);
  const int exchanges = PyObject_HasAttrString(transport, "exchange");
  const int aborts = PyObject_HasAttrString(transport, "abort");
  PyGILState_Release(gil);
  if (link == NULL) {
    drop(transport);
    return HWS_OUT_OF_MEMORY;
  }
  link->transport = transport;
  hws_comm_host host;
  memset(&host, 0, sizeof host);
  host.struct_size = sizeof host;
  host.rank = rank;
  host.world_size = world_size;
  host.user = link;
  host.send = send_bytes;
  host.recv = receive_bytes;
  host.exchange = exchanges ? exchange_bytes : NULL;
  host.abort = aborts ? abort_transport : NULL;
  host.message = last_message;
  host.destroy = destroy_link;
  return hws_comm_create_host(&host, out);
}

static int32_t give_secret(void* user, void* data, size_t capacity, size_t* bytes) {
  PyGILState_STATE gil;
  if (!enter_python(&gil)) return 1;
  const Py_ssize_t size = PyBytes_Size((PyObject*)user);
  *bytes = (size_t)size;
  memcpy(data, PyBytes_AsString((PyObject*)user), *bytes < capacity ? *bytes : capacity);
  leave_python(gil);
  return 0;
}

int address_of(PyObject* tuple, hws_comm_address* to) {
  PyObject *texts[5], *secret;
  int rank, world_size, trust, shared;
  memset(to, 0, sizeof *to);
  to->struct_size = sizeof *to;
  if (!PyArg_ParseTuple(tuple, "iiOOOddOOOip", &rank, &world_size, &texts[0], &texts[1], &texts[2],
                        &to->timeout_seconds, &to->silence_seconds, &texts[3], &texts[4], &secret, &trust,
                        &shared))
    return 0;
  const char** const fields[5] = {&to->address, &to->host, &to->network_interface, &to->job,
                                  &to->secret_file};
  for (int i = 0; i < 5; ++i) {
    char* bytes = NULL;
    if (texts[i] != Py_None && PyBytes_AsStringAndSize(texts[i], &bytes, NULL) != 0) return 0;
    *fields[i] = bytes;
  }
  to->rank = rank;
  to->world_size = world_size;
  to->trust_network = trust;
  to->without_shared_memory = !shared;
  if (secret == Py_None) return 1;
  if (!PyBytes_Check(secret)) {
    PyErr_SetString(PyExc_TypeError, "secret: expected bytes");
    return 0;
  }
  to->secret = give_secret;
  to->secret_user = secret;
  return 1;
}
