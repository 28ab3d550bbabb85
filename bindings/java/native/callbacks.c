// Forwards callbacks of the library to org.hawser.Callbacks. If a callback throws, the exception stays
// pending until the native method returns, so the Java caller receives it unchanged. Until then no other
// callback is called.
#include <string.h>

#include "support.h"

// Returns the JNI environment if Java may be called now, or NULL.
static JNIEnv* ready(void) {
  JNIEnv* env = environment();
  return env == NULL || (*env)->ExceptionCheck(env) ? NULL : env;
}

static int32_t poll_interrupt(void* user) {
  (void)user;
  JNIEnv* env = ready();
  if (env == NULL) return 0;
  const jboolean interrupted = (*env)->CallStaticBooleanMethod(env, callbacks.type, callbacks.interrupted);
  return (*env)->ExceptionCheck(env) || interrupted;
}

void watch_interrupts(void) {
  static __thread int watched;
  if (watched) return;
  watched = hws_thread_set_interrupt(poll_interrupt, NULL, NULL) == HWS_OK;
}

int32_t call_train(void* user, const hws_train_record* r) {
  JNIEnv* env = ready();
  if (env == NULL) return 1;
  const jboolean go_on = (*env)->CallStaticBooleanMethod(
      env, callbacks.type, callbacks.on_step, (jobject)user, (jint)r->outcome, (jlong)r->step, r->loss,
      r->grad_norm, r->learning_rate, (jlong)r->tokens, (jlong)r->samples, (jlong)r->skipped, r->seconds,
      r->validation_loss, r->tokens_per_second, (jlong)r->total_steps, (jboolean)(r->saved != 0),
      (jboolean)(r->best != 0), (jlong)r->communication_bytes, (jlong)r->save_failures);
  return (*env)->ExceptionCheck(env) || !go_on;
}

int32_t call_token(void* user, int32_t token) {
  JNIEnv* env = ready();
  if (env == NULL) return 1;
  const jboolean go_on =
      (*env)->CallStaticBooleanMethod(env, callbacks.type, callbacks.on_token, (jobject)user, (jint)token);
  return (*env)->ExceptionCheck(env) || !go_on;
}

void call_metrics(void* user, const char* json, size_t size) {
  JNIEnv* env = ready();
  if (env == NULL) return;
  const jbyteArray text = bytes_of(env, json, size);
  if (text == NULL) return;
  (*env)->CallStaticVoidMethod(env, callbacks.type, callbacks.on_metrics, (jobject)user, text);
  (*env)->DeleteLocalRef(env, text);
}

int32_t call_progress(void* user, const char* json, size_t size) {
  JNIEnv* env = ready();
  if (env == NULL) return 1;
  const jbyteArray text = bytes_of(env, json, size);
  if (text == NULL) return 1;
  const jboolean go_on =
      (*env)->CallStaticBooleanMethod(env, callbacks.type, callbacks.on_progress, (jobject)user, text);
  (*env)->DeleteLocalRef(env, text);
  return (*env)->ExceptionCheck(env) || !go_on;
}

static void delete_local(JNIEnv* env, jobject reference) {
  if (reference != NULL) (*env)->DeleteLocalRef(env, reference);
}

int32_t call_source(void* user, hws_source_batch* batch) {
  JNIEnv* env = ready();
  if (env == NULL) return HWS_CALLBACK;
  const jlong bytes = (jlong)(batch->rows * batch->cols * 4);
  void* const arrays[4] = {batch->tokens, batch->targets, batch->document_begin, batch->weights};
  jobject views[4] = {NULL, NULL, NULL, NULL};
  for (int i = 0; i < 4 && !(*env)->ExceptionCheck(env); ++i)
    views[i] = (*env)->NewDirectByteBuffer(env, arrays[i], bytes);
  jint answer = 0;
  if (!(*env)->ExceptionCheck(env))
    answer = (*env)->CallStaticIntMethod(env, callbacks.type, callbacks.on_source, (jobject)user, views[0],
                                         views[1], views[2], views[3], (jlong)batch->step,
                                         (jlong)batch->samples, (jlong)batch->rows, (jlong)batch->cols);
  for (int i = 0; i < 4; ++i) delete_local(env, views[i]);
  if ((*env)->ExceptionCheck(env)) return HWS_CALLBACK;
  if (answer < 0) return HWS_SOURCE_END;
  batch->has_documents = (answer & 1) != 0;
  batch->has_weights = (answer & 2) != 0;
  return 0;
}

int32_t call_secret(void* user, void* data, size_t capacity, size_t* bytes) {
  JNIEnv* env = ready();
  if (env == NULL) return 1;
  const jbyteArray secret =
      (*env)->CallStaticObjectMethod(env, callbacks.type, callbacks.secret, (jobject)user);
  if ((*env)->ExceptionCheck(env) || secret == NULL) return 1;
  const size_t size = (size_t)(*env)->GetArrayLength(env, secret);
  *bytes = size;
  if (size <= capacity) (*env)->GetByteArrayRegion(env, secret, 0, (jsize)size, (jbyte*)data);
  (*env)->DeleteLocalRef(env, secret);
  return size > capacity;
}

void release_reference(void* user) {
  JNIEnv* env = environment();
  if (env != NULL) (*env)->DeleteGlobalRef(env, (jobject)user);  // allowed with an exception pending
}
