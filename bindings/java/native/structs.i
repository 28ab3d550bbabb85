// Declares functions whose arguments are structs, and others that typemaps cannot express, under the names of
// hawser.h.
%rename(hws_data_push) data_push;
%rename(hws_engine_eval) engine_eval;
%rename(hws_engine_forward) engine_forward;
%rename(hws_engine_logprobs) engine_logprobs;
%rename(hws_engine_top_logprobs) engine_top_logprobs;
%rename(hws_engine_backward_with) engine_backward_with;
%rename(hws_engine_generate) engine_generate;
%rename(hws_comm_create_address) comm_create_address;
%rename(hws_comm_create_env) comm_create_env;
%rename(hws_comm_create_host) comm_create_host;
%rename(hws_op_progress) op_progress;
%rename(hws_tensor_view) tensor_view;
%rename(hws_config_destroy) config_destroy;
%rename(hws_plan_destroy) plan_destroy;
%rename(hws_comm_destroy) comm_destroy;
%rename(hws_engine_destroy) engine_destroy;
%rename(hws_op_destroy) op_destroy;
%rename(hws_tokenizer_destroy) tokenizer_destroy;

GIVES(engine_eval, jobject, Evaluation)
MAKES(comm_create_address, jlong, long)
MAKES(comm_create_env, jlong, long)
MAKES(comm_create_host, jlong, long)
GIVES(op_progress, jlongArray, long[])
GIVES(tensor_view, jlong, long)

%{
typedef struct {
  double loss;
  int64_t tokens;
} evaluation;
typedef struct {
  int64_t done, total;
} byte_counts;
typedef struct DLManagedTensorVersioned dl_tensor;
typedef jobject transport_object;

static hws_batch batch_of(int64_t rows, int64_t cols, const int32_t* tokens, const int32_t* targets, const int32_t* begins,
                          const float* weights) {
  const hws_batch batch = {sizeof batch, 0, rows, cols, tokens, targets, begins, weights, NULL, 0, NULL, NULL};
  return batch;
}
%}
%typemap(in, numinputs=0) evaluation* out (evaluation filled) "memset(&filled, 0, sizeof filled); $1 = &filled;"
%typemap(argout) evaluation* out {
  if (result == HWS_OK && !(*jenv)->ExceptionCheck(jenv))
    $result = (*jenv)->CallStaticObjectMethod(jenv, callbacks.type, callbacks.evaluation, $1->loss, (jlong)$1->tokens);
}
%typemap(in, numinputs=0) byte_counts* out (byte_counts filled) "memset(&filled, 0, sizeof filled); $1 = &filled;"
%typemap(argout) byte_counts* out {
  if (result == HWS_OK) {
    const jlong numbers[2] = {(jlong)$1->done, (jlong)$1->total};
    $result = (*jenv)->NewLongArray(jenv, 2);
    if ($result != NULL) (*jenv)->SetLongArrayRegion(jenv, $result, 0, 2, numbers);
  }
}
%typemap(in, numinputs=0) dl_tensor** out (dl_tensor* made = NULL) "$1 = &made;"
%typemap(argout) dl_tensor** out "if (result == HWS_OK) $result = (jlong)(intptr_t)*$1;"
%typemap(jni) transport_object "jobject"
%typemap(jtype) transport_object "Object"
%typemap(jstype) transport_object "Object"
%typemap(javain) transport_object "$javainput"
%typemap(in) transport_object "$1 = $input;"
// The callback for a secret is only used during the call, so its object needs no reference of its own.
%apply transport_object { jobject secret };

%inline %{
static hws_status data_push(hws_engine* engine, int64_t rows, int64_t cols, const int32_t* tokens, size_t count,
                            const int32_t* targets, size_t target_count, const int32_t* begins, size_t begin_count,
                            const float* weights, size_t weight_count, const float* references, size_t reference_count,
                            int64_t top, const int32_t* taught, size_t taught_count, const float* taught_logprobs,
                            size_t taught_logprob_count) {
  (void)count, (void)target_count, (void)begin_count, (void)weight_count, (void)reference_count;
  (void)taught_count, (void)taught_logprob_count;
  hws_batch batch = batch_of(rows, cols, tokens, targets, begins, weights);
  batch.references = references;
  batch.teacher_top = top, batch.teacher_ids = taught, batch.teacher_logprobs = taught_logprobs;
  return hws_data_push(engine, &batch);
}
static hws_status engine_eval(hws_engine* engine, int64_t rows, int64_t cols, const int32_t* tokens, size_t count,
                              const int32_t* targets, size_t target_count, const int32_t* begins, size_t begin_count,
                              const float* weights, size_t weight_count, int64_t max_batches, evaluation* out) {
  (void)count, (void)target_count, (void)begin_count, (void)weight_count;
  const hws_batch batch = batch_of(rows, cols, tokens, targets, begins, weights);
  return hws_engine_eval(engine, tokens == NULL ? NULL : &batch, max_batches, &out->loss, &out->tokens);
}
static hws_status engine_forward(hws_engine* engine, int64_t rows, int64_t cols, const int32_t* tokens, size_t count,
                                 const int32_t* begins, size_t begin_count, float* logits, size_t logits_bytes) {
  (void)count, (void)begin_count;
  const hws_batch batch = batch_of(rows, cols, tokens, NULL, begins, NULL);
  return hws_engine_forward(engine, &batch, logits, logits_bytes);
}
static hws_status engine_logprobs(hws_engine* engine, int64_t rows, int64_t cols, const int32_t* tokens, size_t count,
                                  const int32_t* targets, size_t target_count, const int32_t* begins, size_t begin_count,
                                  float* logprobs, size_t logprobs_bytes) {
  (void)count, (void)target_count, (void)begin_count;
  const hws_batch batch = batch_of(rows, cols, tokens, targets, begins, NULL);
  return hws_engine_logprobs(engine, &batch, logprobs, logprobs_bytes);
}
static hws_status engine_top_logprobs(hws_engine* engine, int64_t rows, int64_t cols, const int32_t* tokens, size_t count,
                                      const int32_t* begins, size_t begin_count, int64_t top, int32_t* ids,
                                      size_t ids_bytes, float* logprobs, size_t logprobs_bytes) {
  (void)count, (void)begin_count;
  const hws_batch batch = batch_of(rows, cols, tokens, NULL, begins, NULL);
  return hws_engine_top_logprobs(engine, &batch, top, ids, ids_bytes, logprobs, logprobs_bytes);
}
static hws_status engine_backward_with(hws_engine* engine, int64_t rows, int64_t cols, const int32_t* tokens,
                                       size_t count, const int32_t* targets, size_t target_count, const int32_t* begins,
                                       size_t begin_count, const float* weights, size_t weight_count,
                                       const float* gradients, size_t gradients_bytes, hws_step_result* result) {
  (void)count, (void)target_count, (void)begin_count, (void)weight_count;
  const hws_batch batch = batch_of(rows, cols, tokens, targets, begins, weights);
  return hws_engine_backward_with(engine, &batch, gradients, gradients_bytes, result);
}
static hws_status engine_generate(hws_engine* engine, const int32_t* tokens, size_t count, int64_t max_tokens,
                                  double temperature, int64_t top_k, double top_p, uint64_t seed, int32_t stop_token,
                                  const int32_t* stops, size_t stop_count, hws_token_fn callback, void* user, void (*destroy)(void*)) {
  const hws_generate_request request = {sizeof request, stop_token,  tokens, (int64_t)count, max_tokens,
                                        temperature,    top_k,       top_p,  seed,           stops,
                                        (int64_t)stop_count};
  return hws_engine_generate(engine, &request, callback, user, destroy);
}
static hws_status comm_create_address(int32_t rank, int32_t world_size, const char* address, const char* host,
                                      const char* network_interface, double timeout_seconds, double silence_seconds,
                                      const char* job, const char* secret_file, jobject secret, int32_t trust_network,
                                      int32_t without_shared_memory, hws_comm** out) {
  const hws_comm_address fields = {sizeof fields, rank, world_size, 0, address, host, network_interface,
                                   timeout_seconds, silence_seconds, job, secret_file,
                                   secret == NULL ? NULL : call_secret, secret, NULL, trust_network, without_shared_memory};
  return hws_comm_create_address(&fields, out);
}
static hws_status comm_create_env(const char* address, const char* host, const char* network_interface,
                                  double timeout_seconds, double silence_seconds, const char* job,
                                  const char* secret_file, jobject secret, int32_t trust_network,
                                  int32_t without_shared_memory, hws_comm** out) {
  const hws_comm_address fields = {sizeof fields, 0, 0, 0, address, host, network_interface, timeout_seconds,
                                   silence_seconds, job, secret_file, secret == NULL ? NULL : call_secret, secret, NULL,
                                   trust_network, without_shared_memory};
  return hws_comm_create_env(&fields, out);
}
static hws_status comm_create_host(int32_t rank, int32_t world_size, transport_object transport, hws_comm** out) {
  return create_host_comm(environment(), rank, world_size, transport, out);
}
static hws_status op_progress(const hws_op* op, byte_counts* out) { return hws_op_progress(op, &out->done, &out->total); }
static hws_status tensor_view(const hws_engine* engine, int32_t kind, const char* name, dl_tensor** out) {
  return hws_tensor_view(engine, kind, name, out);
}
// When an object is destroyed, it is already closed or collected, so these functions take the number of its
// handle.
static void config_destroy(int64_t handle) { hws_config_destroy((hws_config*)(intptr_t)handle); }
static void plan_destroy(int64_t handle) { hws_plan_destroy((hws_plan*)(intptr_t)handle); }
static void comm_destroy(int64_t handle) { hws_comm_destroy((hws_comm*)(intptr_t)handle); }
static void engine_destroy(int64_t handle) { hws_engine_destroy((hws_engine*)(intptr_t)handle); }
static void op_destroy(int64_t handle) { hws_op_destroy((hws_op*)(intptr_t)handle); }
static void tokenizer_destroy(int64_t handle) { hws_tokenizer_destroy((hws_tokenizer*)(intptr_t)handle); }
// Return the versions that this module was compiled with, to be compared with the loaded library.
static uint32_t compiled_abi(void) { return HWS_ABI_VERSION; }
static const char* compiled_version(void) { return HAWSER_VERSION; }
%}

// Functions that only JNI can implement: the memory of views as buffers, and the path of the library
// (view.c).
%native(view_data) jobject view_data(jlong view);
%native(view_shape) jlongArray view_shape(jlong view);
%native(view_is_bf16) jboolean view_is_bf16(jlong view);
%native(view_destroy) void view_destroy(jlong view);
%native(library_path) jbyteArray library_path();
