// Helpers that the generated wrapper and the callbacks share: the VM, its threads, text, and errors as
// exceptions.
#ifndef HAWSER_JAVA_SUPPORT_H
#define HAWSER_JAVA_SUPPORT_H

#include <jni.h>

#include "hawser.h"

// The static methods of org.hawser.Callbacks, looked up once when the library is loaded.
typedef struct {
  jclass type;
  jmethodID error, step, sizes, progress, evaluation;
  jmethodID on_step, on_token, on_metrics, on_progress, on_source, interrupted, secret;
  jmethodID send, receive, exchange, abort, message, release;
} callback_methods;
extern callback_methods callbacks;

// Returns the calling thread's JNI environment, or NULL if the VM is shutting down. A thread of the library
// is attached as a daemon until it ends.
JNIEnv* environment(void);
// Returns the handle of a NativeObject, or NULL for null. The object is an argument of the native method, so
// it stays alive.
void* handle_of(JNIEnv* env, jobject object);

// Returns a new array, or NULL with a pending OutOfMemoryError.
jbyteArray bytes_of(JNIEnv* env, const void* data, size_t size);
// Returns a copy of an array's bytes, followed by a NUL byte; the caller frees the copy. Returns NULL for
// null, and with a pending OutOfMemoryError.
char* copy_of(JNIEnv* env, jbyteArray array);
// Returns the start of a direct buffer's memory and sets *count to its number of elements; NULL and 0 for
// null.
void* address_of(JNIEnv* env, jobject buffer, size_t* count);

// Throws the exception for `status`, unless it is HWS_OK or a callback has thrown. owner: the object of the
// call, or NULL.
void check_status(JNIEnv* env, jobject owner, hws_status status);
jobject step_of(JNIEnv* env, const hws_step_result* result);
jobject progress_of(JNIEnv* env, const hws_progress* progress);

// Lets Thread.interrupt end the long calls of this thread. Only the first call on a thread does any work.
void watch_interrupts(void);

// Callbacks for the library. Their `user` is a global reference, which release_reference deletes.
int32_t call_train(void* user, const hws_train_record* record);
int32_t call_token(void* user, int32_t token);
void call_metrics(void* user, const char* json, size_t size);
int32_t call_progress(void* user, const char* json, size_t size);
int32_t call_source(void* user, hws_source_batch* batch);
int32_t call_secret(void* user, void* data, size_t capacity, size_t* bytes);
void release_reference(void* user);
// Makes a comm whose transport calls the methods of `object`, an org.hawser.TransportCalls.
hws_status create_host_comm(JNIEnv* env, int32_t rank, int32_t world_size, jobject object, hws_comm** out);

#endif
