/**
 * @file
 * Hawser trains transformer language models inside your program.
 *
 * This header is the whole public API. It is C99 and includes only <stddef.h> and <stdint.h>.
 *
 * These conventions hold for every function below; the comment of a function adds only what is particular to
 * it.
 *
 *  1. Status. Every function that can fail returns an hws_status: HWS_OK (0) or another HWS_* code below.
 *     Each status except HWS_OK sets the calling thread's last error (hws_error_take), which has the text;
 *     only hws_engine_cancel and hws_error_* never set it. Any function may return HWS_INVALID_ARGUMENT (a
 *     pointer that is NULL or misaligned, a number out of range, text that is not UTF-8), HWS_OUT_OF_MEMORY,
 *     HWS_INTERNAL, and the statuses of conventions 3 to 5. Later versions may add codes. Running out of
 *     memory always gives HWS_OUT_OF_MEMORY, except in tokenizers, whose comments describe it.
 *  2. Out-parameters come last. On error a handle is set to NULL and a number is left unchanged.
 *  3. Handles are numbers in a table of 65,536, never dereferenced. A NULL, destroyed or foreign handle gets
 *     HWS_BAD_HANDLE. A handle that a function puts in *out belongs to the caller, who ends it with the
 *     destroy function of its type. Destroy accepts NULL and ignores bad handles. It waits for calls of that
 *     handle on other threads. Inside a callback it does not wait: it invalidates the handle at once, and the
 *     last call to end frees the object; a run whose own callback destroys its engine ends as if cancelled.
 *     Objects keep the objects that they need alive, so handles may be destroyed in any order.
 *  4. Threads. Calls with a `const` handle may run concurrently, on any thread. Any other call needs
 *     exclusive use of the handle: it waits for the const calls that run, and a second call meanwhile, const
 *     or not, gets HWS_BUSY. Different handles are independent, and functions without a handle may be called
 *     on any thread. A function that "works at any time" may run concurrently with every other call of its
 *     handle. After fork, engines, comms and operations of the parent get HWS_FORKED in the child, and
 *     destroying them only forgets them. The child may create its own.
 *  5. Structs start with `uint32_t struct_size`; set it to sizeof. Structs only grow at the end. The library
 *     reads or writes min(struct_size, its own size) bytes and refuses a larger struct whose unknown fields
 *     are not 0 (HWS_ABI_MISMATCH). Fields named reserved are 0.
 *  6. Strings are UTF-8 and NUL-terminated, unless a length is passed with them; paths may hold any bytes.
 *     The library copies the arguments that it needs after a call. Results of variable size are buffers. An
 *     array, also one passed as void*, must be aligned for its element type (4 bytes for int32 and f32).
 *  7. Callbacks are passed as `callback`, `user` and `destroy`. destroy(user) runs exactly once, also when
 *     the call fails; it may be NULL. A train or metrics callback may call these functions of its engine,
 *     on its own thread: all with a `const` handle, and hws_data_push, hws_engine_eval, _forward,
 *     _logprobs, _top_logprobs, _generate, hws_checkpoint_save and _save_async. A token callback may call
 *     the functions with a `const` handle. Any other call gets HWS_BUSY. hws_op_* work everywhere. A C++
 *     exception must not leave a callback; one that does ends the call with HWS_CALLBACK. The functions of
 *     a transport (hws_comm_host) run on threads of the library and may not call it.
 *  8. The host program owns the process. The library does not print, read the environment (except in
 *     hws_comm_create_env and hws_comm_read_env), install signal handlers or end the process. Writing a file
 *     beyond RLIMIT_FSIZE gives HWS_IO, without SIGXFSZ. Files that the library opens never get the number of
 *     a standard descriptor that the host program has closed. The library has no log and gives no warnings:
 *     it reports problems by a status or in a report ("save_error" and "event_error" of hws_engine_metrics,
 *     "damaged" of hws_checkpoint_load_latest, "graphs_without" of hws_engine_info).
 *  9. Tokens and targets are int32, row-major [rows, cols]. targets[t] is the token that position t predicts:
 *     the host program shifts them, the library does not. A target of -100 masks its position, which then has
 *     no loss.
 * 10. Compatibility. A program built against this header runs with every later libhawser.so.0. No function,
 *     constant or field is removed, renumbered or given another meaning. Later versions may add functions,
 *     constants, fields at the end of structs, statuses and JSON keys; ignore the keys that you do not know.
 *     The words of messages, details and text reports may change.
 */
#ifndef HAWSER_H
#define HAWSER_H

#include <stddef.h>
#include <stdint.h>

#if defined(SWIG) || !defined(__GNUC__)
#define HWS_API
#else
#define HWS_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- status codes */

#define HWS_OK 0
#define HWS_CANCELLED 1
#define HWS_UNKNOWN 2
#define HWS_INVALID_ARGUMENT 3
#define HWS_TIMEOUT 4
#define HWS_NOT_FOUND 5
#define HWS_ALREADY_EXISTS 6
#define HWS_PERMISSION 7
#define HWS_OUT_OF_MEMORY 8
#define HWS_FAILED_PRECONDITION 9
#define HWS_ABORTED 10
#define HWS_OUT_OF_RANGE 11
#define HWS_UNIMPLEMENTED 12
#define HWS_INTERNAL 13
#define HWS_UNAVAILABLE 14
#define HWS_DATA_LOSS 15
#define HWS_IO 16
#define HWS_CONFIG_PARSE 20
#define HWS_CONFIG_INVALID 21
#define HWS_DEVICE_UNAVAILABLE 30
#define HWS_CHECKPOINT_CORRUPT 50
#define HWS_CHECKPOINT_INCOMPATIBLE 51
#define HWS_NUMERIC 60
#define HWS_DATA_INVALID 61
#define HWS_BUSY 70
#define HWS_FORKED 71
#define HWS_BAD_HANDLE 72
#define HWS_ABI_MISMATCH 73
#define HWS_CALLBACK 74

/** One of the codes above. */
typedef int32_t hws_status;

/* Handles. */
typedef struct hws_error hws_error;
typedef struct hws_buffer hws_buffer;
typedef struct hws_config hws_config;
typedef struct hws_plan hws_plan;
typedef struct hws_comm hws_comm;
typedef struct hws_engine hws_engine;
typedef struct hws_op hws_op;
typedef struct hws_tokenizer hws_tokenizer;

/* ------------------------------------------------------------------------------------------------ library */

#define HWS_ABI_VERSION 1

/** The ABI number of the loaded library. Compare it with HWS_ABI_VERSION, the number of this header. */
HWS_API uint32_t hws_library_abi(void);
/** The version as text, "0.1.0". Static storage. */
HWS_API const char* hws_library_version(void);
/** *out: a JSON object with the version, the compiler, the CPU level (set of vector instructions) that this
 * machine uses, and the modules that could be opened: "cpu", "text", "cuda", "identity". */
HWS_API hws_status hws_library_info(hws_buffer** out);
/** The name of a code, such as "HWS_CONFIG_INVALID"; "HWS_UNKNOWN" for any other number. Static storage. */
HWS_API const char* hws_status_name(hws_status status);

/** Called on the thread that made a long call, while that call runs. Non-zero ends the call. */
typedef int32_t (*hws_interrupt_fn)(void* user);

/** Sets the interrupt poll of the calling thread; NULL: none. Use it if signals of the program, or interrupts
 * of a runtime, should be able to end a long call.
 *
 * While one of the following calls runs on this thread, it calls the poll at most every 20 ms. If the poll
 * returns a number other than 0, the call ends with HWS_CANCELLED: hws_engine_train, _eval and _generate as
 * by hws_engine_cancel; hws_checkpoint_verify, _load, _load_latest, _latest and _average while they check
 * digests (a load has changed nothing then); hws_engine_create, hws_checkpoint_import and _export while
 * they read weights, and hws_engine_create while it computes the log-probabilities of a reference or
 * teacher; hws_tokenizer_encode, _render and _train; hws_config_prove_layout; hws_device_measure and _peak;
 * hws_data_prepare. A step, a save or a transfer is never cut short.
 *
 * The poll may call the functions that work at any time. It must not throw; if it does, the call ends as
 * well. It may set another poll. destroy(user) runs when another poll is set, but not before this poll has
 * returned, or when the thread ends. */
HWS_API hws_status hws_thread_set_interrupt(hws_interrupt_fn callback, void* user, void (*destroy)(void*));

/** Called on the thread that made a long call, while that call runs, with a JSON object of `size` bytes,
 * NUL-terminated and valid during the call: {"phase", "done", "total"}. Non-zero ends the call. */
typedef int32_t (*hws_progress_fn)(void* user, const char* json, size_t size);

/** Sets the progress callback of the calling thread; NULL: none. It shows the progress of calls that have no
 * engine yet, whose hws_engine_progress could show it.
 *
 * hws_engine_create, _create_ranks and _create_on call it while they compute the log-probabilities of the
 * reference of /objective, or the rows of a teacher (/teacher/from): "phase" is "references" or "teacher",
 * "done" and "total" count rows of the data. They call it at the start and the end of the phase, and at
 * most ten times a second in between. If it returns a number other than 0, the call ends with
 * HWS_CANCELLED; among several processes, in all of them. Later versions may add phases.
 *
 * It may call the functions that work at any time, and hws_thread_set_interrupt and hws_thread_set_progress.
 * destroy(user) runs when another callback is set, but not before this one has returned, or when the thread
 * ends. */
HWS_API hws_status hws_thread_set_progress(hws_progress_fn callback, void* user, void (*destroy)(void*));

/* ------------------------------------------------------------------------------------------------- errors */

/** Moves the calling thread's last error into an object that any thread may read. A call that succeeds does
 * not change the last error, so take it only after a call has failed. Errors: HWS_NOT_FOUND if there is none.
 * If this call itself fails, with HWS_OUT_OF_MEMORY, the error stays and can be taken later. */
HWS_API hws_status hws_error_take(hws_error** out);
/** The HWS_* code; HWS_BAD_HANDLE for a bad handle. */
HWS_API hws_status hws_error_code(const hws_error* error);
/** The message: the problem, the place, the value and the remedy. Valid until the handle is destroyed; "" for
 * a bad handle. */
HWS_API const char* hws_error_message(const hws_error* error);
/** A JSON object for programs. It has "pointer", "problems", "file", "offset", "tensor", "argument" and other
 * keys as they apply, or only "function". Valid until the handle is destroyed; "" for a bad handle. */
HWS_API const char* hws_error_details(const hws_error* error);
HWS_API void hws_error_destroy(hws_error* error);

/* ------------------------------------------------------------------------------------------------ buffers */

/** Bytes that the library owns. They are valid until the buffer is destroyed, and aligned for every element
 * type. A text has a NUL after its last byte, which its size does not count. A bad handle gives NULL and 0.
 */
HWS_API const void* hws_buffer_data(const hws_buffer* buffer);
HWS_API size_t hws_buffer_size(const hws_buffer* buffer);
HWS_API void hws_buffer_destroy(hws_buffer* buffer);

/* ------------------------------------------------------------------------------------------------- config */

#define HWS_FORMAT_JSON 0     /**< strict JSON; for a config: the fields that were set */
#define HWS_FORMAT_BINARY 1   /**< FlatBuffers, capi/schema/config.fbs; for the schema: .bfbs */
#define HWS_FORMAT_RESOLVED 2 /**< for a config: every field, with defaults, presets and rules applied */
#define HWS_FORMAT_TEXT 3     /**< for a report: text for people */
#define HWS_FORMAT_SVG 4      /**< for a trace: an image */

/** Parses a config from `size` bytes. format: HWS_FORMAT_JSON or HWS_FORMAT_BINARY. Errors: HWS_CONFIG_PARSE
 * (where the text stops being JSON), HWS_CONFIG_INVALID (every unknown key, wrong type and wrong name at
 * once). */
HWS_API hws_status hws_config_parse(const void* data, size_t size, int32_t format, hws_config** out);
/** A built-in preset, such as "gpt2-124m" or "quickstart", as a separate config. Errors: HWS_NOT_FOUND. */
HWS_API hws_status hws_config_preset(const char* name, hws_config** out);
/** The config of the model in a checkpoint or a Hugging Face folder: its model section, its vocabulary and
 * init.from = path. Data, optimizer and run settings are left to the caller. */
HWS_API hws_status hws_config_from_model(const char* path, hws_config** out);
HWS_API hws_status hws_config_clone(const hws_config* config, hws_config** out);
/** Sets a field, a section or an array element. pointer: a JSON pointer ("/model/layers"). json_value: a JSON
 * value ("12"); the quotes of a string or an enum may be omitted. On error the config is unchanged. */
HWS_API hws_status hws_config_set(hws_config* config, const char* pointer, const char* json_value);
/** Checks a config and the files that init.from and data name. *out: a JSON array of all problems,
 * [{"pointer","message","fix"}]; [] for a valid config. Returns HWS_OK in both cases. */
HWS_API hws_status hws_config_validate(const hws_config* config, hws_buffer** out);
/** Explains why a field has its value. pointer: a field, a section, or "" for all. *out: JSON with value,
 * origin (default, preset, imported, file, set, rule), rule, default, bounds, unit and documentation. */
HWS_API hws_status hws_config_explain(const hws_config* config, const char* pointer, hws_buffer** out);
/** Proves that the config's layout of ranks changes no number. It shrinks model and batch until training
 * takes seconds; the proof holds for the config with these changes, which "shrunk" lists. The number of
 * stages, the sizes of their chunks up to a few layers, shared tables, and whether ranks pad the vocabulary,
 * do not change. It then trains `steps` steps (1 to 1,000) three times: on the config's own mesh, with ranks
 * as threads of this process; with one rank that replays all of them serially, without buckets, shards or
 * communication; and with as many ranks of plain data parallelism, which add in the same order. Losses, raw
 * gradients, weights and moments must be equal bit by bit.
 *
 * Tensor- and context-parallel ranks add in a different order from one rank. Their results must have the bits
 * of plain data parallelism at the same /mesh/tp, cp and cp_mode. Their distance to one rank is limited, for
 * each gradient of the first step: to twice the distance of a permuted model (the same model with its heads,
 * features and vocabulary in another order), or to three times the distance of one rank from a model in
 * float64 if that is more. And no gradient may be more than twice as far from that of the float64 model as
 * the gradient of one rank is.
 *
 * *out: a JSON object. Returns HWS_OK whether or not the results are equal.
 *   "equal"               true or false
 *   "first_difference"    null, or {"step", "what", "tensor", "index", "ranks", and "one_rank", "plain" or
 *                         "gradients": the norm of the gradients as read, which must equal that of each step}
 *   "same_bits"           {pointer: value}: the settings with which plain data parallelism has the same bits
 *   "ranks", "steps"
 *   "tensors", "elements" numbers of those compared
 *   "grad_norms"          one for each step
 *   "clipped_steps"       number of steps in which clipping changed the gradients
 *   "distance_to_f64"     {"ranks", "ascending", "descending"}: relative distance of the first gradients from
 *                         float64, in three orders of summation
 *   "distance_to_one_rank" null, or under tensor or context parallelism {"tensor", "distance", "allowed",
 *                         "share_of_allowed"} of the gradient that comes closest to its limit
 *   "distance_to_f64_model" likewise, for the distance to gradients computed in float64
 *   "choices_of_experts"  null, or for experts under tensor or context parallelism {"least_margin", "moved"}:
 *                         the narrowest choice in float64, relative to its score, and the number of choices
 *                         of the first step that differ from those of one rank. Rounding decides near ties;
 *                         then gradients differ by more than is allowed
 *   "shrunk"              [{"pointer", "from", "to"}]
 * Errors: those of hws_engine_create; HWS_CONFIG_INVALID for a mesh of one rank. */
HWS_API hws_status hws_config_prove_layout(const hws_config* config, int32_t steps, hws_buffer** out);
/** Adapts a config to another number of ranks, for the same run. *out: a copy of the config with `ranks`
 * ranks in its mesh and the same rows in a step, so that the stream of samples continues where a checkpoint
 * of the other run left it. Changes /mesh/dp_replicate and dp_shard (pp, cp and tp stay, so `ranks` must be a
 * multiple of their product), /batch/micro_batch (never upwards), /batch/grad_accum_steps and, if nothing is
 * left to shard over, /zero/stage. The result depends only on `config` and `ranks`, so after several changes
 * of size, pass the first config. Reads the files that init.from and data name. Errors: HWS_CONFIG_INVALID if
 * the rows of a step do not divide (the text names the nearest numbers of ranks for which they do) or the
 * config forbids that size. */
HWS_API hws_status hws_config_fit_ranks(const hws_config* config, int32_t ranks, hws_config** out);
/** format: HWS_FORMAT_JSON, _BINARY or _RESOLVED. Parsing the result gives an equal config. */
HWS_API hws_status hws_config_serialize(const hws_config* config, int32_t format, hws_buffer** out);
/** *out: the JSON Schema of a config (HWS_FORMAT_JSON) or the binary FlatBuffers schema
 * (HWS_FORMAT_BINARY). */
HWS_API hws_status hws_config_schema(int32_t format, hws_buffer** out);
/** *out: a JSON array of the names of presets. */
HWS_API hws_status hws_config_presets(hws_buffer** out);
HWS_API void hws_config_destroy(hws_config* config);

/* --------------------------------------------------------------------------------------------------- plan */

/** The exact schedule and memory of a config, computed without allocating a tensor. All ranks share one plan,
 * so it needs no comm, and the mesh may be of any size. Errors: those of hws_engine_create, except for
 * memory. */
HWS_API hws_status hws_plan_create(const hws_config* config, hws_plan** out);
/** The plan of a config for devices that this machine need not have, with a prediction of how long a step
 * takes there. `cluster`: the text of a cluster file (engine/cluster/README.md), or the name of one in the
 * library: "a100-80", "h100-80", "h200-141". A config that names no /device gets the cluster's. `tokens`:
 * the tokens of a whole run, for which the report also predicts the days; 0: no prediction of a run.
 * `imbalance`: if ranks divide experts (/mesh/ep), the number of rows for the experts of the busiest rank,
 * divided by the mean over all ranks; 1: balanced. Above 1, the report predicts the busiest rank, for which
 * the others wait. No device is opened, and the result is the same on every machine.
 *
 * Instead of instructions and slots, the report has "foretold": {"cluster","seconds","tokens_per_second",
 * "mfu","bubble_share","mean_seconds": {"computing","exposed": {group: seconds},"copies","bubble"},"stages":
 * [{"stage","device_bytes","free_bytes","memory","seconds"}],"sent": [{"group","operation","hop","bytes":
 * {level: bytes}}],"run": {"tokens","steps","days","device_hours"},"imbalance","not_hawser","not_modelled":
 * [...], "bounds"}. Each row of "work" also has the "seconds" of its kernels, without launches, and what
 * they are "bound_by": "arithmetic" or "memory". `not_hawser` is the name of the trainer that the cluster's
 * `stack` describes. `exposed` has the seconds in which a stage waits for data that is on its way; the
 * seconds of a stage add up to those of the step. `sent` lists what one rank of the first stage sends. The
 * workspaces of a GPU's libraries are upper bounds; bytes are exact only for devices of this machine.
 *
 * Errors: HWS_INVALID_ARGUMENT for `tokens` below 0, for an `imbalance` below 1 or, if the model has no
 * experts, above 1, and for a cluster with fields that are missing, unknown or out of range: the message
 * names all of them, and {"problems": [{"pointer","message","fix"}]} are the details; HWS_NOT_FOUND for
 * an unknown name; those of hws_plan_create. */
HWS_API hws_status hws_plan_create_on(const hws_config* config, const char* cluster, double tokens,
                                      double imbalance, hws_plan** out);
/** Searches for the fastest layouts of a config on a cluster, at the global batch of the config. The search
 * varies the degrees of /mesh, /pipeline/schedule and chunks, /batch/micro_batch, /zero/stage and
 * /recompute/policy. Around the best layouts, it also varies /zero/reduce, prefetch and
 * reshard_after_forward, /recompute, /offload and /pipeline/layers. Fields that the config sets stay as
 * they are. `cluster`: as for hws_plan_create_on. `ranks`: the number of devices; 0: those of the cluster,
 * or else of the config's mesh. `top`: the number of layouts, 1 to 1000. `imbalance`: as for
 * hws_plan_create_on.
 *
 * The report is {"cluster","ranks","global_batch","layouts": [{"fields": a config with the fields to set,
 * "seconds","tokens_per_second","mfu","bubble_share","exposed_seconds": {group: seconds},"fullest_stage":
 * {"stage","device_bytes","free_bytes","memory"}}],"why": [{"field","value","others": [{"value","seconds",
 * "least_seconds","fits","note"}]}],"considered","refused","does_not_fit": {reason: layouts},"fits_with":
 * {change: layouts},"slower","forecasts","varied","not_tried","not_tried_seconds"}. The fastest layout comes
 * first; of equally fast layouts, the simpler one. `why` has, for each field of the fastest layout, the
 * fastest layouts with other values: their `seconds`, or `least_seconds` if they were not simulated; `fits`
 * is false if none fits. `fits_with` counts the layouts that do not fit, by the change that would make their
 * least bytes fit. `varied` is the number of `forecasts` made around the best layouts. `not_tried` layouts
 * were not simulated, because the number and size of simulations are limited; each takes at least
 * `not_tried_seconds`. The result is the same on every machine.
 *
 * Errors: HWS_CONFIG_INVALID if no mesh has that many ranks or none divides the global batch, with the
 * nearest number that works, and if the rules of configs refuse every layout; HWS_OUT_OF_MEMORY if the model
 * fits in no layout, with the least bytes; those of hws_plan_create_on. */
HWS_API hws_status hws_plan_search(const hws_config* config, const char* cluster, int64_t ranks, int32_t top,
                                   double imbalance, hws_plan** out);
/** HWS_FORMAT_TEXT: the list of instructions, memory by category, and the calls of kernels in a step.
 * HWS_FORMAT_JSON: the same as {"instructions":[...],"memory":{category: bytes},"work":[...],"total_bytes",
 * "parameters","flops_per_token","ranks","strategy","transport_bytes","fits","hugging_face",...}. work is a
 * list of {"kernel","type","m","n","k","calls","flops","bytes"}, the sums over one step of the first rank of
 * the first stage by kernel and shape, as hws_engine_profile counts them in a real step; where ranks divide
 * experts, it counts as many rows as there is room for. transport_bytes is the size of a rank's buffers for
 * other processes, with its half of the memory that it shares with them; fits states whether one rank and
 * all ranks fit this machine now; hugging_face is the name that Transformers has for the model, or "none
 * (...)" and the reason. Memory and bytes sent are those of one rank, FLOPs those of the complete model. */
HWS_API hws_status hws_plan_report(const hws_plan* plan, int32_t format, hws_buffer** out);
/** *out: the predicted step of a plan that hws_plan_create_on made, in the formats of hws_engine_trace, so
 * that the two can be compared. It has one rank per pipeline stage, because the prediction is the same for
 * all ranks of a stage. "otherData" has "cluster", "predicted": true and "seconds" in place of "step".
 * Errors: HWS_FAILED_PRECONDITION for a plan that predicts no step. */
HWS_API hws_status hws_plan_trace(const hws_plan* plan, int32_t format, hws_buffer** out);
HWS_API void hws_plan_destroy(hws_plan* plan);

/* --------------------------------------------------------------------------------------------------- comm */

/* A comm represents the ranks that this process holds and their connections to all other ranks: threads of
 * this process, processes and machines over TCP, or a transport of the host program. Ranks are numbered from
 * 0. A comm serves one engine at a time (hws_engine_create_ranks).
 *
 * When one rank fails, all ranks fail: every call that waits for it returns the same status, with a message
 * that names the rank, within comm.timeout_seconds of the config. Local ranks can then serve a new engine,
 * once the old one is destroyed. A comm of another kind cannot be used again in any process; make new ones.
 *
 * To continue without a lost rank, in the remaining processes or in new ones:
 *   1. Destroy the engine and the comm.
 *   2. Agree which processes are left, and number them from 0. A launcher, a scheduler or the host program
 *      does this.
 *   3. Call hws_config_fit_ranks for that number of ranks.
 *   4. Make a new comm. Let its `job` count the restarts, so that no process of an earlier one can join.
 *   5. Make a new engine, and call hws_checkpoint_load_latest.
 * The steps after that checkpoint are repeated. Their results are bit-identical to those of a run that was
 * stopped there and continued with these ranks. `hawser launch --elastic` does just this.
 */

/** `ranks` ranks (1 to 4,096) as threads of this process. The threads start with an engine. */
HWS_API hws_status hws_comm_create_local(int32_t ranks, hws_comm** out);

typedef struct hws_comm_address {
  uint32_t struct_size;
  int32_t rank; /**< of this process; each of 0 ... world_size - 1 is taken once */
  int32_t world_size;
  int32_t reserved;    /**< 0 */
  const char* address; /**< "host:port": where rank 0 listens and all others connect */
  const char* host;    /**< the address on which this rank listens until all are connected; NULL: the one from
                             which it reaches rank 0 */
  const char* network_interface; /**< `host` by the name of an interface ("eth0"); NULL: `host` applies */
  double timeout_seconds;        /**< time limit for all ranks to connect; 0: 60 */
  double silence_seconds;        /**< a process without a heartbeat for this long counts as stopped or cut
                                       off; rank 0's value applies to all; 0: 10 */
  const char* job; /**< at most 127 bytes that must be equal on all ranks, such as the name of the job and a
                         digest of its config; NULL: "" */
  const char* secret_file; /**< holds the job's secret: 32 to 4,096 bytes, without the newline at the end.
                                 It must belong to this process's user or root, must not be readable by every
                                 user nor writable by others. NULL: no secret, or the one of `secret` */
  /** An alternative to secret_file: writes at most `capacity` bytes of the secret to `data`, and their number
   * to *bytes. Non-zero ends the call with HWS_CALLBACK. Called at most once, before the function returns. */
  int32_t (*secret)(void* user, void* data, size_t capacity, size_t* bytes);
  void* secret_user; /**< passed to `secret` and `secret_destroy` */
  /** Called with secret_user exactly once, before the function returns, also if the function fails, unless it
   * could not read the struct at all (as hws_comm_host.destroy). NULL: nothing to do. */
  void (*secret_destroy)(void* user);
  int32_t trust_network; /**< 1: allow an address beyond the loopback without a secret. 0: refuse it */
  int32_t
      without_shared_memory; /**< 0: processes on one machine exchange data through shared memory, all others
                                      over TCP. 1: all processes exchange data over TCP */
} hws_comm_address;

/** One rank of a job of processes, on one machine or many, over TCP. Every process calls it, in any order; it
 * returns when all ranks have connected. `address` and the memory that it points to are needed only during
 * the call.
 *
 * Shared memory. Two processes on one machine and in one network namespace connect through a Unix socket and
 * prove over it that they belong to the job. They then exchange data through memory without a name
 * (memfd_create(2)), which disappears with the processes. If the system refuses the memory, the Unix socket
 * carries the data. hws_engine_info counts both kinds in "connections" and gives the reason in
 * "shared_memory_without". Results are bit-identical.
 *
 * Who may join. With a secret, every connection starts with a mutual proof that both sides know it
 * (HMAC-SHA256 over fresh nonces, rank, world, job and version), before anything else is read. Strangers,
 * other jobs, replayed conversations and other versions are rejected, and the job continues. Without a
 * secret, rank, world, job and version are compared but not proven, and a rejection repeats only what the
 * rejected rank claimed. Ranks listen only while the job and each process group connect. Connections are not
 * encrypted, and not authenticated after their start: whoever can read or change packets between the machines
 * can read and change weights, gradients and data. Use a private network or a tunnel.
 *
 * Heartbeats. When a process dies, all other processes are notified at once. When it is stopped or cut off,
 * they detect it after silence_seconds. Their calls then return HWS_UNAVAILABLE and name it. While ranks
 * connect, this holds for rank 0 (after at least 2 s); if another rank is stopped then, it is named at the
 * timeout.
 *
 * Errors:
 *   HWS_INVALID_ARGUMENT     a malformed address; a rank outside the world, or taken twice; world sizes or
 *                            jobs that differ; a secret of the wrong size
 *   HWS_PERMISSION           this rank and the others have different secrets; a secret's file that every user
 *                            may read or others may write
 *   HWS_FAILED_PRECONDITION  an address beyond the loopback with neither secret nor trust_network; too few
 *                            file descriptors (the text states how many are needed; raise RLIMIT_NOFILE)
 *   HWS_TIMEOUT              some ranks did not connect; the text names them
 *   HWS_UNAVAILABLE          an address on which this process cannot listen; a process that died meanwhile;
 *                            for a secret, no libsodium or no hawser-0/libhawser_identity.so (names the path)
 *   HWS_ABI_MISMATCH         another version of the library */
HWS_API hws_status hws_comm_create_address(const hws_comm_address* address, hws_comm** out);

/** As hws_comm_create_address, but with rank, world and address from the environment variables of a launcher:
 * torchrun, Open MPI (mpirun), Slurm (srun), PMIx, PMI (MPICH, Intel MPI) or an indexed job of Kubernetes;
 * the innermost if there are several. HAWSER_RANK, HAWSER_WORLD_SIZE, HAWSER_LOCAL_WORLD_SIZE,
 * HAWSER_ADDRESS, HAWSER_PORT, HAWSER_HOST, HAWSER_INTERFACE, HAWSER_JOB, HAWSER_SECRET_FILE,
 * HAWSER_TRUST_NETWORK=1 and HAWSER_SHARED_MEMORY=0 add to the launcher's variables and override them. Only
 * this function and the next read the environment.
 *
 * overrides: the fields that are not 0 or NULL override the variables; NULL: none. Its rank and world_size
 * must be 0, and its job is appended to the launcher's. Errors also: HWS_FAILED_PRECONDITION if there is no
 * launcher, or a variable is missing (the text names it). */
HWS_API hws_status hws_comm_create_env(const hws_comm_address* overrides, hws_comm** out);
/** Returns what hws_comm_create_env would use, without connecting. *out: a JSON object with "launcher",
 * "job", "rank", "world_size", "local_world_size" (ranks on this machine; null: unknown), "address", "host",
 * "network_interface", "secret_file", "trust_network", "shared_memory", and "read", an array of the variables
 * used, {"name", "value"}. Errors: HWS_FAILED_PRECONDITION as above. */
HWS_API hws_status hws_comm_read_env(hws_buffer** out);

/** A transport of the host program, by which this process's one rank exchanges messages with the other ranks.
 * Messages between two ranks arrive in the order and with the sizes in which they were sent; none is empty.
 * All functions except abort are called by one thread at a time, not always the same one. Statuses are HWS_OK
 * or an HWS_* code, such as HWS_TIMEOUT after timeout_seconds, or HWS_UNAVAILABLE for a peer that no longer
 * exists. */
typedef struct hws_comm_host {
  uint32_t struct_size;
  int32_t rank;
  int32_t world_size;
  int32_t reserved; /**< 0 */
  void* user;       /**< passed to each function */
  /** Sends `bytes` bytes to a rank, and may return before they arrive. Must not wait for the receiver if
   * bytes <= 512 and fewer than two such messages are on their way to it; the buffer of any socket has room
   * for these. Required. */
  hws_status (*send)(void* user, int32_t to_rank, const void* data, int64_t bytes, double timeout_seconds);
  /** Receives exactly `bytes` bytes from a rank. Required. */
  hws_status (*recv)(void* user, int32_t from_rank, void* data, int64_t bytes, double timeout_seconds);
  /** Sends to and receives from one rank at the same time, for speed. NULL: the lower rank sends first. */
  hws_status (*exchange)(void* user, int32_t rank, const void* sent, int64_t sent_bytes, void* received,
                         int64_t received_bytes, double timeout_seconds);
  /** Reports that this rank has failed: its running and later calls must return `code` at once, and those of
   * its peers soon. Called on any thread, also during a running call. NULL: the calls return at their
   * timeouts. */
  void (*abort)(void* user, hws_status code, const char* message);
  /** Returns why the last call failed; the text is valid until the next call. If the pointer is NULL, or it
   * returns NULL or "", the status determines the text. */
  const char* (*message)(void* user);
  /** Called exactly once, on any thread, when nothing uses the transport any more, and also when
   * hws_comm_create_host fails, unless it could not read `host` at all (NULL, misaligned, or a struct_size
   * that makes no sense). NULL: nothing to do. */
  void (*destroy)(void* user);
} hws_comm_host;

/** One rank over a transport of the host program. *host is copied. Errors: HWS_INVALID_ARGUMENT if send or
 * recv is missing, or for a rank outside the world. */
HWS_API hws_status hws_comm_create_host(const hws_comm_host* host, hws_comm** out);

/** *out: a JSON object with kind ("local", "address", "env", "host"), world_size and local_ranks (an array);
 * for "env" also "environment", the object of hws_comm_read_env. */
HWS_API hws_status hws_comm_info(const hws_comm* comm, hws_buffer** out);
HWS_API void hws_comm_destroy(hws_comm* comm);

/* ------------------------------------------------------------------------------------------------- engine */

/* An engine has all ranks that this process holds, and one call runs on all of them. Losses, norms, logits,
 * tokens and tensors are those of the complete model and the complete global batch, whatever the mesh.
 *
 * Over a comm of several processes, these functions are collective: every process calls them, in the same
 * order and with the same arguments, and they fail in all processes or in none.
 *   hws_engine_create_ranks, _create_on, _train_step, _forward_backward, _commit, _discard, _train, _eval,
 *   _forward, _generate, _export, hws_tensor_get, _set, _statistics, hws_checkpoint_save, _load, _load_latest
 * So each process pushes the same global batch, and the callbacks of all processes make the same collective
 * calls. A token callback must return the same number in all processes. A train callback that ends the run in
 * one process ends it in all. hws_engine_cancel in one process ends train, eval and generate in all of them,
 * at the same step. The path of a checkpoint is a folder that all processes see. The other functions concern
 * only this process.
 *
 * Errors of any of these: HWS_UNAVAILABLE, HWS_TIMEOUT or the error of the rank that failed first; afterwards
 * HWS_ABORTED, until a new engine is made. */

#define HWS_ENGINE_INFERENCE 1 /**< only eval, forward and generate: no gradients, no optimizer state */

/** Makes an engine of one rank: the model with its initial weights or those of init.from, one block of memory
 * of exactly the planned size (the arena), threads, and readers of the data. flags: 0 or
 * HWS_ENGINE_INFERENCE. Errors: HWS_CONFIG_INVALID (all problems at once; a mesh of several ranks needs
 * hws_engine_create_ranks), HWS_OUT_OF_MEMORY (the text states the bytes needed and available, and which
 * setting saves how much), HWS_NOT_FOUND, HWS_DATA_INVALID, HWS_CHECKPOINT_*. */
HWS_API hws_status hws_engine_create(const hws_config* config, uint32_t flags, hws_engine** out);
/** Makes an engine over all ranks of a comm, arranged by `mesh` of the config. Collective: returns in each
 * process when all have called it. Processes may differ only in the section cpu, in telemetry.tensorboard
 * and in checkpoint.path. Errors also: HWS_CONFIG_INVALID if mesh and comm have different numbers of ranks,
 * or processes have different configs (the text names the first field that differs); HWS_FAILED_PRECONDITION
 * if their builds of Hawser make different plans of one config; HWS_BUSY while another engine uses the comm;
 * HWS_TIMEOUT, HWS_UNAVAILABLE, and the error of any other rank. */
HWS_API hws_status hws_engine_create_ranks(const hws_config* config, const hws_comm* comm, uint32_t flags,
                                           hws_engine** out);
/** Makes an engine that trains (or, with HWS_ENGINE_INFERENCE, runs) an adapter on the weights of `base`. It
 * only reads these weights; its adapter, optimizer state, activations, threads, data and checkpoints are its
 * own. Its plan counts no byte for the borrowed weights, and its results are those of an engine with its own
 * copy. Any number of engines may borrow from one base and run at the same time, each on its own thread.
 * comm: NULL for one rank. `base` must be created with HWS_ENGINE_INFERENCE from a folder (init.from).
 * hws_tensor_set on it is refused while other engines borrow its weights. It may be destroyed before them;
 * the last of them then frees its memory. The config must have an adapter and the model, device, precision,
 * mesh and ZeRO stage of `base`, and its init.from must be that folder or a checkpoint of an adapter on it.
 * At stage 3 the engine gathers the shards of `base` into its own memory for each use. An adapter of a reward
 * model (model.head "score") needs a `base` with that head. Errors also: HWS_FAILED_PRECONDITION for another
 * `base`, HWS_CONFIG_INVALID for a config that does not fit, HWS_CHECKPOINT_INCOMPATIBLE for an adapter that
 * was trained on other weights. */
HWS_API hws_status hws_engine_create_on(const hws_engine* base, const hws_config* config,
                                        const hws_comm* comm, uint32_t flags, hws_engine** out);
/** Waits for a running call and a running save, ends the engine's threads and frees its memory. The arena
 * stays as long as a view of it (hws_tensor_view). */
HWS_API void hws_engine_destroy(hws_engine* engine);
/** *out: a JSON object with the model, parameters, flops_per_token (of training: 6 per matmul weight, and
 * causal attention), memory by category (of each rank), step, samples, ranks, threads (of each rank), CPU
 * level and total steps; "step_rows": rows of the pending step, or else of the next; "older_decay": true for
 * a run that an older version began, which keeps that version's learning rates (the last step of a decay has
 * the minimum). On GPUs also "choices", the matmul algorithms, equal on all ranks: "by" (GPU, libraries,
 * deterministic or not) and "products" with sizes, algorithm and nanoseconds (0: not timed; see
 * /cuda/algorithm_cache); "apart" names a rank that uses its own choices. */
HWS_API hws_status hws_engine_info(const hws_engine* engine, hws_buffer** out);

/** Sizes of a batch. The numbers never change while the engine exists. */
typedef struct hws_sizes {
  uint32_t struct_size;
  int32_t reserved;     /**< 0 */
  int64_t vocab_size;   /**< tokens and targets lie in [0, vocab_size); a target may also be -100 */
  int64_t sequence;     /**< columns of a training batch, and the most that eval and forward take */
  int64_t global_batch; /**< rows of a training batch, over all ranks and micro-batches. With /batch/ramp:
                             the largest; "step_rows" of hws_engine_info gives the rows of the next step */
  int64_t outputs;      /**< numbers that the head gives for each token: vocab_size, or 1 for a score */
} hws_sizes;

/** Fills *sizes. A training batch has `global_batch` rows of `sequence` tokens; hws_engine_forward
 * gives `outputs` numbers for each token. Works at any time, on any thread, and for inference. Errors:
 * HWS_INVALID_ARGUMENT if sizes is NULL, HWS_ABI_MISMATCH. */
HWS_API hws_status hws_engine_sizes(const hws_engine* engine, hws_sizes* sizes);
/** *rate: the learning rate that the next step will use, from the config's schedule; while a step is pending,
 * the rate of that step. The rate is a function of the config and the number of the step. A host program
 * cannot override it on a live engine: to continue with another rate, save, change /optimizer or /schedule in
 * the config, create an engine and load. Allowed in callbacks. Errors: HWS_FAILED_PRECONDITION for inference.
 */
HWS_API hws_status hws_engine_learning_rate(const hws_engine* engine, double* rate);

#define HWS_STEP_ACCEPTED 0
/** The loss or the gradient norm was not finite; only the data cursor moved. */
#define HWS_STEP_SKIPPED_NON_FINITE 1
/** The loss or the gradient norm was an outlier (/guard); only the data cursor moved. */
#define HWS_STEP_SKIPPED_OUTLIER 2
#define HWS_STEP_DISCARDED 3 /**< by hws_engine_discard */
#define HWS_STEP_PENDING 4   /**< after hws_engine_forward_backward: commit or discard comes next */
/** Precision fp16: the loss or the gradient norm was not finite on some rank; only the data cursor moved, and
 * the loss scale ("loss_scale" of hws_engine_metrics) follows /loss_scale of the config. */
#define HWS_STEP_SKIPPED_OVERFLOW 5
/** The loss or the gradient norm was an outlier, and /guard/outlier of the config is rewind: the engine has
 * loaded the newest checkpoint below /checkpoint/path, and its data cursor is behind this step's rows. */
#define HWS_STEP_REWOUND 6

typedef struct hws_step_result {
  uint32_t struct_size;
  int32_t outcome;  /**< HWS_STEP_* */
  int64_t step;     /**< number of this step, from 1; skipped and discarded ones count */
  double loss;      /**< mean over the unmasked targets of the global batch, nats; with weights, the sum of
                             weight x token loss divided by their number */
  double grad_norm; /**< of all distinct parameters, before clipping */
  double learning_rate; /**< of this step */
  int64_t tokens;       /**< unmasked targets */
  int64_t samples;      /**< data cursor after the step: rows consumed since the start */
  int64_t skipped;      /**< steps skipped or discarded so far */
  double seconds;       /**< wall time of the step */
} hws_step_result;

/** Takes one optimizer step on the next global batch: the pushed batch, else the batch of the source
 * (hws_data_set_source), else the config's data. The guard of the config decides whether the step is accepted
 * or skipped, or whether the engine goes back to a checkpoint (HWS_STEP_REWOUND). result: may be NULL.
 * Errors: HWS_NUMERIC after guard.max_consecutive_skips skips in a row, or if the engine has returned to one
 * checkpoint more than guard.max_rewinds times (that checkpoint is loaded); HWS_IO if a checkpoint cannot be
 * read;
 * HWS_DATA_INVALID; HWS_OUT_OF_RANGE at the end of the source's data; HWS_FAILED_PRECONDITION without data,
 * while a step is pending, and for inference. */
HWS_API hws_status hws_engine_train_step(hws_engine* engine, hws_step_result* result);
/** The gradient phase of a step: computes the gradients of the next global batch and changes nothing durable.
 * The step is then pending, until commit or discard. result: may be NULL. Errors: HWS_DATA_INVALID;
 * HWS_FAILED_PRECONDITION as above; HWS_IO if a disk of /offload fails, after which the same step can be
 * taken again (with several ranks, by a new engine). */
HWS_API hws_status hws_engine_forward_backward(hws_engine* engine, hws_step_result* result);
/** The update phase of a step: clips and updates the weights, without consulting the guard. result: may be
 * NULL. Errors: HWS_FAILED_PRECONDITION unless a step is pending, and if it overflowed (precision fp16: its
 * loss or gradient norm is not finite; it can only be discarded); HWS_IO if a disk of /offload fails. The
 * engine then refuses every call until a checkpoint is loaded (HWS_FAILED_PRECONDITION) or, with several
 * ranks, until a new engine is made (HWS_ABORTED). */
HWS_API hws_status hws_engine_commit(hws_engine* engine, hws_step_result* result);
/** Drops the gradients of the pending step instead. With rewind 0, schedule and data cursor advance.
 * Otherwise neither does, and the next step uses the same data; a pushed batch must be pushed again. result:
 * may be NULL. Errors: HWS_FAILED_PRECONDITION unless a step is pending. */
HWS_API hws_status hws_engine_discard(hws_engine* engine, int32_t rewind, hws_step_result* result);

typedef struct hws_train_record {
  uint32_t struct_size;
  int32_t outcome; /**< HWS_STEP_*; the fields down to seconds are those of hws_step_result */
  int64_t step;
  double loss;
  double grad_norm;
  double learning_rate;
  int64_t tokens;
  int64_t samples;
  int64_t skipped;
  double seconds;
  double validation_loss;      /**< nats; NaN if this step had no validation, or a cancel cut it short */
  double tokens_per_second;    /**< of this step: positions, masked ones too */
  int64_t total_steps;         /**< the step at which this run ends */
  int32_t saved;               /**< 1: a checkpoint of this step is written (with checkpoint.async: begun) as
                                     soon as the callback returns */
  int32_t best;                /**< 1: the lowest validation loss so far */
  int64_t communication_bytes; /**< sent in this step by the first rank of this process; 0 with one rank */
  int64_t save_failures;       /**< checkpoints that this engine could not write so far; "save_error" of
                                     hws_engine_metrics has the last one's path and error */
} hws_train_record;

/** Called after each step, on the thread that called hws_engine_train. `record` is valid during the call.
 * Non-zero ends the run after this step, with HWS_OK. */
typedef int32_t (*hws_train_fn)(void* user, const hws_train_record* record);

/** Trains until step `until_step` (0: train.steps of the config), and validates and saves as the config
 * specifies (train.eval_every, checkpoint.*). callback and destroy may be NULL. With train.patience the run
 * also ends after that many validations in a row without a lower loss ("ended_early" of hws_engine_metrics);
 * checkpoints store their number, and an engine that has ended in this way takes no further step until the
 * config has more patience.
 *
 * If checkpoint.path is set, the last step is saved, however the run ends: at until_step, by the callback, by
 * hws_engine_cancel, or by an error that leaves the state of that step complete (bad data, but not the loss
 * of a rank). With checkpoint.every_seconds, rank 0's clock decides for all ranks when to save. The folder is
 * opened once, at the start: if it is moved meanwhile, checkpoints follow it.
 *
 * When a checkpoint cannot be written, checkpoint.on_error decides. "go_on" (the default) counts the failure
 * (save_failures), keeps the older checkpoints and continues training; only the last checkpoint of a run is
 * tried again, and must be written. "stop" ends the run with the error. With checkpoint.async, the run also
 * waits for its last checkpoint.
 *
 * Errors: those of hws_engine_train_step and of saving. HWS_CANCELLED after hws_engine_cancel: the run ended
 * after a complete step, and the engine can continue training. */
HWS_API hws_status hws_engine_train(hws_engine* engine, int64_t until_step, hws_train_fn callback, void* user,
                                    void (*destroy)(void*));
/** Ends a running train, eval or generate at its next step boundary; never cuts a step short. If none of them
 * runs, nothing happens: the next call is not cancelled. (A host program that must also end a call that is
 * about to begin needs its own flag, which hws_thread_set_interrupt's poll or a callback reads.) A pushed
 * batch that no step has taken keeps waiting (hws_data_push). The call is one atomic store: it may run on any
 * thread, at any time, also in signal handlers, so it sets no last error. */
HWS_API hws_status hws_engine_cancel(const hws_engine* engine);

/** rows x cols tokens with their targets. The arrays belong to the caller; a call copies what it needs.
 *
 * Loss = sum of weight x token loss / unmasked targets. Weights do not enter the divisor, so a target of
 * weight 0 still counts, and twice the weights are twice the loss and twice the gradient. To leave a target
 * out altogether, mask it (-100). */
typedef struct hws_batch {
  uint32_t struct_size;
  int32_t reserved; /**< 0 */
  int64_t rows;
  int64_t cols;
  const int32_t* tokens;         /**< [rows, cols] */
  const int32_t* targets;        /**< [rows, cols] */
  const int32_t* document_begin; /**< [rows, cols]: the column where the document of each position starts.
                                       Positions count from there, and attention stops there. NULL: each row
                                       is one document */
  const float* weights;       /**< [rows, cols]: the weight of each target's loss; finite, at least 0. NULL:
                                       all 1 */
  const float* references;    /**< [rows]: for each row, the sum of its targets' log-probabilities under the
                                reference of /objective, for the kinds that have one; otherwise NULL */
  int64_t teacher_top;        /**< must be /teacher/top; 0 without a teacher */
  const int32_t* teacher_ids; /**< [rows, cols, teacher_top]: distinct token ids for each target, as
                                       hws_engine_top_logprobs gives them; NULL without a teacher */
  const float* teacher_logprobs; /**< [rows, cols, teacher_top]: the teacher's log-probabilities of these
                                       ids; finite, at most 0. Not read where the target is masked */
} hws_batch;

/** Copies one global batch (global_batch rows x `sequence` columns, see hws_engine_sizes; with /batch/ramp
 * the "step_rows" of hws_engine_info) for the next step, which uses it instead of the config's data. A train
 * callback may push: train uses the batch in the step after the callback, so a host program that trains on
 * its own tokens pushes the first batch before hws_engine_train and each further one in the callback.
 *
 * An objective over pairs (/objective/kind) takes two rows for each pair, the chosen answer first; targets
 * are the tokens of the answer, and weights must be NULL. Under "reward" a row's score is read at the token
 * that its last target names, which must be in the row, so the last column has no target. References are
 * computed by hws_engine_logprobs of the same rows, summed by row, before the first step or by another
 * engine. If the config's data are prepared pairs, the engine computes them when it is created, with its
 * weights at that time or with the model of /objective/reference, and a run keeps them next to its
 * checkpoints.
 *
 * With a teacher (/teacher/top), the batch must contain the teacher's rows for its tokens, from
 * hws_engine_top_logprobs of another engine or from any other source. This also holds with /teacher/from.
 *
 * A batch waits until a step takes it. hws_engine_cancel does not drop it: a step that has begun ends with
 * its batch, and a waiting batch is taken by the first step after the cancelled call. Evaluating and saving
 * do not change it; hws_checkpoint_load drops it. A step that fails, is skipped or is discarded has consumed
 * its batch.
 *
 * Errors: HWS_DATA_INVALID for ids outside the vocabulary (row, column, id), for weights that are negative
 * or not finite (row, column, weight), and for a teacher's row with an id twice or a log-probability that
 * is above 0 or not finite; HWS_INVALID_ARGUMENT for another shape; HWS_BUSY if a batch is already waiting;
 * HWS_FAILED_PRECONDITION for inference and while a step is pending. After an error, the batch that was
 * waiting before still waits. */
HWS_API hws_status hws_data_push(hws_engine* engine, const hws_batch* batch);
/** Returned by a data source: there are no more batches. */
#define HWS_SOURCE_END 1

/** The global batch of one step, for a data source to fill. The arrays are [rows, cols], belong to the
 * library and are valid during the call. On entry all tokens are 0 and all targets -100, so rows that the
 * source does not fill do not count. */
typedef struct hws_source_batch {
  uint32_t struct_size;
  int32_t has_documents; /**< set it to 1 if document_begin is filled; 0: each row is one document */
  int64_t step;          /**< the step that this batch is for, from 1 */
  int64_t samples;       /**< rows consumed before it: the position in the data */
  int64_t rows;
  int64_t cols;
  int32_t* tokens;
  int32_t* targets;
  int32_t* document_begin; /**< as in hws_batch; 0 on entry */
  float* weights;          /**< as in hws_batch; 1 on entry */
  int32_t has_weights;     /**< set it to 1 if weights is filled; 0: all are 1 */
  int32_t reserved;        /**< 0 */
} hws_source_batch;

/** Fills `batch` and returns 0, or returns HWS_SOURCE_END. Any other number ends the call with HWS_CALLBACK.
 * Called once before each step, on the thread that trains. May call the functions with a `const` handle. */
typedef int32_t (*hws_source_fn)(void* user, hws_source_batch* batch);

/** Sets a source of training batches, used instead of the config's data; NULL: the config's data again. A
 * pushed batch still comes first. Train's other parts do not change: validation data, the guard, checkpoints.
 *
 * The source is called with a position. `samples` continues from step to step, but a load moves it to that of
 * the checkpoint, and after hws_engine_discard with rewind, and after a step that failed, the same position
 * is requested again. If a source continues at the position in `samples`, a resumed run trains on the same
 * rows.
 *
 * At the end of the data, hws_engine_train ends as if its callback had ended it, with the last checkpoint and
 * HWS_OK, and hws_engine_train_step and _forward_backward return HWS_OUT_OF_RANGE. When the source fails, or
 * fills in ids or weights that hws_data_push would refuse (HWS_DATA_INVALID: row, column, value), the step
 * has changed nothing and the engine can continue training.
 *
 * With ranks in several processes, all of them set a source or none does. Each source must return the same
 * global batch. When one ends or fails, all do. destroy(user) runs when another source is set or the engine
 * is destroyed. Errors: HWS_FAILED_PRECONDITION for inference. */
HWS_API hws_status hws_data_set_source(hws_engine* engine, hws_source_fn callback, void* user,
                                       void (*destroy)(void*));
/** *out: JSON about the config's data: tokens, validation samples, the data cursor, the vocabulary; for pairs
 * "references": the number of their "rows", whether they were "read" from the run's folder, and the "seconds"
 * that this took; with a teacher (/teacher/from) "teacher": the same, and the number of "targets". */
HWS_API hws_status hws_data_info(const hws_engine* engine, hws_buffer** out);

/** Called during a preparation with a JSON object of `size` bytes, NUL-terminated and valid during the call:
 * {"done_bytes", "total_bytes", "rows"}. Runs on the thread that prepares, at most ten times a second. */
typedef void (*hws_prepare_fn)(void* user, const char* json, size_t size);

/** Prepares text for training: turns files of rows into a folder of tokens with a loss mask, for /data/format
 * "prepared". Needs the text module. request: a JSON object.
 *   "model"     a folder with tokenizer.json, or the path of such a file
 *   "files"     an array of paths: JSON Lines, JSON arrays, Parquet, or text; the content decides which. The
 *              keys of a row determine its form: "text"; "prompt" and "completion"; "messages", with "tools"
 *              (OpenAI); "instruction" and "output" (Alpaca); "conversations" (ShareGPT); "prompt", "chosen"
 *              and "rejected" (pairs for /objective: all rows of a folder, or none)
 *   "out"       the folder. It must not exist, or hold the result of the same request: then nothing is done
 *   "sequence"  tokens of a row, as /batch/sequence
 *   "long"      "cut" (default): longer rows are cut at their end; "drop": they are omitted. A text file is
 *              never cut: it continues in the next row
 *   "unprinted" "refuse" (default): a field with words that the chat template does not print, such as
 *              "tool_calls", is an error; "drop": it is omitted, and counted
 *   "packing"   true (default): several short rows share one row, each with its own document mask; false.
 *              Answers of pairs never share one
 *   "pairs"     true: rows must be pairs; false: none may be; default: as the first row is
 *   "template"  a file with a chat template, or "plain", "chatml", "llama2", "llama3"; default: the model's
 *   "threads"   0 (default): as many as this process may use. Any number writes the same bytes
 *   "seed"      determines the order of the rows; default 0
 * The loss covers the assistant's answers and the token that ends each of them; all other tokens are masked.
 * A message's "train": false and "weight" are honoured. Rows without a target are dropped, and counted.
 *
 * *out: JSON: the folder, whether it existed already ("reused"), rows read and prepared, the share of tokens
 * that are trained on, lengths, what was cut or dropped, and how many rows lack a token that ends them
 * ("without_end"). "training_template" is null, or {"family", "reason", "rows"} if the template rewrites
 * earlier turns of a chat and these rows were therefore rendered without that (file training_template.jinja
 * of the folder). Afterwards the folder is complete, or does not exist.
 * callback: may be NULL; it may call nothing except hws_op_*. Errors: HWS_DATA_INVALID (file, line and column
 * of the first row that cannot be used; no row left); HWS_ALREADY_EXISTS; HWS_UNAVAILABLE without the text
 * module; HWS_CANCELLED by hws_thread_set_interrupt; those of the file system. Exempt from the promise on
 * memory: if memory runs out within the text module, the process aborts. */
HWS_API hws_status hws_data_prepare(const char* request, hws_prepare_fn callback, void* user,
                                    void (*destroy)(void*), hws_buffer** out);
/** Shows a row of a prepared folder as the model sees it. *out: JSON {"row", "rows", "sequence", "tokens",
 * "documents": [{"begin", "tokens", "learned_tokens", "text", "learned": [[begin, end], ..]}]}: documents by
 * the column where they begin, and the bytes of each text that are trained on. Needs the text module. Errors:
 * HWS_OUT_OF_RANGE if there is no such row; HWS_DATA_INVALID for a folder that is damaged; and as above. */
HWS_API hws_status hws_data_preview(const char* folder, int64_t row, hws_buffer** out);

/** Swaps the weights with their moving averages (optimizer.average) in memory (on: 1), or swaps them back
 * (0); if this is already so, nothing happens. While the averages are in place, evaluation, logits,
 * generation, exports and hws_tensor_get use them, and the tensors of kind HWS_TENSOR_AVERAGE are the trained
 * weights; steps, saves, loads and hws_tensor_set are refused with HWS_FAILED_PRECONDITION. Collective if
 * ranks are in several processes. Errors: HWS_FAILED_PRECONDITION while a step is pending, and for an engine
 * that keeps no averages or is for inference (init.average loads those of a checkpoint); after HWS_IO (a disk
 * of /offload failed), the engine needs a load. */
HWS_API hws_status hws_engine_use_average(hws_engine* engine, int32_t on);
/** The mean loss, without gradients. batch: any rows, at most `sequence` columns, with targets; NULL: the
 * validation data, at most max_batches global batches (0: as the config specifies). Held-out pairs are
 * evaluated by /objective. If it has a reference, an engine for inference needs /objective/reference, or a
 * checkpoint of such a run as init.from: the reference is then the model with which that run began, and its
 * log-probabilities are computed when the engine is made. *loss: for pairs, the loss of the objective; else
 * nats per unmasked target, each times its weight if the batch or the data has weights; NaN or infinite if
 * the model's numbers are. *tokens: unmasked targets; may be NULL. Errors:
 * HWS_DATA_INVALID; HWS_FAILED_PRECONDITION without validation data, or for a batch if the model has a score
 * head; HWS_CANCELLED. */
HWS_API hws_status hws_engine_eval(hws_engine* engine, const hws_batch* batch, int64_t max_batches,
                                   double* loss, int64_t* tokens);
/** The logits (after soft-capping) of each position. batch: any rows, at most `sequence` columns; its targets
 * may be NULL. logits: f32 [rows, cols, vocab_size], memory of the caller that does not overlap the batch;
 * the values are rounded to /output_type. logits_bytes: its size, exactly. A model with a score head
 * (/model/head) gives f32 [rows, cols], the score of the text up to each token: the score of a row is the one
 * at its last token, whatever follows as padding. Errors: HWS_DATA_INVALID. */
HWS_API hws_status hws_engine_forward(hws_engine* engine, const hws_batch* batch, float* logits,
                                      size_t logits_bytes);

/** The log-probability of each target, in nats, without storing logits: the input of a score, a perplexity or
 * an objective of your own. batch: any rows, at most `sequence` columns, with targets; its weights do not
 * matter. logprobs: f32 [rows, cols], memory of the caller that does not overlap the batch; 0 where the
 * target is masked, NaN or infinite if the model's numbers are. logprobs_bytes: its size, exactly. Errors:
 * HWS_DATA_INVALID. */
HWS_API hws_status hws_engine_logprobs(hws_engine* engine, const hws_batch* batch, float* logprobs,
                                       size_t logprobs_bytes);

/** The `top` likeliest next tokens at each position, without storing logits: the rows of a teacher
 * (/teacher). The likeliest is first; of equal logits, the lower id. batch: any rows, at most `sequence`
 * columns; targets and weights do not matter and may be NULL. top: 1 to vocab_size. ids: int32 [rows, cols,
 * top]; logprobs: f32 [rows, cols, top], their log-probabilities in nats over the whole vocabulary, at most
 * 0. Both are memory of the caller that overlaps neither the batch nor each other; ids_bytes and
 * logprobs_bytes: their sizes, exactly. Errors: HWS_DATA_INVALID; HWS_INVALID_ARGUMENT for another top or
 * size; HWS_NUMERIC if the model's numbers are not finite (row, column; ids and logprobs are then undefined);
 * HWS_FAILED_PRECONDITION for a model with a score head. */
HWS_API hws_status hws_engine_top_logprobs(hws_engine* engine, const hws_batch* batch, int64_t top,
                                           int32_t* ids, size_t ids_bytes, float* logprobs,
                                           size_t logprobs_bytes);

/** The gradient phase of a step for an objective of your own (DPO, GRPO): computes the gradients of the
 * weights from the gradients of the objective by the log-probability of each target. Compute the latter from
 * hws_engine_logprobs of the same batch, call this, then commit or discard.
 *
 * batch: a global batch as for hws_data_push; it is used at once and counts in the data cursor. Its weights
 * must be NULL, because the gradients contain them. gradients: f32 [rows, cols], d objective / d
 * log-probability; 0 where the target is masked. Nothing is divided: apply the divisor of a mean (pairs,
 * tokens, rows of the global batch) yourself. The guard is not consulted, and losses of routers (/moe) are
 * added as always. Dropout applies here and not in hws_engine_logprobs: set /model/dropout to 0 if both must
 * agree. With ranks in several processes, all pass the same batch and gradients. result: may be NULL; its
 * loss is the sum of gradient x log-probability, whose gradient is that of the objective. gradients_bytes:
 * its size, exactly. Errors: HWS_DATA_INVALID for the batch, for a gradient that is not finite and for one of
 * a masked target (row, column, value); HWS_INVALID_ARGUMENT for another shape; HWS_BUSY if a pushed batch
 * waits; HWS_FAILED_PRECONDITION while a step is pending, and for inference. */
HWS_API hws_status hws_engine_backward_with(hws_engine* engine, const hws_batch* batch,
                                            const float* gradients, size_t gradients_bytes,
                                            hws_step_result* result);

typedef struct hws_generate_request {
  uint32_t struct_size;
  int32_t stop_token;    /**< ends the text, and is delivered; -1: none */
  const int32_t* prompt; /**< [prompt_length] */
  int64_t prompt_length; /**< at least 1 */
  int64_t max_tokens;    /**< new tokens, at most */
  double temperature;    /**< 0: greedy */
  int64_t top_k;         /**< sample among the k likeliest tokens; 0: all */
  double top_p;          /**< sample among the likeliest tokens that sum to this probability; 1: all */
  uint64_t seed;
  const int32_t* stop_tokens; /**< [stop_count]: more tokens that end the text, such as "end_tokens" of
                                   hws_tokenizer_info; NULL: none */
  int64_t stop_count;
} hws_generate_request;

/** Called for each new token, on the calling thread. Non-zero ends the text. */
typedef int32_t (*hws_token_fn)(void* user, int32_t token);

/** Continues the prompt, with a KV cache, and passes each token to `callback`, which is required. The model
 * sees the last batch.sequence tokens (default: model.context). Errors: HWS_DATA_INVALID for a prompt outside
 * the vocabulary; HWS_NUMERIC if the logits are not finite, so that no token follows; HWS_CANCELLED. */
HWS_API hws_status hws_engine_generate(hws_engine* engine, const hws_generate_request* request,
                                       hws_token_fn callback, void* user, void (*destroy)(void*));

/** Converts text to tokens, for models with a tokenizer or with a byte or character vocabulary. text: `size`
 * bytes. *out: an int32 array. A tokenizer adds the special tokens that begin or end a text. Errors:
 * HWS_FAILED_PRECONDITION for a model that has neither; HWS_DATA_INVALID for a character that is not in the
 * vocabulary and for text that is not UTF-8; for a tokenizer also those of hws_tokenizer_open. */
HWS_API hws_status hws_text_encode(const hws_engine* engine, const char* text, size_t size, hws_buffer** out);
/** Converts tokens to text, without special tokens. tokens: `count` of them. *out: text. Errors: as above. */
HWS_API hws_status hws_text_decode(const hws_engine* engine, const int32_t* tokens, size_t count,
                                   hws_buffer** out);

/* -------------------------------------------------------------------------------------------- tokenizers */

/* How a model reads and writes text: its tokenizer, exactly as Hugging Face's tokenizers runs it, and its
 * chat template. All functions except hws_tokenizer_train take `const` handles. They need the text module,
 * hawser-0/libhawser_text.so next to the library: without it they return HWS_UNAVAILABLE. If memory runs out
 * inside the module, the process aborts: hws_text_* of a model with a tokenizer and hws_tokenizer_* cannot
 * return HWS_OUT_OF_MEMORY then. */

/** Opens the tokenizer of a model: a tokenizer.json by itself, a Hugging Face folder, or a checkpoint. A
 * model of bytes or characters gets the tokenizer that its export would have. Errors: HWS_NOT_FOUND without a
 * tokenizer.json; HWS_DATA_INVALID if that file, or another file of the folder, cannot be read
 * (tokenizer_config.json, special_tokens_map.json, chat_template.jinja, generation_config.json); the text
 * names the file. HWS_ABI_MISMATCH for a module of another version. */
HWS_API hws_status hws_tokenizer_open(const char* path, hws_tokenizer** out);
/** Opens the tokenizer of an engine's model. Errors also: HWS_FAILED_PRECONDITION for a model without one;
 * HWS_DATA_INVALID for one with more tokens than the model's embedding has rows. */
HWS_API hws_status hws_engine_tokenizer(const hws_engine* engine, hws_tokenizer** out);
/** *out: a JSON object.
 *   "vocab_size"      the greatest token id plus 1
 *   "end_of_text"     the id of eos_token, or eos_token_id of config.json (else of generation_config.json) if
 *                     the folder names no eos_token, or null
 *   "end_tokens"      all ids that end an answer: eos_token_id of generation_config.json (else of
 *                     config.json), eos_token, and the special token that the template puts after an answer
 *   "special_tokens"  {"bos_token": "<s>", ...}, as the folder names them
 *   "chat_template"   true if the model has one
 *   "digest", "template_digest" (null without a template) */
HWS_API hws_status hws_tokenizer_info(const hws_tokenizer* tokenizer, hws_buffer** out);

#define HWS_TEXT_ADD_SPECIAL 1  /**< encode: the special tokens that begin or end a text, too */
#define HWS_TEXT_SKIP_SPECIAL 2 /**< decode: leave special tokens out */
/** decode: omit an incomplete character at the end. When tokens are appended, the text then only grows, so
 * the new bytes can be shown at once (streaming). */
#define HWS_TEXT_WHOLE 4

/** Converts text to tokens. text: `size` bytes. *out: an int32 array. Do not pass HWS_TEXT_ADD_SPECIAL for a
 * text that already has its special tokens, such as a rendered chat. flags: 0 or HWS_TEXT_ADD_SPECIAL.
 * Errors: HWS_DATA_INVALID for text that is not UTF-8, with the offset; HWS_CANCELLED by
 * hws_thread_set_interrupt. */
HWS_API hws_status hws_tokenizer_encode(const hws_tokenizer* tokenizer, const char* text, size_t size,
                                        uint32_t flags, hws_buffer** out);
/** Converts tokens to text. tokens: `count` of them; ids without a token are left out. *out: text. flags: 0,
 * HWS_TEXT_SKIP_SPECIAL, HWS_TEXT_WHOLE or both. Errors: HWS_INVALID_ARGUMENT for a negative id. */
HWS_API hws_status hws_tokenizer_decode(const hws_tokenizer* tokenizer, const int32_t* tokens, size_t count,
                                        uint32_t flags, hws_buffer** out);
/** Renders a chat by the model's template. chat: a JSON object with "messages" (in OpenAI's form), and
 * optionally "tools", "add_generation_prompt" (default: false) and other variables that the template reads.
 * *out: text. Errors: HWS_FAILED_PRECONDITION for a model without a template; HWS_DATA_INVALID for a chat of
 * another form (the text names the message), for a chat that the template refuses, with its message, and for
 * a template that takes too many steps, too much memory or too long; HWS_CANCELLED by
 * hws_thread_set_interrupt. */
HWS_API hws_status hws_tokenizer_render(const hws_tokenizer* tokenizer, const char* chat, hws_buffer** out);
/** Trains a byte-level BPE of at most `vocab_size` tokens on UTF-8 files and writes it as a tokenizer.json to
 * `path`, which must not exist. files and special_tokens: JSON arrays of paths and of tokens; special tokens
 * come first in the vocabulary, and may be NULL. Equal files in equal order give equal bytes. All different
 * words are held in memory. Errors: HWS_DATA_INVALID for text that is not UTF-8 (file and offset), and for a
 * vocabulary without room for 256 bytes and the special tokens; HWS_ALREADY_EXISTS; HWS_CANCELLED
 * (hws_thread_set_interrupt); those of the file system. */
HWS_API hws_status hws_tokenizer_train(const char* files, int64_t vocab_size, const char* special_tokens,
                                       const char* path);
HWS_API void hws_tokenizer_destroy(hws_tokenizer* tokenizer);

/* ------------------------------------------------------------------------------------------------ tensors */

#define HWS_TENSOR_WEIGHT 0
#define HWS_TENSOR_GRADIENT 1 /**< while a step is pending: unscaled, unclipped */
#define HWS_TENSOR_MOMENT1 2  /**< AdamW's m, SGD's momentum buffer */
#define HWS_TENSOR_MOMENT2 3  /**< AdamW's v */
#define HWS_TENSOR_AVERAGE 4  /**< moving average of the weight (optimizer.average) */

/** *out: a JSON array of all parameters with name, shape, count (of elements) and Hugging Face name. */
HWS_API hws_status hws_tensor_list(const hws_engine* engine, hws_buffer** out);
/** Copies a tensor to `data` as f32. name: Hawser's name, or the Hugging Face name, which gives the tensor in
 * Hugging Face's layout. bytes: 4 x elements. Errors: HWS_NOT_FOUND; HWS_FAILED_PRECONDITION for a kind that
 * does not exist now. */
HWS_API hws_status hws_tensor_get(const hws_engine* engine, int32_t kind, const char* name, void* data,
                                  size_t bytes);
/** Sets a weight (with its fp32 master copy) or a moment from f32 data. Under precision bf16_pure the values
 * are rounded to the nearest bf16. name, bytes and errors as for hws_tensor_get; HWS_FAILED_PRECONDITION also
 * for a frozen weight below an adapter that was read from init.from, because checkpoints omit it. After
 * HWS_IO (a disk of /offload failed) the tensor may be set in part: set it again. */
HWS_API hws_status hws_tensor_set(hws_engine* engine, int32_t kind, const char* name, const void* data,
                                  size_t bytes);
/** DLPack 1.0's struct, declared by dlpack.h. */
struct DLManagedTensorVersioned;

/** A view without a copy, by Hawser's name. *out: a tensor of DLPack 1.0 with the read-only flag, aligned for
 * its element type, whose contents change as training continues. Call its deleter once, on any thread, also
 * after the engine is destroyed: the view keeps the arena alive. Errors: those of hws_tensor_get;
 * HWS_UNIMPLEMENTED for tensors in shards, on another stage of a pipeline or in the memory of a GPU. */
HWS_API hws_status hws_tensor_view(const hws_engine* engine, int32_t kind, const char* name,
                                   struct DLManagedTensorVersioned** out);
/** Statistics of the gradients of the pending step. *out: a JSON array with the norm, the largest magnitude
 * and the number of non-finite elements of each parameter. Errors: HWS_FAILED_PRECONDITION unless a step is
 * pending. */
HWS_API hws_status hws_tensor_statistics(const hws_engine* engine, hws_buffer** out);

/* -------------------------------------------------------------------------------------------- checkpoints */

/** Writes a checkpoint, a directory that must not exist yet. Afterwards it is complete and durable, or does
 * not exist. With an adapter on a model of init.from, it holds the trained parameters, and the name and
 * digests of that model: loading it with another model is HWS_CHECKPOINT_INCOMPATIBLE, and init.base names
 * the folder if it has moved. Errors: HWS_ALREADY_EXISTS, HWS_IO and others of the file system. */
HWS_API hws_status hws_checkpoint_save(hws_engine* engine, const char* path);
/** Writes a checkpoint while training continues: returns as soon as the state is copied. Threads of the
 * engine, of lower priority, then write it, the same files byte for byte. *out: the operation (hws_op_*).
 *
 * The copy needs memory outside the arena, as much as the plan lists as save copy. With checkpoint.async and
 * checkpoint.path it is allocated with the engine, and leaves out state on disk (offload.optimizer,
 * offload.parameters): the file of that state has a second place of the same size, reserved with the engine,
 * and the save reads the one while steps write the other. Otherwise the copy is of all state, wherever that
 * is, and is allocated with the first such save. It is kept. While the save runs, another one waits for it or
 * gets HWS_BUSY, by checkpoint.when_busy; hws_checkpoint_load, hws_engine_export and hws_engine_destroy wait.
 *
 * A failure that no hws_op_wait returned is counted ("save_failures" and "save_error" of hws_engine_metrics).
 * With checkpoint.on_error "stop", it is also the error of the next save, train or train_step call, which
 * then does nothing. Errors: HWS_ALREADY_EXISTS; HWS_OUT_OF_MEMORY for the copy (bytes needed and available);
 * HWS_UNIMPLEMENTED with ranks in several processes over hws_comm_create_host, whose functions only one
 * thread may call. The operation returns errors of the file system.
 *
 * With ranks in several processes the call is collective. A save that fails or is cancelled on one of them
 * fails on all. A failure that has not been reported yet is the error of the next save or train call. */
HWS_API hws_status hws_checkpoint_save_async(hws_engine* engine, const char* path, hws_op** out);
/** Accept a checkpoint of other data. A checkpoint holds digests of its training data: of all of it up to 4
 * GiB, of an even sample of more. */
#define HWS_LOAD_OTHER_DATA 1
/** Restores weights, optimizer, counters and data cursor; training continues bit for bit. flags: 0 or
 * HWS_LOAD_OTHER_DATA. Everything is checked before anything changes; among several ranks, one of them checks
 * each file's digests. If the disk fails after that, the engine refuses every call until it is loaded again
 * (HWS_FAILED_PRECONDITION) or, with several ranks, until a new engine is made (HWS_ABORTED). Errors:
 * HWS_NOT_FOUND, HWS_CHECKPOINT_CORRUPT, HWS_CHECKPOINT_INCOMPATIBLE, and those of the file system. */
HWS_API hws_status hws_checkpoint_load(hws_engine* engine, const char* path, uint32_t flags);
/** Loads the newest complete checkpoint below `folder` (step-*, best). Do not look for it with
 * hws_checkpoint_latest first: both functions read all of it. *out: JSON {"name": "step-20", "step": 20,
 * "damaged": [{"name": "step-30", "problem": ".."}]}; "damaged" lists the checkpoints that were skipped. The
 * rules for skipping and for errors are those of hws_checkpoint_latest. After HWS_NOT_FOUND, and if all are
 * damaged (HWS_CHECKPOINT_CORRUPT), the engine is unchanged. */
HWS_API hws_status hws_checkpoint_load_latest(hws_engine* engine, const char* folder, uint32_t flags,
                                              hws_buffer** out);
/** *out: JSON about a checkpoint: model, step, tensors, files. */
HWS_API hws_status hws_checkpoint_inspect(const char* path, hws_buffer** out);
/** Checks every digest. Errors: HWS_CHECKPOINT_CORRUPT names file, tensor and byte range. */
HWS_API hws_status hws_checkpoint_verify(const char* path);
/** *out: the path of the newest complete checkpoint below `folder` (step-*, best). Damaged ones are skipped.
 * A checkpoint that cannot be read now, or that a newer version wrote, may be complete, so it is an error
 * that names the file (HWS_IO, HWS_PERMISSION, HWS_CHECKPOINT_INCOMPATIBLE, ...). Errors also: HWS_NOT_FOUND
 * if there is none; HWS_CHECKPOINT_CORRUPT, with the reasons, if every one is damaged. */
HWS_API hws_status hws_checkpoint_latest(const char* folder, hws_buffer** out);
/** Makes a checkpoint (of step 0) from a Hugging Face folder. ignore_keys: a JSON array of unknown
 * config.json keys to accept; NULL: none. */
HWS_API hws_status hws_checkpoint_import(const char* hf_folder, const char* path, const char* ignore_keys);
/** Makes a checkpoint with the weighted mean of the weights of several checkpoints of one model. paths: a
 * JSON array of their paths. weights: a JSON array of as many positive numbers; NULL: equal numbers. Each
 * element is computed in f64 and rounded once to f32. The new checkpoint has no optimizer state, so it can be
 * exported and evaluated, and can start a run (init.from), but cannot be resumed. Its step is the greatest
 * step of the given checkpoints. `path` must not exist, and appears complete or not at all. Every digest is
 * verified first. Errors: HWS_INVALID_ARGUMENT (fewer than two paths, or weights that are not positive and
 * finite, or not as many), HWS_NOT_FOUND, HWS_CHECKPOINT_CORRUPT; HWS_CHECKPOINT_INCOMPATIBLE for different
 * models, vocabularies or tokenizers; HWS_FAILED_PRECONDITION for adapters; HWS_ALREADY_EXISTS. */
HWS_API hws_status hws_checkpoint_average(const char* paths, const char* weights, const char* path);
/** Makes a Hugging Face folder, or a file for llama.cpp if `to` ends in ".gguf". path: a checkpoint or a
 * Hugging Face folder. dtype: "f32", "bf16", "f16", for GGUF also "q8_0"; "" or NULL: as imported, else f32.
 * For a model of bytes or characters, the result has a tokenizer. A GGUF file has the vocabulary, special
 * tokens and chat template of the model's folder. llama.cpp has no Unicode normalisation (Qwen's NFC), and no
 * sliding windows for Mistral models, so their context_length becomes the window. `to` must not exist, and
 * appears complete or not at all. Errors: HWS_ALREADY_EXISTS; HWS_FAILED_PRECONDITION if no Hugging Face
 * family can express the model, or llama.cpp cannot compute it or has no such tokenizer: the message names
 * what is missing; HWS_OUT_OF_RANGE for a weight that the dtype cannot hold; HWS_INVALID_ARGUMENT. */
HWS_API hws_status hws_checkpoint_export(const char* path, const char* to, const char* dtype);
/** Makes a Hugging Face folder or a GGUF file from the engine's weights. Arguments as above. */
HWS_API hws_status hws_engine_export(const hws_engine* engine, const char* to, const char* dtype);
/** Makes a PEFT folder (adapter_config.json, adapter_model.safetensors) from the adapter in a checkpoint: its
 * factors and the parameters trained with them, in the types of adapter.from, else f32. If `to` ends in
 * ".gguf", makes a file that llama.cpp applies to the base model, with the factors in f32. The two functions
 * above merge an adapter: they write the weights of an equivalent model without one, W + s B A, computed in
 * fp32 and rounded once. Errors: HWS_FAILED_PRECONDITION without an adapter, or for one that PEFT
 * or llama.cpp cannot represent. */
HWS_API hws_status hws_checkpoint_export_adapter(const char* path, const char* to);
/** Makes a PEFT folder or a GGUF file from the engine's adapter. */
HWS_API hws_status hws_engine_export_adapter(const hws_engine* engine, const char* to);

/* --------------------------------------------------------------------------------------------- operations */

/* Work that runs concurrently with its caller. These functions work at any time, several at once on one
 * handle, in callbacks, and after the engine is destroyed. */

/** Waits at most `timeout_seconds` for the end (negative: without limit; 0: not at all). Returns HWS_TIMEOUT
 * while the operation runs, else its own status: HWS_OK, HWS_CANCELLED, or the status of its failure. */
HWS_API hws_status hws_op_wait(const hws_op* op, double timeout_seconds);
/** *ended: 1 when the operation has ended, with success or not; else 0. */
HWS_API hws_status hws_op_poll(const hws_op* op, int32_t* ended);
/** Bytes of tensors written so far, and in total; either may be NULL. After the last byte the operation still
 * runs for a short time, to make the files durable. */
HWS_API hws_status hws_op_progress(const hws_op* op, int64_t* done_bytes, int64_t* total_bytes);
/** Requests the operation to stop, and does not wait. It leaves no files and ends with HWS_CANCELLED, unless
 * it was just ending. */
HWS_API hws_status hws_op_cancel(const hws_op* op);
/** Destroys the handle; the operation continues. Waits for an hws_op_wait on another thread. */
HWS_API void hws_op_destroy(hws_op* op);

/* ------------------------------------------------------------------------------------- devices, telemetry */

/** *out: a JSON array of devices: the CPU (name, kind, threads, available memory, level), then those of the
 * CUDA module, which this call opens (name, kind, index, memory), or one entry with the reason why there are
 * none ("unavailable"). */
HWS_API hws_status hws_device_list(hws_buffer** out);
/** Measures the CPU with `threads` threads (0: default) for about `seconds` (0: 0.5). *out: JSON with the
 * peaks of matrix products in fp32 and bf16 (GFLOP/s) and the bandwidth of memory (GB/s). */
HWS_API hws_status hws_device_measure(int32_t threads, double seconds, hws_buffer** out);
/** Measures only the peak of matrix products, to compare the speed of a run with. *flops: operations per
 * second, with `threads` threads of the CPU (0: default), in precision "fp32" or "bf16". Takes about
 * `seconds` (0: 0.1) and 10 MB of memory. */
HWS_API hws_status hws_device_peak(int32_t threads, const char* precision, double seconds, double* flops);

/** Called after each step with a JSON object of `size` bytes, NUL-terminated and valid during the call, on
 * the thread that trains. */
typedef void (*hws_metrics_fn)(void* user, const char* json, size_t size);
/** Sets the metrics callback; NULL: none. The `destroy` of the previous one runs. */
HWS_API hws_status hws_engine_set_metrics(hws_engine* engine, hws_metrics_fn callback, void* user,
                                          void (*destroy)(void*));
/** Returns the callback's object on demand: the last step, and the bytes that one rank of this process sent
 * in it ("communication") and since the engine was made ("communication_total"), by process group and
 * operation: "calls"; "bytes", the payload that the plan counts; "wire_bytes", the bytes sent to other
 * processes or to the host program's transport, with headers and padding (0 between threads).
 * "validation_losses" has the last loss of each of several data.validation_sources, {name: nats}, and
 * "ended_early" is true if the last run of train ended by train.patience. "preferences", for an objective
 * over pairs: the means over the pairs of the last step of "chosen_reward", "rejected_reward" and "margin",
 * and "accuracy", the share of pairs whose chosen answer has the higher reward, where equal rewards count as
 * half a pair; "validation_preferences": those of the last validation.
 * "attention_scores", with optimizer.qk_clip: "largest", the largest score of the last step (null if it is
 * not finite), and "heads_above_limit", the number of heads, summed over layers, that exceeded the limit.
 * "ahead_losses", with model.ahead: for each depth, the mean loss of its targets in the last step.
 * "experts", for a model with experts: for each layer the load of the busiest and the idlest over their
 * mean, the number of idle ones, the mean number of rounds in which a micro-batch's rows were sent to them,
 * the share of choices dropped, and both losses of its router. "event_failures" counts records of
 * /telemetry/tensorboard that could not be written, "event_error" has the reason. Works at any time, on any
 * thread. */
HWS_API hws_status hws_engine_metrics(const hws_engine* engine, hws_buffer** out);

#define HWS_PHASE_IDLE 0 /**< no long call runs */
#define HWS_PHASE_TRAIN 1
#define HWS_PHASE_EVAL 2 /**< also the validation within train */
#define HWS_PHASE_GENERATE 3
#define HWS_PHASE_SAVE 4 /**< also the checkpoints within train */
#define HWS_PHASE_LOAD 5

/** The state of an engine. Numbers of the last step are NaN before the first step and after a load. */
typedef struct hws_progress {
  uint32_t struct_size;
  int32_t phase;       /**< HWS_PHASE_* */
  int64_t step;        /**< steps taken, skipped and discarded ones too */
  int64_t until_step;  /**< the step at which the running hws_engine_train ends; 0: none runs */
  int64_t total_steps; /**< the step at which the config ends a run (train.steps) */
  int64_t samples;     /**< data cursor: rows consumed since the start */
  int64_t tokens;      /**< positions in these rows */
  int64_t skipped;     /**< steps skipped or discarded */
  int64_t done;        /**< progress of the phase: rows evaluated, tokens generated */
  int64_t total;       /**< the number of these at its end; 0: nothing is counted */
  double loss;         /**< of the last step, like the next three */
  double grad_norm;
  double learning_rate;
  double step_seconds;
  double tokens_per_second; /**< of the last step */
  double validation_loss;   /**< of the last validation within train; NaN: none yet */
  double running_seconds;   /**< since the running call began; 0 if none runs */
  int64_t save_failures;    /**< checkpoints that this engine could not write */
  int32_t saving;           /**< 1: a checkpoint is being written during training */
  int32_t reserved;         /**< 0 */
} hws_progress;

/** Fills *progress, for a monitor or a progress bar. Works at any time, on any thread; it neither waits for a
 * step nor allocates memory. */
HWS_API hws_status hws_engine_progress(const hws_engine* engine, hws_progress* progress);

#define HWS_TRACE_OFF 0          /**< records nothing, at no cost */
#define HWS_TRACE_INSTRUCTIONS 1 /**< records when each instruction of a step begins and ends */
#define HWS_TRACE_KERNELS 2      /**< also records every kernel call in them */
/** Sets what is recorded from the next step on, on every rank of this process, and drops what was recorded. A
 * GPU then gets its work call by call instead of as graphs (/cuda/graphs), so the CPU's share of a step is
 * larger. Errors: HWS_FAILED_PRECONDITION for inference and while a step is pending. */
HWS_API hws_status hws_engine_set_trace(hws_engine* engine, int32_t detail);
/** *out: the last step. HWS_FORMAT_JSON: trace events for Perfetto and chrome://tracing, with a process per
 * rank and a thread per lane (compute, communication, saves), in microseconds; for each rank, "otherData" has
 * the share of its communication that was hidden behind compute, and the time for which exchanges within
 * blocks delayed it ("exchanging_seconds") or ran while it computed ("beside_seconds"). HWS_FORMAT_TEXT: only
 * these figures, as a table. HWS_FORMAT_SVG: an image with one row per lane. It shows instructions, not
 * kernels; each column of half a pixel has the colour of what ran longest in it. Errors:
 * HWS_FAILED_PRECONDITION if no step was recorded. */
HWS_API hws_status hws_engine_trace(const hws_engine* engine, int32_t format, hws_buffer** out);
/** *out: where the time of the steps went since HWS_TRACE_KERNELS was set, without the first step, which
 * warms up, if there is another. HWS_FORMAT_JSON: {"ranks": [{"rank", "steps", "seconds", "waited_seconds",
 * "communication": {"calls", "seconds", "bytes"}, "exchanges": the same within blocks (the rank computed
 * during "beside_seconds" of them: pairs of dualpipev, and chunks of mesh.tp_chunks), "kernels":
 * [{"kernel", "type", "calls", "seconds", "flops", "bytes"}]}]}, slowest kernel first. A matmul, also a
 * fused one such as "matmul_gelu", has a row for each shape ("m", "n", "k", "a_transposed",
 * "b_transposed"). Attention has a row for each number of keys and size of a head ("length", "head_dim").
 * flops are those of matrix products and attention; bytes are those of the operands, each read or written
 * once. HWS_FORMAT_TEXT: the same as a table. Errors:
 * HWS_FAILED_PRECONDITION if no step was recorded. */
HWS_API hws_status hws_engine_profile(const hws_engine* engine, int32_t format, hws_buffer** out);
/** *out: the flight recorder, the last calls (up to 2,048) of each rank of this process to other ranks,
 * finished, failed or still waiting. It is always on and costs next to nothing. Works at any time, on any
 * thread, also during a call that does not return and after an error. HWS_FORMAT_JSON: {"ranks": [{"rank",
 * "world_size", "time", "groups": [{"name", "members", "lane"}], "calls": [{"ticket", "sequence",
 * "operation", "group", "bytes", "state", "issued", "entered", "ended"}]}]}, oldest call first. Calls of one
 * lane run one after the other, concurrently with those of other lanes. "ticket" counts the calls of a lane.
 * "sequence" counts the calls of a group and is equal on all its members. "state" is "queued", "running"
 * (entered, waiting for other ranks), "finished" or "failed". Times are seconds since 1970; null: not yet.
 * HWS_FORMAT_TEXT: a table of the last few. An engine of one rank has none. */
HWS_API hws_status hws_engine_flight(const hws_engine* engine, int32_t format, hws_buffer** out);

#ifdef __cplusplus
}
#endif

#endif /* HAWSER_H */
