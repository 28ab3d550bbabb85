// A transport of the host program whose functions are written in Java. They run on threads of the library, so
// org.hawser.TransportCalls stores their exceptions and returns a status.
#include <stdlib.h>
#include <string.h>

#include "support.h"

typedef struct {
  jobject object;  // global reference
  char* message;   // message of the last call that failed
} transport;

/// Returns the status, or HWS_CALLBACK if an error of the VM ended the call.
static hws_status answer(JNIEnv* env, jint status) {
  if (!(*env)->ExceptionCheck(env)) return status;
  (*env)->ExceptionClear(env);
  return HWS_CALLBACK;
}

static hws_status transfer(transport* to, jmethodID method, int32_t rank, const void* data, int64_t bytes,
                           double timeout) {
  JNIEnv* env = environment();
  if (env == NULL || bytes > INT32_MAX) return HWS_UNAVAILABLE;
  const jobject view = (*env)->NewDirectByteBuffer(env, (void*)data, (jlong)bytes);
  if (view == NULL) {
    (*env)->ExceptionClear(env);
    return HWS_OUT_OF_MEMORY;
  }
  const hws_status status = answer(
      env, (*env)->CallStaticIntMethod(env, callbacks.type, method, to->object, (jint)rank, view, timeout));
  (*env)->DeleteLocalRef(env, view);
  return status;
}

static hws_status send_bytes(void* user, int32_t rank, const void* data, int64_t bytes, double timeout) {
  return transfer(user, callbacks.send, rank, data, bytes, timeout);
}

static hws_status receive_bytes(void* user, int32_t rank, void* data, int64_t bytes, double timeout) {
  return transfer(user, callbacks.receive, rank, data, bytes, timeout);
}

static hws_status exchange_bytes(void* user, int32_t rank, const void* sent, int64_t sent_bytes,
                                 void* received, int64_t received_bytes, double timeout) {
  const transport* with = user;
  JNIEnv* env = environment();
  if (env == NULL || sent_bytes > INT32_MAX || received_bytes > INT32_MAX) return HWS_UNAVAILABLE;
  const jobject out = (*env)->NewDirectByteBuffer(env, (void*)sent, (jlong)sent_bytes);
  const jobject in = out == NULL ? NULL : (*env)->NewDirectByteBuffer(env, received, (jlong)received_bytes);
  if (in == NULL) {
    (*env)->ExceptionClear(env);
    return HWS_OUT_OF_MEMORY;
  }
  const hws_status status =
      answer(env, (*env)->CallStaticIntMethod(env, callbacks.type, callbacks.exchange, with->object,
                                              (jint)rank, out, in, timeout));
  (*env)->DeleteLocalRef(env, in);
  (*env)->DeleteLocalRef(env, out);
  return status;
}

static void abort_transfers(void* user, hws_status code, const char* message) {
  const transport* of = user;
  JNIEnv* env = environment();
  if (env == NULL) return;
  const jthrowable pending =
      (*env)->ExceptionOccurred(env);  // abort may run while an exception of a callback is pending
  (*env)->ExceptionClear(env);
  const jbyteArray text = bytes_of(env, message, message == NULL ? 0 : strlen(message));
  if (text != NULL) {
    (*env)->CallStaticVoidMethod(env, callbacks.type, callbacks.abort, of->object, (jint)code, text);
    (*env)->DeleteLocalRef(env, text);
  }
  (*env)->ExceptionClear(env);
  if (pending != NULL) (*env)->Throw(env, pending);
}

static const char* last_message(void* user) {
  transport* of = user;
  JNIEnv* env = environment();
  if (env == NULL || (*env)->ExceptionCheck(env)) return NULL;
  const jbyteArray text = (*env)->CallStaticObjectMethod(env, callbacks.type, callbacks.message, of->object);
  free(of->message);
  of->message = NULL;
  if ((*env)->ExceptionCheck(env)) {
    (*env)->ExceptionClear(env);
    return NULL;
  }
  of->message = copy_of(env, text);
  if (text != NULL) (*env)->DeleteLocalRef(env, text);
  return of->message;
}

static void destroy_transport(void* user) {
  transport* of = user;
  JNIEnv* env = environment();
  if (env != NULL) {
    const jthrowable pending = (*env)->ExceptionOccurred(env);
    (*env)->ExceptionClear(env);
    (*env)->CallStaticVoidMethod(env, callbacks.type, callbacks.release, of->object);
    (*env)->ExceptionClear(env);
    (*env)->DeleteGlobalRef(env, of->object);
    if (pending != NULL) (*env)->Throw(env, pending);
  }
  free(of->message);
  free(of);
}

hws_status create_host_comm(JNIEnv* env, int32_t rank, int32_t world_size, jobject object, hws_comm** out) {
  transport* user = calloc(1, sizeof *user);
  if (user == NULL) return HWS_OUT_OF_MEMORY;
  user->object = (*env)->NewGlobalRef(env, object);
  const hws_comm_host host = {.struct_size = sizeof host,
                              .rank = rank,
                              .world_size = world_size,
                              .user = user,
                              .send = send_bytes,
                              .recv = receive_bytes,
                              .exchange = exchange_bytes,
                              .abort = abort_transfers,
                              .message = last_message,
                              .destroy = destroy_transport};
  return hws_comm_create_host(&host, out);
}
