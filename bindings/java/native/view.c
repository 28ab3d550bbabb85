// Native methods of org.hawser.NativeJNI: views of tensors as direct buffers, and the path of the library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "support.h"

// The struct of DLPack 1.0, whose binary layout https://dmlc.github.io/dlpack defines.
typedef struct view view;
struct view {
  uint32_t major, minor;
  void* context;
  void (*deleter)(view* self);
  uint64_t flags;
  void* data;
  int32_t device_type, device_id, dimensions;
  uint8_t type_code, type_bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

#define NATIVE(TYPE, NAME) JNIEXPORT TYPE JNICALL Java_org_hawser_NativeJNI_##NAME
static const view* view_of(jlong handle) { return (const view*)(intptr_t)handle; }

// Returns NULL for a tensor of more than 2 GiB, because a Java buffer cannot hold it.
NATIVE(jobject, view_1data)(JNIEnv* env, jclass type, jlong handle) {
  (void)type;
  const view* of = view_of(handle);
  int64_t bytes = of->type_bits / 8;
  for (int32_t i = 0; i < of->dimensions; ++i) bytes *= of->shape[i];
  return bytes > INT32_MAX
             ? NULL
             : (*env)->NewDirectByteBuffer(env, (char*)of->data + of->byte_offset, (jlong)bytes);
}

NATIVE(jlongArray, view_1shape)(JNIEnv* env, jclass type, jlong handle) {
  (void)type;
  const view* of = view_of(handle);
  const jlongArray shape = (*env)->NewLongArray(env, of->dimensions);
  if (shape != NULL) (*env)->SetLongArrayRegion(env, shape, 0, of->dimensions, (const jlong*)of->shape);
  return shape;
}

NATIVE(jboolean, view_1is_1bf16)(JNIEnv* env, jclass type, jlong handle) {
  (void)env, (void)type;
  return view_of(handle)->type_bits == 16;
}

NATIVE(void, view_1destroy)(JNIEnv* env, jclass type, jlong handle) {
  (void)env, (void)type;
  view* of = (view*)(intptr_t)handle;
  of->deleter(of);
}

NATIVE(jbyteArray, library_1path)(JNIEnv* env, jclass type) {
  (void)type;
  Dl_info info;
  const char* path =
      dladdr((const void*)(uintptr_t)hws_library_abi, &info) != 0 ? info.dli_fname : "libhawser.so.0";
  return bytes_of(env, path, strlen(path));
}
