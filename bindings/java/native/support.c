// Attaches threads to the VM, and converts text and errors between C and Java.
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

callback_methods callbacks;
static JavaVM* vm;
static jfieldID handle_field;
static pthread_key_t attached;

static void detach(void* env) {
  (void)env;
  (*vm)->DetachCurrentThread(vm);
}

JNIEnv* environment(void) {
  JNIEnv* env = NULL;
  if ((*vm)->GetEnv(vm, (void**)&env, JNI_VERSION_1_8) == JNI_OK) return env;
  JavaVMAttachArgs arguments = {JNI_VERSION_1_8, "hawser", NULL};
  if ((*vm)->AttachCurrentThreadAsDaemon(vm, (void**)&env, &arguments) != JNI_OK) return NULL;
  pthread_setspecific(attached, env);
  return env;
}

static int find_methods(JNIEnv* env) {
  const struct {
    jmethodID* method;
    const char* name;
    const char* signature;
  } wanted[] = {
      {&callbacks.error, "error", "(Ljava/lang/Object;I[B[B)Ljava/lang/Throwable;"},
      {&callbacks.step, "step", "(IJDDDJJJD)Lorg/hawser/StepResult;"},
      {&callbacks.sizes, "sizes", "(JJJJ)Lorg/hawser/Sizes;"},
      {&callbacks.progress, "progress", "(IJJJJJJJJDDDDDDDJI)Lorg/hawser/Progress;"},
      {&callbacks.evaluation, "evaluation", "(DJ)Lorg/hawser/Evaluation;"},
      {&callbacks.on_step, "onStep", "(Ljava/lang/Object;IJDDDJJJDDDJZZJJ)Z"},
      {&callbacks.on_token, "onToken", "(Ljava/lang/Object;I)Z"},
      {&callbacks.on_metrics, "onMetrics", "(Ljava/lang/Object;[B)V"},
      {&callbacks.on_progress, "onProgress", "(Ljava/lang/Object;[B)Z"},
      {&callbacks.on_source, "onSource",
       "(Ljava/lang/Object;Ljava/nio/ByteBuffer;Ljava/nio/ByteBuffer;Ljava/nio/ByteBuffer;Ljava/nio/"
       "ByteBuffer;"
       "JJJJ)I"},
      {&callbacks.interrupted, "interrupted", "()Z"},
      {&callbacks.secret, "secret", "(Ljava/lang/Object;)[B"},
      {&callbacks.send, "send", "(Ljava/lang/Object;ILjava/nio/ByteBuffer;D)I"},
      {&callbacks.receive, "receive", "(Ljava/lang/Object;ILjava/nio/ByteBuffer;D)I"},
      {&callbacks.exchange, "exchange", "(Ljava/lang/Object;ILjava/nio/ByteBuffer;Ljava/nio/ByteBuffer;D)I"},
      {&callbacks.abort, "abort", "(Ljava/lang/Object;I[B)V"},
      {&callbacks.message, "message", "(Ljava/lang/Object;)[B"},
      {&callbacks.release, "release", "(Ljava/lang/Object;)V"},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; ++i) {
    *wanted[i].method = (*env)->GetStaticMethodID(env, callbacks.type, wanted[i].name, wanted[i].signature);
    if (*wanted[i].method == NULL) return 0;
  }
  return 1;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* loading, void* reserved) {
  (void)reserved;
  vm = loading;
  JNIEnv* env = NULL;
  if ((*vm)->GetEnv(vm, (void**)&env, JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
  const jclass object = (*env)->FindClass(env, "org/hawser/NativeObject");
  if (object == NULL) return JNI_ERR;
  handle_field = (*env)->GetFieldID(env, object, "handle", "J");
  const jclass type = (*env)->FindClass(env, "org/hawser/Callbacks");
  if (handle_field == NULL || type == NULL) return JNI_ERR;
  callbacks.type = (*env)->NewGlobalRef(env, type);
  if (callbacks.type == NULL || !find_methods(env)) return JNI_ERR;
  return pthread_key_create(&attached, detach) != 0 ? JNI_ERR : JNI_VERSION_1_8;
}

void* handle_of(JNIEnv* env, jobject object) {
  return object == NULL ? NULL : (void*)(intptr_t)(*env)->GetLongField(env, object, handle_field);
}

static void throw_out_of_memory(JNIEnv* env, const char* text) {
  const jclass type = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
  if (type != NULL) (*env)->ThrowNew(env, type, text);
}

jbyteArray bytes_of(JNIEnv* env, const void* data, size_t size) {
  if (size > INT32_MAX) {
    throw_out_of_memory(env, "a report of more than 2 GiB does not fit into a Java array");
    return NULL;
  }
  const jbyteArray array = (*env)->NewByteArray(env, (jsize)size);
  if (array != NULL) (*env)->SetByteArrayRegion(env, array, 0, (jsize)size, (const jbyte*)data);
  return array;
}

char* copy_of(JNIEnv* env, jbyteArray array) {
  if (array == NULL) return NULL;
  const jsize size = (*env)->GetArrayLength(env, array);
  char* copy = malloc((size_t)size + 1);
  if (copy == NULL) {
    throw_out_of_memory(env, "no native memory for a copy of an argument");
    return NULL;
  }
  (*env)->GetByteArrayRegion(env, array, 0, size, (jbyte*)copy);
  copy[size] = '\0';
  return copy;
}

void* address_of(JNIEnv* env, jobject buffer, size_t* count) {
  *count = buffer == NULL ? 0 : (size_t)(*env)->GetDirectBufferCapacity(env, buffer);
  return buffer == NULL ? NULL : (*env)->GetDirectBufferAddress(env, buffer);
}

void check_status(JNIEnv* env, jobject owner, hws_status status) {
  if (status == HWS_OK || (*env)->ExceptionCheck(env)) return;
  hws_error* error = NULL;
  const char* message = "";
  const char* details = "{}";
  if (hws_error_take(&error) == HWS_OK && hws_error_code(error) == status) {  // otherwise it is an old error
    message = hws_error_message(error);
    details = hws_error_details(error);
  }
  const jbyteArray text = bytes_of(env, message, strlen(message));
  const jbyteArray json = text == NULL ? NULL : bytes_of(env, details, strlen(details));
  hws_error_destroy(error);
  if (json == NULL) return;
  const jobject exception =
      (*env)->CallStaticObjectMethod(env, callbacks.type, callbacks.error, owner, (jint)status, text, json);
  if (exception != NULL && !(*env)->ExceptionCheck(env)) (*env)->Throw(env, (jthrowable)exception);
}

jobject step_of(JNIEnv* env, const hws_step_result* result) {
  return (*env)->CallStaticObjectMethod(env, callbacks.type, callbacks.step, (jint)result->outcome,
                                        (jlong)result->step, result->loss, result->grad_norm,
                                        result->learning_rate, (jlong)result->tokens, (jlong)result->samples,
                                        (jlong)result->skipped, result->seconds);
}

jobject progress_of(JNIEnv* env, const hws_progress* p) {
  return (*env)->CallStaticObjectMethod(
      env, callbacks.type, callbacks.progress, (jint)p->phase, (jlong)p->step, (jlong)p->until_step,
      (jlong)p->total_steps, (jlong)p->samples, (jlong)p->tokens, (jlong)p->skipped, (jlong)p->done,
      (jlong)p->total, p->loss, p->grad_norm, p->learning_rate, p->step_seconds, p->tokens_per_second,
      p->validation_loss, p->running_seconds, (jlong)p->save_failures, (jint)p->saving);
}
