// Typemaps that convert the arguments and results of hawser.h between C and Java.
//  - A handle argument is passed as its Java object (NativeObject), which keeps it alive during the call. A
//  new handle
//    is returned as a long. Java refuses a closed object.
//  - Text is passed as UTF-8 in a byte[], because JNI's own strings are modified UTF-8.
//  - An out-parameter becomes the return value; a status becomes an exception.
//  - No typemap here may return early, because the code after an `out` typemap frees the arguments.
%pragma(java) moduleclassmodifiers="final class"
%pragma(java) jniclassclassmodifiers="final class"
%pragma(java) jniclasscode="static { Natives.load(); }"

%exception {
  watch_interrupts();
  $action
}

// These are called before the library's version has been checked.
%noexception hws_library_abi;
%noexception hws_library_version;
%noexception compiled_abi;
%noexception compiled_version;

// ------------------------------------------------------------------------------------------------------------ handles
%define HANDLE(T)
%typemap(jni) T*, const T* "jobject"
%typemap(jtype) T*, const T* "NativeObject"
%typemap(jstype) T*, const T* "NativeObject"
%typemap(javain) T*, const T* "NativeObject.open($javainput)"
%typemap(in) T*, const T* "$1 = (T*)handle_of(jenv, $input);"
%typemap(in, numinputs=0) T** out (T* made = NULL) "$1 = &made;"
%typemap(argout) T** out "if (result == HWS_OK) $result = (jlong)(intptr_t)*$1;"
%enddef
HANDLE(hws_config) HANDLE(hws_plan) HANDLE(hws_comm) HANDLE(hws_engine) HANDLE(hws_op)
HANDLE(hws_tokenizer)

// ------------------------------------------------------------------------------------------------------------ results
%typemap(in, numinputs=0) hws_buffer** out (hws_buffer* made = NULL) "$1 = &made;"
%typemap(argout) hws_buffer** out {
  if (result == HWS_OK) {
    $result = bytes_of(jenv, hws_buffer_data(*$1), hws_buffer_size(*$1));
    hws_buffer_destroy(*$1);
  }
}
%typemap(in, numinputs=0) hws_step_result* result (hws_step_result filled) {
  memset(&filled, 0, sizeof filled);
  filled.struct_size = sizeof filled;
  $1 = &filled;
}
%typemap(argout) hws_step_result* result "if (result == HWS_OK && !(*jenv)->ExceptionCheck(jenv)) $result = step_of(jenv, $1);"
%typemap(in, numinputs=0) hws_sizes* sizes (hws_sizes filled) {
  memset(&filled, 0, sizeof filled);
  filled.struct_size = sizeof filled;
  $1 = &filled;
}
%typemap(argout) hws_sizes* sizes {
  if (result == HWS_OK)
    $result = (*jenv)->CallStaticObjectMethod(jenv, callbacks.type, callbacks.sizes, (jlong)$1->vocab_size,
                                              (jlong)$1->sequence, (jlong)$1->global_batch, (jlong)$1->outputs);
}
%typemap(in, numinputs=0) hws_progress* progress (hws_progress filled) {
  memset(&filled, 0, sizeof filled);
  filled.struct_size = sizeof filled;
  $1 = &filled;
}
%typemap(argout) hws_progress* progress "if (result == HWS_OK) $result = progress_of(jenv, $1);"
%typemap(in, numinputs=0) double* flops (double number = 0), double* rate (double number = 0) "$1 = &number;"
%typemap(argout) double* flops, double* rate "if (result == HWS_OK) $result = *$1;"
%typemap(in, numinputs=0) int32_t* ended (int32_t number = 0) "$1 = &number;"
%typemap(argout) int32_t* ended "if (result == HWS_OK) $result = (jboolean)(*$1 != 0);"

// ----------------------------------------------------------------------------------------------------------- statuses
// Each function whose result is an out-parameter is declared once, with the type that it returns. GIVES is
// for functions whose first argument is an object, because its failure may have a cause in Java; MAKES is for
// all others.
%define GIVES(FUNCTION, JNI, JAVA)
%typemap(jni) hws_status FUNCTION "JNI"
%typemap(jtype) hws_status FUNCTION "JAVA"
%typemap(jstype) hws_status FUNCTION "JAVA"
%typemap(javaout) hws_status FUNCTION { return $jnicall; }
%typemap(out, null="0") hws_status FUNCTION "$result = 0; check_status(jenv, (jobject)jarg1, $1);"
%enddef
%define MAKES(FUNCTION, JNI, JAVA)
GIVES(FUNCTION, JNI, JAVA)
%typemap(out, null="0") hws_status FUNCTION "$result = 0; check_status(jenv, NULL, $1);"
%enddef
%typemap(jni) hws_status "void"
%typemap(jtype) hws_status "void"
%typemap(jstype) hws_status "void"
%typemap(javaout) hws_status { $jnicall; }
%typemap(jni) hws_status status "jint"
%typemap(jtype) hws_status status "int"
%typemap(jstype) hws_status status "int"
%typemap(javain) hws_status status "$javainput"
%typemap(in) hws_status status "$1 = (hws_status)$input;"
%typemap(out, null="") hws_status "check_status(jenv, (jobject)jarg1, $1);"

%typemap(out, null="") hws_status hws_thread_set_progress "check_status(jenv, NULL, $1);"
MAKES(hws_library_info, jbyteArray, byte[])
GIVES(hws_config_parse, jlong, long)
GIVES(hws_config_preset, jlong, long)
GIVES(hws_config_from_model, jlong, long)
GIVES(hws_config_clone, jlong, long)
GIVES(hws_config_validate, jbyteArray, byte[])
GIVES(hws_config_explain, jbyteArray, byte[])
GIVES(hws_config_prove_layout, jbyteArray, byte[])
GIVES(hws_config_fit_ranks, jlong, long)
GIVES(hws_config_serialize, jbyteArray, byte[])
MAKES(hws_config_schema, jbyteArray, byte[])
MAKES(hws_config_presets, jbyteArray, byte[])
GIVES(hws_plan_create, jlong, long)
GIVES(hws_plan_create_on, jlong, long)
GIVES(hws_plan_search, jlong, long)
GIVES(hws_plan_report, jbyteArray, byte[])
GIVES(hws_plan_trace, jbyteArray, byte[])
MAKES(hws_comm_create_local, jlong, long)
MAKES(hws_comm_read_env, jbyteArray, byte[])
GIVES(hws_comm_info, jbyteArray, byte[])
GIVES(hws_engine_create, jlong, long)
GIVES(hws_engine_info, jbyteArray, byte[])
GIVES(hws_engine_sizes, jobject, Sizes)
GIVES(hws_engine_learning_rate, jdouble, double)
GIVES(hws_engine_train_step, jobject, StepResult)
GIVES(hws_engine_forward_backward, jobject, StepResult)
GIVES(engine_backward_with, jobject, StepResult)
GIVES(hws_engine_commit, jobject, StepResult)
GIVES(hws_engine_discard, jobject, StepResult)
GIVES(hws_data_info, jbyteArray, byte[])
GIVES(hws_text_encode, jbyteArray, byte[])
GIVES(hws_text_decode, jbyteArray, byte[])
GIVES(hws_engine_tokenizer, jlong, long)
MAKES(hws_tokenizer_open, jlong, long)
GIVES(hws_tokenizer_info, jbyteArray, byte[])
GIVES(hws_tokenizer_encode, jbyteArray, byte[])
GIVES(hws_tokenizer_decode, jbyteArray, byte[])
GIVES(hws_tokenizer_render, jbyteArray, byte[])
GIVES(hws_tensor_list, jbyteArray, byte[])
GIVES(hws_tensor_statistics, jbyteArray, byte[])
GIVES(hws_checkpoint_save_async, jlong, long)
GIVES(hws_checkpoint_load_latest, jbyteArray, byte[])
GIVES(hws_checkpoint_inspect, jbyteArray, byte[])
GIVES(hws_checkpoint_latest, jbyteArray, byte[])
GIVES(hws_op_poll, jboolean, boolean)
MAKES(hws_data_prepare, jbyteArray, byte[])
MAKES(hws_data_preview, jbyteArray, byte[])
MAKES(hws_device_list, jbyteArray, byte[])
MAKES(hws_device_measure, jbyteArray, byte[])
MAKES(hws_device_peak, jdouble, double)
GIVES(hws_engine_metrics, jbyteArray, byte[])
GIVES(hws_engine_progress, jobject, Progress)
GIVES(hws_engine_trace, jbyteArray, byte[])
GIVES(hws_engine_profile, jbyteArray, byte[])
GIVES(hws_engine_flight, jbyteArray, byte[])
// If this call fails, the transport of the engine's comm may be the cause.
GIVES(hws_engine_create_ranks, jlong, long)
%typemap(out, null="0") hws_status hws_engine_create_ranks "$result = 0; check_status(jenv, jarg2, $1);"
GIVES(hws_engine_create_on, jlong, long)
%typemap(out, null="0") hws_status hws_engine_create_on "$result = 0; check_status(jenv, jarg3, $1);"

// ----------------------------------------------------------------------------------------------------- text and bytes
%typemap(jni) const char* "jbyteArray"
%typemap(jtype) const char* "byte[]"
%typemap(jstype) const char* "String"
%typemap(javain) const char* "Text.utf8($javainput)"
%typemap(javaout) const char* { return Text.of($jnicall); }
%typemap(in) const char* "$1 = copy_of(jenv, $input);"
%typemap(freearg) const char* "free((void*)$1);"
%typemap(out) const char* "$result = bytes_of(jenv, $1, strlen($1));"
%define BYTES(POINTER, SIZE)
%typemap(jni) (POINTER, SIZE) "jbyteArray"
%typemap(jtype) (POINTER, SIZE) "byte[]"
%typemap(jstype) (POINTER, SIZE) "byte[]"
%typemap(javain) (POINTER, SIZE) "$javainput"
%typemap(in) (POINTER, SIZE) {
  $1 = copy_of(jenv, $input);
  $2 = $input == NULL ? 0 : (size_t)(*jenv)->GetArrayLength(jenv, $input);
}
%typemap(freearg) (POINTER, SIZE) "free((void*)$1);"
%enddef
BYTES(const void* data, size_t size)
BYTES(const char* text, size_t size)

%typemap(jni) uint32_t, uint32_t flags "jint"
%typemap(jtype) uint32_t, uint32_t flags "int"
%typemap(jstype) uint32_t, uint32_t flags "int"
%typemap(in) uint32_t, uint32_t flags "$1 = (uint32_t)$input;"
%typemap(out) uint32_t "$result = (jint)$1;"
%typemap(jni) uint64_t "jlong"
%typemap(jtype) uint64_t "long"
%typemap(jstype) uint64_t "long"
%typemap(in) uint64_t "$1 = (uint64_t)$input;"

// ------------------------------------------------------------------------------------------------------ direct buffers
// The class Buffers has checked these buffers and passes a slice from position to limit. UNIT is the bytes
// per element, or 1 to count elements.
%define DIRECT(POINTER, SIZE, TYPE, CHECK, UNIT)
%typemap(jni) (POINTER, SIZE) "jobject"
%typemap(jtype) (POINTER, SIZE) "java.nio.TYPE"
%typemap(jstype) (POINTER, SIZE) "java.nio.TYPE"
%typemap(javain) (POINTER, SIZE) "Buffers.CHECK($javainput)"
%typemap(in) (POINTER, SIZE) {
  size_t count = 0;
  $1 = address_of(jenv, $input, &count);
  $2 = count * UNIT;
}
%typemap(freearg) (POINTER, SIZE) ""
%enddef
DIRECT(const void* data, size_t bytes, FloatBuffer, readable, 4)
DIRECT(void* data, size_t bytes, FloatBuffer, writable, 4)
DIRECT(float* logits, size_t logits_bytes, FloatBuffer, writable, 4)
DIRECT(float* logprobs, size_t logprobs_bytes, FloatBuffer, writable, 4)
DIRECT(const float* gradients, size_t gradients_bytes, FloatBuffer, readable, 4)
DIRECT(const int32_t* tokens, size_t count, IntBuffer, readable, 1)
DIRECT(const int32_t* targets, size_t target_count, IntBuffer, readable, 1)
DIRECT(const int32_t* stops, size_t stop_count, IntBuffer, readable, 1)
DIRECT(const int32_t* begins, size_t begin_count, IntBuffer, readable, 1)
DIRECT(const float* weights, size_t weight_count, FloatBuffer, readable, 1)
DIRECT(const float* references, size_t reference_count, FloatBuffer, readable, 1)
DIRECT(const int32_t* taught, size_t taught_count, IntBuffer, readable, 1)
DIRECT(const float* taught_logprobs, size_t taught_logprob_count, FloatBuffer, readable, 1)
DIRECT(int32_t* ids, size_t ids_bytes, IntBuffer, writable, 4)

// ----------------------------------------------------------------------------------------------------------- callbacks
%define CALLBACK(TYPE, FUNCTION)
%typemap(jni) (TYPE callback, void* user, void (*destroy)(void*)) "jobject"
%typemap(jtype) (TYPE callback, void* user, void (*destroy)(void*)) "Object"
%typemap(jstype) (TYPE callback, void* user, void (*destroy)(void*)) "Object"
%typemap(javain) (TYPE callback, void* user, void (*destroy)(void*)) "$javainput"
%typemap(in) (TYPE callback, void* user, void (*destroy)(void*)) {
  $1 = $input == NULL ? NULL : FUNCTION;
  $2 = $input == NULL ? NULL : (*jenv)->NewGlobalRef(jenv, $input);
  $3 = $input == NULL ? NULL : release_reference;
}
%enddef
CALLBACK(hws_train_fn, call_train)
CALLBACK(hws_token_fn, call_token)
CALLBACK(hws_metrics_fn, call_metrics)
CALLBACK(hws_prepare_fn, call_metrics)
CALLBACK(hws_progress_fn, call_progress)
CALLBACK(hws_source_fn, call_source)
