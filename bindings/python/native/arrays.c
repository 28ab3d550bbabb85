// Converts arrays of Python objects to the form that the C API expects. Other arrays are refused with the
// reason.
#include <stdlib.h>
#include <string.h>

#include "support.h"

/// The structs of DLPack 1.0. An unversioned capsule has only `tensor`, context and deleter.
typedef struct dl_tensor {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct dl_versioned*);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;

static const char* type_name(const array* a, char* buffer, size_t size) {
  const char* base = a->kind == 'i' ? "int" : a->kind == 'u' ? "uint" : a->kind == 'f' ? "float" : NULL;
  if (base != NULL)
    PyOS_snprintf(buffer, size, "%s%d", base, a->bits);
  else if (a->kind == 'b')
    PyOS_snprintf(buffer, size, "bool");
  else
    PyOS_snprintf(buffer, size, "elements of format '%s'", a->view.format != NULL ? a->view.format : "?");
  return buffer;
}

static void read_format(array* a) {
  const char* format = a->view.format != NULL ? a->view.format : "B";
  a->bits = (int)a->view.itemsize * 8;
  a->kind = '?';
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == 0 || format[1] != 0) return;  // big-endian formats and structs
  if (strchr("bhilqn", *format) != NULL) a->kind = 'i';
  if (strchr("BHILQNc", *format) != NULL) a->kind = 'u';
  if (strchr("efdg", *format) != NULL) a->kind = 'f';
  if (*format == '?') a->kind = 'b';
}

static int refuse_strides(const char* what) {
  PyErr_Format(
      PyExc_ValueError,
      "%s: the array is not C-contiguous (row after row, without gaps): pass a copy that is, such as "
      "numpy.ascontiguousarray(x) or x.contiguous()",
      what);
  return 0;
}

static int refuse_dims(const char* what, int ndim) {
  PyErr_Format(PyExc_ValueError, "%s: the array has %d dimensions; at most 8 are supported", what, ndim);
  return 0;
}

static int by_buffer(PyObject* object, array* a, const char* what, int writable) {
  if (PyObject_GetBuffer(object, &a->view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    a->view.obj = NULL;
    return 0;
  }
  if (a->view.ndim > 8) return refuse_dims(what, a->view.ndim);
  if (!PyBuffer_IsContiguous(&a->view, 'C')) return refuse_strides(what);
  if (writable && a->view.readonly) {
    PyErr_Format(PyExc_ValueError, "%s: the array is read-only, and the result is written there", what);
    return 0;
  }
  a->data = a->view.buf;
  a->ndim = a->view.ndim;
  for (int d = 0; d < a->ndim; ++d) a->shape[d] = a->view.shape[d];
  read_format(a);
  return 1;
}

static PyObject* dlpack_capsule(PyObject* object) {
  PyObject* method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject* none = PyTuple_New(0);
  PyObject* version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
  PyObject* capsule = NULL;
  if (method != NULL && none != NULL && version != NULL) {
    capsule = PyObject_Call(method, none, version);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a library before DLPack 1.0
      PyErr_Clear();
      capsule = PyObject_Call(method, none, NULL);
    }
  }
  Py_XDECREF(method);
  Py_XDECREF(none);
  Py_XDECREF(version);
  return capsule;
}

static const dl_tensor* tensor_in(PyObject* capsule, int* readonly) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dl_versioned* versioned = (const dl_versioned*)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    *readonly = (versioned->flags & 1) != 0;
    return versioned->major == 1 ? &versioned->tensor : NULL;
  }
  *readonly = 0;
  return PyCapsule_IsValid(capsule, "dltensor") ? (const dl_tensor*)PyCapsule_GetPointer(capsule, "dltensor")
                                                : NULL;
}

static int by_dlpack(PyObject* object, array* a, const char* what, int writable) {
  a->capsule = dlpack_capsule(object);  // never renamed, so dropping it calls the deleter
  if (a->capsule == NULL) return 0;
  int readonly = 0;
  const dl_tensor* t = tensor_in(a->capsule, &readonly);
  if (t == NULL || (t->device_type != 1 && t->device_type != 3)) {  // CPU memory or pinned host memory
    PyErr_Format(PyExc_ValueError, "%s: the tensor is not in the memory of the CPU: move it there first",
                 what);
    return 0;
  }
  if (t->ndim > 8) return refuse_dims(what, t->ndim);
  int64_t expected = 1;
  int contiguous = 1;
  for (int d = t->ndim - 1; d >= 0; --d) {
    contiguous = contiguous && (t->strides == NULL || t->shape[d] == 1 || t->strides[d] == expected);
    expected *= t->shape[d];
    a->shape[d] = t->shape[d];
  }
  if (!contiguous && expected > 0) return refuse_strides(what);
  if (writable && readonly) {
    PyErr_Format(PyExc_ValueError, "%s: the tensor is read-only, and the result is written there", what);
    return 0;
  }
  a->data = (char*)t->data + t->byte_offset;
  a->ndim = t->ndim;
  a->bits = t->bits * t->lanes;
  a->kind = t->lanes != 1 || t->code > 6 ? '?' : "iuf??cb"[t->code];
  return 1;
}

static int array_open(PyObject* object, array* a, const char* what, int writable) {
  if (PyObject_CheckBuffer(object)) {
    if (!by_buffer(object, a, what, writable)) return 0;
  } else if (PyObject_HasAttrString(object, "__dlpack__")) {
    if (!by_dlpack(object, a, what, writable)) return 0;
  } else {
    PyObject* type = PyType_GetName(Py_TYPE(object));
    PyErr_Format(PyExc_TypeError,
                 "%s: expected an array (of NumPy, of PyTorch on the CPU, array.array, or anything with the "
                 "buffer protocol or DLPack), not %S",
                 what, type);
    Py_XDECREF(type);
    return 0;
  }
  a->elements = 1;
  for (int d = 0; d < a->ndim; ++d) a->elements *= a->shape[d];
  return 1;
}

void array_close(array* a) {
  if (a->view.obj != NULL) PyBuffer_Release(&a->view);
  Py_CLEAR(a->capsule);
  free(a->converted);
  a->converted = NULL;
}

static int narrow(array* a, const char* what) {
  a->converted = (int32_t*)malloc(a->elements > 0 ? (size_t)a->elements * 4 : 4);
  if (a->converted == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  for (int64_t i = 0; i < a->elements; ++i) {
    int64_t value;
    memcpy(&value, (const char*)a->data + 8 * i, 8);
    a->converted[i] = (int32_t)value;
    if (a->converted[i] == value) continue;
    const int64_t cols = a->ndim > 0 && a->shape[a->ndim - 1] > 0 ? a->shape[a->ndim - 1] : 1;
    PyErr_Format(PyExc_ValueError, "%s: row %lld, column %lld is %lld, which does not fit int32", what,
                 (long long)(i / cols), (long long)(i % cols), (long long)value);
    return 0;
  }
  a->data = a->converted;
  return 1;
}

static int has_dims(const array* a, const char* what, int ndim) {
  if (a->ndim == ndim) return 1;
  PyErr_Format(PyExc_ValueError, "%s: expected %s, not an array of %d dimensions", what,
               ndim == 3   ? "shape [rows, cols, top]"
               : ndim == 2 ? "shape [rows, cols]"
                           : "one dimension",
               a->ndim);
  return 0;
}

int array_integers(PyObject* object, array* a, const char* what, int ndim) {
  if (!array_open(object, a, what, 0)) return 0;
  char name[64];
  if (a->kind != 'i' || (a->bits != 32 && a->bits != 64)) {
    PyErr_Format(PyExc_TypeError,
                 "%s: expected int32 or int64, not %s: convert it, such as x.astype('int32')", what,
                 type_name(a, name, sizeof name));
    return 0;
  }
  return has_dims(a, what, ndim) && (a->bits == 32 || narrow(a, what));
}

int array_floats(PyObject* object, array* a, const char* what, int writable) {
  if (!array_open(object, a, what, writable)) return 0;
  char name[64];
  if (a->kind == 'f' && a->bits == 32) return 1;
  PyErr_Format(PyExc_TypeError, "%s: expected float32, not %s%s", what, type_name(a, name, sizeof name),
               writable ? "" : ": convert it, such as x.astype('float32')");
  return 0;
}

int array_out_integers(PyObject* object, array* a, const char* what) {
  if (!array_open(object, a, what, 1)) return 0;
  char name[64];
  if (a->kind == 'i' && a->bits == 32) return 1;
  PyErr_Format(PyExc_TypeError, "%s: expected int32, not %s", what, type_name(a, name, sizeof name));
  return 0;
}

int array_bytes(PyObject* object, array* a, const char* what) {
  if (!array_open(object, a, what, 0)) return 0;
  a->elements *= a->bits / 8;
  return 1;
}

/* Opens element i of a batch; its shape must begin with that of the tokens. */
static int open_element(PyObject* object, int i, array* arrays) {
  static const struct {
    const char* name;
    int integers, ndim;
  } kinds[kBatchArrays] = {{"tokens", 1, 2},          {"targets", 1, 2},    {"document_begin", 1, 2},
                           {"weights", 0, 2},         {"references", 0, 1}, {"teacher_ids", 1, 3},
                           {"teacher_logprobs", 0, 3}};
  const char* name = kinds[i].name;
  array* a = &arrays[i];
  if (kinds[i].integers && !array_integers(object, a, name, kinds[i].ndim)) return 0;
  if (!kinds[i].integers && !(array_floats(object, a, name, 0) && has_dims(a, name, kinds[i].ndim))) return 0;
  if (kinds[i].ndim == 1 && a->shape[0] != arrays[0].shape[0]) {
    PyErr_Format(PyExc_ValueError, "%s: there are %lld, and tokens have %lld rows", name,
                 (long long)a->shape[0], (long long)arrays[0].shape[0]);
    return 0;
  }
  if (kinds[i].ndim == 1 || (a->shape[0] == arrays[0].shape[0] && a->shape[1] == arrays[0].shape[1]))
    return 1;
  PyErr_Format(PyExc_ValueError, "%s: its shape is [%lld, %lld%s], and that of tokens [%lld, %lld]", name,
               (long long)a->shape[0], (long long)a->shape[1], kinds[i].ndim == 3 ? ", .." : "",
               (long long)arrays[0].shape[0], (long long)arrays[0].shape[1]);
  return 0;
}

int batch_of(PyObject* tuple, array* arrays, hws_batch* batch) {
  const void* data[kBatchArrays] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) < 4 || PyTuple_Size(tuple) > kBatchArrays) {
    PyErr_SetString(PyExc_TypeError,
                    "a batch is (tokens, targets, document_begin, weights, references, teacher_ids, "
                    "teacher_logprobs)");
    return 0;
  }
  for (int i = 0; i < PyTuple_Size(tuple); ++i) {
    PyObject* object = PyTuple_GetItem(tuple, i);
    if (object == Py_None && i > 0) continue;
    if (!open_element(object, i, arrays)) return 0;
    data[i] = arrays[i].data;
  }
  const int64_t top = data[5] ? arrays[5].shape[2] : 0, others = data[6] ? arrays[6].shape[2] : 0;
  if (top != others) {
    PyErr_Format(PyExc_ValueError,
                 "teacher_ids has %lld elements for each position, and teacher_logprobs %lld", (long long)top,
                 (long long)others);
    return 0;
  }
  memset(batch, 0, sizeof *batch);
  batch->struct_size = sizeof *batch;
  batch->rows = arrays[0].shape[0];
  batch->cols = arrays[0].shape[1];
  batch->tokens = (const int32_t*)data[0];
  batch->targets = (const int32_t*)data[1];
  batch->document_begin = (const int32_t*)data[2];
  batch->weights = (const float*)data[3];
  batch->references = (const float*)data[4];
  batch->teacher_top = top;
  batch->teacher_ids = (const int32_t*)data[5];
  batch->teacher_logprobs = (const float*)data[6];
  return 1;
}

static int32_t copy_batch(const hws_batch* from, hws_source_batch* to) {
  if (from->cols != to->cols || from->rows > to->rows) {
    PyErr_Format(
        PyExc_ValueError,
        "the data source gave a batch of [%lld, %lld]; a step takes at most %lld rows of %lld tokens",
        (long long)from->rows, (long long)from->cols, (long long)to->rows, (long long)to->cols);
    return -1;
  }
  if (from->targets == NULL) {
    PyErr_SetString(PyExc_ValueError,
                    "the data source gave tokens without targets; targets[t] is the token that position t "
                    "predicts, or -100 for none");
    return -1;
  }
  const size_t bytes = (size_t)(from->rows * from->cols) * 4;
  memcpy(to->tokens, from->tokens, bytes);
  memcpy(to->targets, from->targets, bytes);
  if (from->document_begin != NULL) {
    memcpy(to->document_begin, from->document_begin, bytes);
    to->has_documents = 1;
  }
  if (from->weights != NULL) {
    memcpy(to->weights, from->weights, bytes);
    to->has_weights = 1;
  }
  return 0;
}

int32_t fill_source_batch(PyObject* answer, hws_source_batch* batch) {
  if (answer == Py_None) return HWS_SOURCE_END;
  array arrays[kBatchArrays];
  memset(arrays, 0, sizeof arrays);
  hws_batch given;
  const int32_t result = batch_of(answer, arrays, &given) ? copy_batch(&given, batch) : -1;
  for (int i = 0; i < kBatchArrays; ++i) array_close(&arrays[i]);
  return result;
}

static void capsule_destructor(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
    return;  // a consumer that took the tensor renamed it
  dl_versioned* tensor = (dl_versioned*)PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (tensor->deleter != NULL) tensor->deleter(tensor);
}

PyObject* tensor_capsule(struct DLManagedTensorVersioned* tensor) {
  PyObject* capsule = PyCapsule_New(tensor, "dltensor_versioned", capsule_destructor);
  if (capsule == NULL) ((dl_versioned*)tensor)->deleter((dl_versioned*)tensor);
  return capsule;
}
