/* Hawser: trains transformer language models inside your program.
 *
 * This header is the whole public API: C99, only <stddef.h> and <stdint.h>.
 *
 * Conventions
 *  1. Every fallible function returns an int32_t status: HWS_OK (0) or one of the HWS_* codes below; the
 *     text is in the calling thread's last error (hws_error_take).
 *  2. Out-parameters come last and are set to NULL (handles) on error.
 *  3. Handles are opaque numbers in a table (65,536 at a time), never dereferenced: a NULL, destroyed or
 *     foreign handle gets HWS_BAD_HANDLE. `hws_*_create/parse/take/...` hand ownership to the caller; each
 *     has its destroy, which takes NULL gladly and does nothing for a bad handle. A destroy while another
 *     thread is inside a call of the same handle waits for that call; inside a callback it never waits: the
 *     handle is gone at once, the object when the last call ends, and a run whose own callback destroyed
 *     its engine ends as if cancelled. Children keep what they need of their parents alive.
 *  4. A `const` handle allows concurrent calls. Any other call needs the handle for itself: it waits for
 *     the const calls that run, and any second call meanwhile, const ones too, gets HWS_BUSY, never
 *     undefined behaviour. Different handles are independent. hws_engine_metrics, _flight and _cancel work
 *     at any time, the last also in a signal handler. After fork, a child gets HWS_FORKED for engines of
 *     its parent (destroy only forgets them) and may create its own; the same holds for comms.
 *  5. Structs that cross start with `uint32_t struct_size` (set it to sizeof); they only ever grow at the
 *     end. The library reads or writes min(struct_size, its own size) and refuses a non-zero unknown tail
 *     (HWS_ABI_MISMATCH).
 *  6. Strings are UTF-8, NUL-terminated unless a length stands beside them. Buffers returned are hws_buffer
 *     handles.
 *  7. A callback is `fn + user + destroy`; `destroy(user)` (may be NULL) runs exactly once, also when
 *     registration fails. A train or metrics callback may call these functions of its engine, on its own
 *     thread: all with a `const` handle, and hws_data_push, hws_engine_eval, _forward, _generate,
 *     hws_checkpoint_save and _save_async. A token callback may call those with a `const` handle. hws_op_*
 *     work anywhere. A callback must not let an exception out; one that
 *     does ends the call with HWS_CALLBACK. A transport's functions (hws_comm_host) run on threads of the
 *     library and may call nothing of it.
 *  8. The library writes nothing to stdout or stderr, reads no environment variable (but for
 *     hws_comm_create_env and _read_env), installs no signal handler and never ends the process (a file
 *     that may not grow beyond RLIMIT_FSIZE is HWS_IO: no SIGXFSZ comes of it). What it writes takes the
 *     place of no standard descriptor that the host has closed.
 *  9. Tokens and targets are int32, row-major [rows, cols]. targets[t] is what position t predicts (targets
 *     are not shifted again); -100 masks a position.
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

/* -------------------------------------------------------------------------------------------- status codes */

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

/* Handles. */
typedef struct hws_error hws_error;
typedef struct hws_buffer hws_buffer;
typedef struct hws_config hws_config;
typedef struct hws_plan hws_plan;
typedef struct hws_comm hws_comm;
typedef struct hws_engine hws_engine;
typedef struct hws_op hws_op;

/* ------------------------------------------------------------------------------------------------- library */

#define HWS_ABI_VERSION 1

/* ABI number of the library that is loaded; compare it with HWS_ABI_VERSION. Any thread. */
HWS_API uint32_t hws_library_abi(void);
/* "0.1.0". Static storage. */
HWS_API const char* hws_library_version(void);
/* JSON: version, compiler, CPU levels built and available, modules. *out: JSON text. */
HWS_API int32_t hws_library_info(hws_buffer** out);
/* "HWS_CONFIG_INVALID" for a code; "HWS_UNKNOWN" for a number that is none. Static storage. */
HWS_API const char* hws_status_name(int32_t status);

/* -------------------------------------------------------------------------------------------------- errors */

/* Moves the calling thread's last error into an object that any thread may read. *out is NULL (and the status
 * HWS_NOT_FOUND) if there is none. A successful call neither clears nor changes the last error; a failure of
 * this one does not either: after HWS_OUT_OF_MEMORY (no memory for the object, or so many errors that no
 * handle is left) it can be taken later. */
HWS_API int32_t hws_error_take(hws_error** out);
/* HWS_* code; HWS_BAD_HANDLE for a handle that is none. */
HWS_API int32_t hws_error_code(const hws_error* error);
/* What, where, which value, what to do. Lives as long as the handle; "" for a bad handle. */
HWS_API const char* hws_error_message(const hws_error* error);
/* JSON object with what machines want: "pointer", "problems", "file", "offset", "tensor", "argument", ...;
 * "function" where there is nothing else. */
HWS_API const char* hws_error_details(const hws_error* error);
HWS_API void hws_error_destroy(hws_error* error);

/* ------------------------------------------------------------------------------------------------- buffers */

/* Bytes owned by the library. Texts are NUL-terminated beyond their size. NULL and 0 for a bad handle. */
HWS_API const void* hws_buffer_data(const hws_buffer* buffer);
HWS_API size_t hws_buffer_size(const hws_buffer* buffer);
HWS_API void hws_buffer_destroy(hws_buffer* buffer);

/* -------------------------------------------------------------------------------------------------- config */

#define HWS_FORMAT_JSON 0     /* strict JSON, as set */
#define HWS_FORMAT_BINARY 1   /* FlatBuffers, capi/schema/config.fbs; for schema: .bfbs */
#define HWS_FORMAT_RESOLVED 2 /* JSON of every field, after defaults, presets and rules (serialize only) */
#define HWS_FORMAT_TEXT 3     /* for people (reports) */

/* Parses a config: `size` bytes of JSON or FlatBuffers binary. Errors: HWS_CONFIG_PARSE (where it stops being
 * JSON), HWS_CONFIG_INVALID (all unknown keys, wrong types and names at once). */
HWS_API int32_t hws_config_parse(const void* data, size_t size, int32_t format, hws_config** out);
/* A built-in preset as a config of its own, such as "gpt2-124m" or "quickstart". */
HWS_API int32_t hws_config_preset(const char* name, hws_config** out);
/* The config that runs the model of a checkpoint or of a Hugging Face folder: its model section, vocabulary
 * and init.from = path; without data, optimizer and run settings. */
HWS_API int32_t hws_config_from_model(const char* path, hws_config** out);
HWS_API int32_t hws_config_clone(const hws_config* config, hws_config** out);
/* Sets a field, section or array element by JSON pointer ("/model/layers") from a JSON value ("12"); for
 * strings and enums the quotes may be left out. On error the config is unchanged. */
HWS_API int32_t hws_config_set(hws_config* config, const char* pointer, const char* json_value);
/* All problems at once: *out is JSON [{"pointer","message","fix"}], [] when the config is valid. The status
 * is HWS_OK in both cases. Reads the files that init.from and data name. */
HWS_API int32_t hws_config_validate(const hws_config* config, hws_buffer** out);
/* For the field or section at `pointer` ("" for all): value, origin (default, preset, imported, file, set,
 * rule), rule, default, bounds, unit, documentation, as JSON. */
HWS_API int32_t hws_config_explain(const hws_config* config, const char* pointer, hws_buffer** out);
/* Proves that the config's layout of ranks changes no number: shrinks model and batch until it takes seconds,
 * trains `steps` steps (1 to 1000) on the config's own mesh with ranks as threads of this process, and
 * compares losses, raw gradients, weights and moments bit by bit: with one rank that plays all of them in
 * turn, without buckets, shards or communication, and with as many ranks of plain data parallelism that add
 * up in the same order. *out is JSON: {"equal": true or false, "first_difference": null or {"step", "what",
 * "tensor", "index", "ranks", and "one_rank" or "plain"}, "same_bits": {pointer: value} (what to set for
 * plain data parallelism with the same bits), "ranks", "steps", "tensors", "elements" (compared),
 * "distance_to_f64": {"ranks", "ascending", "descending"} (relative, of the first gradients: what orders of
 * summation make), "shrunk": [{"pointer", "from", "to"}]}. The status is HWS_OK in both cases.
 * Errors: as hws_engine_create; HWS_CONFIG_INVALID for a mesh of one rank. Reads the files that init.from
 * names. */
HWS_API int32_t hws_config_prove_layout(const hws_config* config, int32_t steps, hws_buffer** out);
/* The same run on `ranks` ranks: a copy whose mesh has so many and whose steps take the same rows, so that
 * the stream of samples goes on where a checkpoint of the other number left it. Changes /mesh,
 * /batch/micro_batch (never upwards), /batch/grad_accum_steps and, for one rank, /zero/stage. A function of
 * `config` and `ranks` alone: after several changes of size, ask it of the first config. Errors:
 * HWS_CONFIG_INVALID where the rows of a step do not divide (with the nearest numbers of ranks that do), or
 * the config rules the size out. Reads the files that init.from and data name. */
HWS_API int32_t hws_config_fit_ranks(const hws_config* config, int32_t ranks, hws_config** out);
/* HWS_FORMAT_JSON, _BINARY or _RESOLVED. parse(serialize(x)) means the same as x. */
HWS_API int32_t hws_config_serialize(const hws_config* config, int32_t format, hws_buffer** out);
/* JSON Schema (HWS_FORMAT_JSON) or the binary FlatBuffers schema (HWS_FORMAT_BINARY). */
HWS_API int32_t hws_config_schema(int32_t format, hws_buffer** out);
/* JSON array of preset names. */
HWS_API int32_t hws_config_presets(hws_buffer** out);
HWS_API void hws_config_destroy(hws_config* config);

/* ---------------------------------------------------------------------------------------------------- plan */

/* The exact memory and schedule plan of a config, of each rank where its mesh has several: it needs no comm
 * and as many ranks as you like, because all ranks have the same plan. Allocates no tensor. Errors as
 * hws_engine_create, but for memory. */
HWS_API int32_t hws_plan_create(const hws_config* config, hws_plan** out);
/* HWS_FORMAT_TEXT: the instruction list and memory by category for people; HWS_FORMAT_JSON: the same for
 * machines ({"instructions":[...],"memory":{category: bytes},"total_bytes","parameters","flops_per_token",
 * "ranks","strategy","transport_bytes" (what sockets between processes stage),...}). Memory and bytes sent are those of one rank, FLOPs those of the whole. */
HWS_API int32_t hws_plan_report(const hws_plan* plan, int32_t format, hws_buffer** out);
HWS_API void hws_plan_destroy(hws_plan* plan);

/* ---------------------------------------------------------------------------------------------------- comm */

/* A comm stands for the ranks that this process holds and how they reach the others: threads of this process,
 * processes and hosts over TCP, or whatever the host program connects them with. Ranks are numbered from 0.
 * It serves one engine at a time (hws_engine_create_ranks); an engine keeps what it needs of its comm alive,
 * so the handle may be destroyed before the engine. All functions here may be called on any thread.
 *
 * When one rank fails, all do: every call that waits for it returns the same status, with a message that
 * names the rank, at latest comm.timeout_seconds of the config later. Local ranks can be used for a new
 * engine once the engine is destroyed; a comm of the other kinds is used up, in all processes: make new ones.
 *
 * Going on without the lost rank, in the processes that are left (or in new ones): destroy engine and comm;
 * agree who is there (the library does not: a launcher, a scheduler or the host's own means say so) and
 * number them from 0; hws_config_fit_ranks for so many; a new comm, whose `job` counts these meetings, so
 * that nobody left over from an earlier one gets in; a new engine; hws_checkpoint_load_latest. Steps after
 * that checkpoint are done again, with the bits of a run that was stopped there and went on with these ranks.
 * `hawser launch --elastic` does just that.
 */

/* `ranks` ranks as threads of this process. No thread is made before an engine is. Errors:
 * HWS_INVALID_ARGUMENT unless ranks is from 1 to 4,096. */
HWS_API int32_t hws_comm_create_local(int32_t ranks, hws_comm** out);

typedef struct hws_comm_address {
  uint32_t struct_size;
  int32_t rank; /* of this process; each of 0 ... world_size - 1 is taken once */
  int32_t world_size;
  int32_t reserved;    /* 0 */
  const char* address; /* "host:port": where rank 0 listens and all others look for it */
  const char* host;    /* own address, on which this rank listens until all are connected; NULL: the one from
                          which it reaches rank 0 */
  const char* network_interface; /* the same as an interface's name ("eth0"); NULL: as `host` says */
  double timeout_seconds;        /* for all ranks to arrive and connect; 0: 60 */
  double silence_seconds;        /* without a sign of life until a process counts as stopped or cut off; rank
                                    0's counts for all; 0: 10 */
  const char* job; /* what all ranks must have been told alike, such as a job's name and a digest of its
                      config, at most 127 bytes; NULL: "" */
  const char* secret_file; /* holds the job's secret: 32 to 4,096 bytes (a newline at the end is none of
                              them); belongs to this process's user or root, not readable by every user, not
                              writable by others. NULL: no secret, or as `secret` says */
  /* Instead of secret_file: writes at most `capacity` bytes of the secret to `data` and their number to
   * *bytes; non-zero ends the call with HWS_CALLBACK. Called at most once, before the function returns. */
  int32_t (*secret)(void* user, void* data, size_t capacity, size_t* bytes);
  void* secret_user;     /* passed to it */
  int32_t trust_network; /* 1: go on without a secret where an address is not the loopback. 0: refuse that */
  int32_t reserved_too;  /* 0 */
} hws_comm_address;

/* One rank of a job of processes, on one host or many, over TCP: waits until all have come. Every process
 * calls it, in any order.
 *
 * Who may join: with a secret, every connection begins with a mutual proof that both sides know it
 * (HMAC-SHA256 over fresh nonces, rank, world, job and version), before anything else is read; strangers,
 * other jobs, recorded conversations and other versions are turned away while the job goes on. Without one
 * the rest is compared, but nothing is proven; a refusal then says what the refused rank claimed, not what
 * the job is. Nothing listens once all ranks are connected. What this does
 * not do: connections are not encrypted, and not authenticated after their beginning. Who can read or change
 * packets between the hosts can read weights, gradients and data and change them. Use a network of your own,
 * or a tunnel, against that.
 *
 * Signs of life: a process that dies is told to all others at once, one that is stopped or cut off after
 * silence_seconds; calls in all of them then return HWS_UNAVAILABLE and name it. While ranks meet, the same
 * holds for rank 0 (2 s at least); another one that is stopped then is named at the timeout.
 *
 * Errors: HWS_INVALID_ARGUMENT (an address that is none, a rank outside the world or taken twice, world sizes
 * or jobs that differ, a secret of the wrong size), HWS_PERMISSION (this rank does not know the others'
 * secret, or they not its own; a secret's file that every user may read or others may write),
 * HWS_FAILED_PRECONDITION (another address than the loopback with neither secret nor trust_network; fewer
 * descriptors than one for each rank, which says how many are needed: RLIMIT_NOFILE is the host's to raise),
 * HWS_TIMEOUT (names the ranks that did not come), HWS_UNAVAILABLE (an address that cannot be listened on; a
 * process that died meanwhile; for a secret, no libsodium or no hawser-0/libhawser_identity.so, with the path
 * tried), HWS_ABI_MISMATCH (another version). */
HWS_API int32_t hws_comm_create_address(const hws_comm_address* address, hws_comm** out);

/* The same with rank, world and address from the environment variables that a launcher set: torchrun, Open
 * MPI (mpirun), Slurm (srun), PMIx, PMI (MPICH, Intel MPI) or an indexed job of Kubernetes, the innermost if
 * there are several. HAWSER_RANK, HAWSER_WORLD_SIZE, HAWSER_LOCAL_WORLD_SIZE, HAWSER_ADDRESS, HAWSER_PORT,
 * HAWSER_HOST, HAWSER_INTERFACE, HAWSER_JOB, HAWSER_SECRET_FILE and HAWSER_TRUST_NETWORK=1 say it where no
 * launcher does, or otherwise than the launcher. This function and the next are the only ones that read the
 * environment.
 * `wishes` (NULL: none) counts more than variables where its fields are not 0 or NULL; its rank and
 * world_size must be 0, and its job is added to the launcher's. Errors also: HWS_FAILED_PRECONDITION where no
 * launcher is found or it does not say enough (names the missing variable). */
HWS_API int32_t hws_comm_create_env(const hws_comm_address* wishes, hws_comm** out);
/* What hws_comm_create_env would go by, without connecting. JSON: "launcher", "job", "rank", "world_size",
 * "local_world_size" (ranks on this machine; null: unknown), "address", "host", "network_interface",
 * "secret_file", "trust_network", "read" (an array of {"name", "value"}: the variables that had a part). */
HWS_API int32_t hws_comm_read_env(hws_buffer** out);

/* A transport of the host program's: how this process's one rank reaches the others. Between two ranks,
 * messages arrive in the order and with the sizes in which they were sent; none is empty. One thread at a
 * time, not always the same one, calls all functions but abort. A status is HWS_OK or an HWS_* code, such as
 * HWS_TIMEOUT after timeout_seconds and HWS_UNAVAILABLE for a peer that is gone. */
typedef struct hws_comm_host {
  uint32_t struct_size;
  int32_t rank;
  int32_t world_size;
  int32_t reserved; /* 0 */
  void* user;       /* passed to each function */
  /* Sends `bytes` to a rank; may return before they are there. Must not wait for the receiver if bytes <= 512
   * and fewer than two such messages are under way to it (any socket's buffer holds those). Required. */
  int32_t (*send)(void* user, int32_t to_rank, const void* data, int64_t bytes, double timeout_seconds);
  /* Receives exactly `bytes` from a rank. Required. */
  int32_t (*recv)(void* user, int32_t from_rank, void* data, int64_t bytes, double timeout_seconds);
  /* Both with one rank at the same time, for speed. NULL: the lower rank sends first. */
  int32_t (*exchange)(void* user, int32_t rank, const void* out, int64_t out_bytes, void* in,
                      int64_t in_bytes, double timeout_seconds);
  /* This rank has failed: its running and later calls return `code` at once, and its peers' soon. Any thread,
   * also beside a running call. NULL: they return at their timeouts. */
  void (*abort)(void* user, int32_t code, const char* message);
  /* Why the last call failed; valid until the next one. NULL, or a result of NULL or "": a text is made from
   * the status. */
  const char* (*message)(void* user);
  /* Called exactly once, when nothing uses the transport any more, also when hws_comm_create_host fails (but
   * not if `host` itself is NULL, misaligned or has no sensible struct_size, and so cannot be read). On
   * whichever thread is last. NULL: nothing to do. */
  void (*destroy)(void* user);
} hws_comm_host;

/* One rank over a transport of the host's; `host` is copied. Errors: HWS_INVALID_ARGUMENT without send or
 * recv, or for a rank outside the world. */
HWS_API int32_t hws_comm_create_host(const hws_comm_host* host, hws_comm** out);

/* JSON: kind ("local", "address", "env", "host"), world_size, local_ranks (an array); of "env" also
 * "environment", as hws_comm_read_env gave it. */
HWS_API int32_t hws_comm_info(const hws_comm* comm, hws_buffer** out);
HWS_API void hws_comm_destroy(hws_comm* comm);

/* -------------------------------------------------------------------------------------------------- engine */

/* An engine is all ranks that this process holds; one call drives all of them. Results (losses, norms,
 * logits, tokens, tensors) are those of the whole model and the whole global batch, whatever the mesh.
 *
 * Where a comm spans several processes, each of the following is collective: every process calls it, in the
 * same order and with the same arguments, or it fails in all of them:
 *   hws_engine_create_ranks, _train_step, _forward_backward, _commit, _discard, _train, _eval, _forward,
 *   _generate, _export, hws_tensor_get, _set, _statistics, hws_checkpoint_save, _load,
 *   _load_latest.
 * So each process pushes the same global batch, and callbacks of all processes make the same collective
 * calls; a token callback returns the same on all, while a train callback that ends the run in one process
 * ends it in all. A checkpoint's path is one folder that all processes see. hws_engine_cancel is told to all:
 * one call in one process ends train, eval and generate in every one, at the same place. The other functions
 * concern this process alone. */

#define HWS_ENGINE_INFERENCE 1u /* only eval, forward and generate: no gradients, no optimizer state */

/* Builds the model, its memory (one arena of exactly the planned size), threads and data readers; gives
 * weights their initial values or those of init.from. flags: 0 or HWS_ENGINE_INFERENCE. Errors:
 * HWS_CONFIG_INVALID (all problems), HWS_OUT_OF_MEMORY (needed, available, which setting saves how much),
 * HWS_NOT_FOUND, HWS_DATA_INVALID, HWS_CHECKPOINT_*. One rank: a config whose mesh has more needs
 * hws_engine_create_ranks. */
HWS_API int32_t hws_engine_create(const hws_config* config, uint32_t flags, hws_engine** out);
/* The same over all ranks of a comm, arranged as `mesh` of the config says. Collective: returns in each
 * process when all have called it. Processes may differ in the section cpu and in checkpoint.path only.
 * Errors also: HWS_CONFIG_INVALID where the mesh has another number of ranks than the comm, or processes were
 * given different configs (names the first field that differs); HWS_BUSY while another engine uses the comm;
 * HWS_TIMEOUT, HWS_UNAVAILABLE and what made another rank fail. */
HWS_API int32_t hws_engine_create_ranks(const hws_config* config, const hws_comm* comm, uint32_t flags,
                                        hws_engine** out);
/* Waits for a running call, frees everything, ends the engine's threads. Views (hws_tensor_view) keep the
 * arena. */
HWS_API void hws_engine_destroy(hws_engine* engine);
/* JSON: model, parameters, flops_per_token (training, 6 per matmul weight + causal attention), memory by
 * category (of each rank), step, samples, ranks, threads (of each rank), cpu level, steps to go. On GPUs
 * "choices": the algorithms that products took, the same on all ranks: "by" (GPU, libraries, deterministic or
 * any), and for each of "products" its sizes, its algorithm and nanoseconds (0: not timed; see
 * /cuda/algorithm_cache); "apart" names a rank that chose for itself. */
HWS_API int32_t hws_engine_info(const hws_engine* engine, hws_buffer** out);

/* What a batch is made of. The numbers never change while the engine lives. */
typedef struct hws_sizes {
  uint32_t struct_size;
  int32_t reserved;     /* 0 */
  int64_t vocab_size;   /* tokens and targets lie in [0, vocab_size); a target may also be -100 */
  int64_t sequence;     /* columns of a training batch, and the most that eval and forward take */
  int64_t global_batch; /* rows of a training batch, over all ranks and micro-batches */
} hws_sizes;

/* Fills *sizes. A training batch has global_batch rows of `sequence` tokens; the logits of hws_engine_forward
 * have vocab_size columns. Works at any time, on any thread, beside any call, and for inference. Errors:
 * HWS_INVALID_ARGUMENT if sizes is NULL, HWS_ABI_MISMATCH. */
HWS_API int32_t hws_engine_sizes(const hws_engine* engine, hws_sizes* sizes);
/* *rate: the learning rate that the next step will use, from the config's schedule; while a step is pending,
 * the rate of that step. The rate is a function of the config and the number of the step. A host cannot
 * override it on a live engine: to train on with another one, save, change /optimizer or /schedule in the
 * config, create an engine and load. Allowed in callbacks. Errors: HWS_FAILED_PRECONDITION for inference. */
HWS_API int32_t hws_engine_learning_rate(const hws_engine* engine, double* rate);

#define HWS_STEP_ACCEPTED 0
#define HWS_STEP_SKIPPED_NON_FINITE 1 /* loss or gradient norm not finite; only the data cursor moved */
#define HWS_STEP_SKIPPED_OUTLIER 2
#define HWS_STEP_DISCARDED 3
#define HWS_STEP_PENDING 4 /* after hws_engine_forward_backward: waiting for commit or discard */

typedef struct hws_step_result {
  uint32_t struct_size;
  int32_t outcome;      /* HWS_STEP_* */
  int64_t step;         /* number of this step, from 1; skipped and discarded ones count */
  double loss;          /* mean over the unmasked targets of the global batch, nats */
  double grad_norm;     /* of all distinct parameters, before clipping */
  double learning_rate; /* of this step */
  int64_t tokens;       /* unmasked targets */
  int64_t samples;      /* data cursor after the step: rows consumed since the start */
  int64_t skipped;      /* steps skipped or discarded so far */
  double seconds;       /* wall time of the step */
} hws_step_result;

/* One optimizer step on the next global batch (pushed, or from the config's data), with the guard's policy.
 * result may be NULL. Errors: HWS_NUMERIC after guard.max_consecutive_skips skips in a row; HWS_DATA_INVALID;
 * HWS_FAILED_PRECONDITION without data or while a step is pending; HWS_CANCELLED. */
HWS_API int32_t hws_engine_train_step(hws_engine* engine, hws_step_result* result);
/* The first half: gradients of the next global batch, nothing durable changed. Then commit or discard. */
HWS_API int32_t hws_engine_forward_backward(hws_engine* engine, hws_step_result* result);
HWS_API int32_t hws_engine_commit(hws_engine* engine, hws_step_result* result);
/* Drops the gradients. The schedule and the data cursor advance; with `rewind` != 0 neither does, and the
 * same batch comes again (a pushed batch must be pushed again). */
HWS_API int32_t hws_engine_discard(hws_engine* engine, int32_t rewind, hws_step_result* result);

typedef struct hws_train_record {
  uint32_t struct_size;
  int32_t outcome;
  int64_t step;
  double loss;
  double grad_norm;
  double learning_rate;
  int64_t tokens;
  int64_t samples;
  int64_t skipped;
  double seconds;
  double validation_loss;   /* NaN when this step had no validation */
  double tokens_per_second; /* of this step: positions, masked ones too */
  int64_t total_steps;      /* the step at which this run ends */
  int32_t saved;            /* 1: a checkpoint of this step is written as soon as the callback returns (with
                               checkpoint.async: begun then) */
  int32_t best;             /* 1: the lowest validation loss so far */
  int64_t communication_bytes; /* sent in this step by the first rank of this process; 0 with one rank */
  int64_t save_failures; /* checkpoints that this engine could not write so far; hws_engine_metrics has the
                            last one's path and error ("save_error") */
} hws_train_record;

/* Called on the thread that called hws_engine_train, after each step. Non-zero ends the run after this step
 * (HWS_OK). */
typedef int32_t (*hws_train_fn)(void* user, const hws_train_record* record);

/* Trains until step `until_step` (0: train.steps of the config), validating and saving as the config says
 * (train.eval_every, checkpoint.*). If checkpoint.path is set, the last step is saved, too, however the run
 * ends: at until_step, by the callback, cancelled, or by an error that leaves the state of that step whole
 * (bad data; not the loss of a rank). checkpoint.every_seconds saves by time; when, rank 0's clock says for
 * all. The folder is opened first and may be moved meanwhile: checkpoints go where it is by then.
 * fn and destroy may be NULL. Returns HWS_CANCELLED after hws_engine_cancel, at a step boundary, with a
 * state that trains on. A checkpoint that cannot be written ends the run with its error, or, with
 * checkpoint.on_error go_on (the default), is counted and told (save_failures), while training goes on and
 * older checkpoints stay; but the last one of a run is tried once more and must be written, or the run ends
 * with its error. Waits for that one with checkpoint.async too. */
HWS_API int32_t hws_engine_train(hws_engine* engine, int64_t until_step, hws_train_fn fn, void* user,
                                 void (*destroy)(void*));
/* Ends a running train, eval or generate at its next step boundary; if none runs, it ends the next one, or the
 * next hws_engine_train_step, before its first step. Never cuts a step short. A pushed batch that no step has
 * taken keeps waiting (hws_data_push). One atomic store: any thread, any time, signal handlers included, so it
 * sets no last error. */
HWS_API int32_t hws_engine_cancel(const hws_engine* engine);

/* rows x cols tokens with their targets. document_begin (may be NULL: one document per row): for each
 * position the column where its document starts; positions restart there and nothing before it is seen. */
typedef struct hws_batch {
  uint32_t struct_size;
  int32_t reserved;
  int64_t rows;
  int64_t cols;
  const int32_t* tokens;
  const int32_t* targets;
  const int32_t* document_begin;
} hws_batch;

/* Copies one global batch (global_batch rows x `sequence` columns, see hws_engine_sizes) for the next step,
 * which takes it instead of the config's data. A train callback may push: train takes the batch in the step
 * after the callback, so a host that trains on its own tokens pushes the first batch before hws_engine_train
 * and each further one in the callback.
 *
 * A batch waits until a step takes it. hws_engine_cancel does not drop it: a step that has begun ends with its
 * batch, and a batch that waits is taken by the first step after the cancelled call. Evaluating and
 * saving leave it alone; hws_checkpoint_load drops it. A step that fails, is skipped or is discarded has used
 * its batch up.
 *
 * Errors: HWS_DATA_INVALID for ids outside the vocabulary (row, column, id); HWS_INVALID_ARGUMENT for another
 * shape; HWS_BUSY if a batch is waiting already; HWS_FAILED_PRECONDITION for inference and while a step is
 * pending. After an error the batch that waited before still waits. */
HWS_API int32_t hws_data_push(hws_engine* engine, const hws_batch* batch);
/* JSON about the config's data: sources, tokens, samples per epoch, validation, cursor. */
HWS_API int32_t hws_data_info(const hws_engine* engine, hws_buffer** out);

/* Mean loss without gradients: of `batch` (any rows, cols <= batch.sequence), or with NULL of the validation
 * data (at most max_batches global batches, 0: as the config says). *loss: nats per unmasked target; *tokens
 * (may be NULL): unmasked targets. The loss of a model whose numbers are not finite is a NaN or infinite. */
HWS_API int32_t hws_engine_eval(hws_engine* engine, const hws_batch* batch, int64_t max_batches, double* loss,
                                int64_t* tokens);
/* Logits (soft-capped) of each position: logits is f32 [rows, cols, vocab], caller's, rounded to
 * /output_type. batch->targets may be NULL. */
HWS_API int32_t hws_engine_forward(hws_engine* engine, const hws_batch* batch, float* logits,
                                   size_t logits_bytes);

typedef struct hws_generate_request {
  uint32_t struct_size;
  int32_t stop_token; /* ends the text (it is delivered); -1: none */
  const int32_t* prompt;
  int64_t prompt_length; /* at least 1 */
  int64_t max_tokens;
  double temperature; /* 0: greedy */
  int64_t top_k;      /* 0: all */
  double top_p;       /* 1: all */
  uint64_t seed;
} hws_generate_request;

/* Called for each new token, on the calling thread. Non-zero ends the text. */
typedef int32_t (*hws_token_fn)(void* user, int32_t token);

/* Continues the prompt with a KV cache. The model sees the last batch.sequence tokens
 * (default: model.context). Errors: HWS_NUMERIC where the logits are not finite, so that no token follows. */
HWS_API int32_t hws_engine_generate(hws_engine* engine, const hws_generate_request* request, hws_token_fn fn,
                                    void* user, void (*destroy)(void*));

/* Text to tokens (*out: int32 array) and back, for models with a byte or character vocabulary. */
HWS_API int32_t hws_text_encode(const hws_engine* engine, const char* text, size_t size, hws_buffer** out);
HWS_API int32_t hws_text_decode(const hws_engine* engine, const int32_t* tokens, size_t count,
                                hws_buffer** out);

/* ------------------------------------------------------------------------------------------------- tensors */

#define HWS_TENSOR_WEIGHT 0
#define HWS_TENSOR_GRADIENT 1 /* after forward_backward, until commit: unscaled, unclipped */
#define HWS_TENSOR_MOMENT1 2  /* AdamW's m, SGD's momentum buffer */
#define HWS_TENSOR_MOMENT2 3

/* JSON: name, shape, count, Hugging Face name of each parameter. */
HWS_API int32_t hws_tensor_list(const hws_engine* engine, hws_buffer** out);
/* Copies a tensor as f32 under our name or its Hugging Face name (then in that layout). bytes must be 4 x
 * elements. */
HWS_API int32_t hws_tensor_get(const hws_engine* engine, int32_t kind, const char* name, void* data,
                               size_t bytes);
/* Sets weights (both copies) or moments from f32; under precision bf16_pure rounded to the nearest bf16. */
HWS_API int32_t hws_tensor_set(hws_engine* engine, int32_t kind, const char* name, const void* data,
                               size_t bytes);
/* Zero-copy view under our name: *out is a DLManagedTensorVersioned (DLPack 1.0), read-only flag set; call
 * its deleter once, on any thread, also after the engine is gone. Its contents change as training goes on. */
HWS_API int32_t hws_tensor_view(const hws_engine* engine, int32_t kind, const char* name, void** out);
/* JSON per parameter: gradient norm, largest magnitude, non-finite count, of the pending step. */
HWS_API int32_t hws_tensor_statistics(const hws_engine* engine, hws_buffer** out);

/* --------------------------------------------------------------------------------------------- checkpoints */

/* Writes a checkpoint directory that must not exist: whole and durable afterwards, or not there. */
HWS_API int32_t hws_checkpoint_save(hws_engine* engine, const char* path);
/* The same beside training: returns as soon as the state is copied (into memory outside the arena, as much as
 * the plan reports as staging; taken with the engine where its run saves so, else with the first such save,
 * and kept), and threads of the engine, of lower priority, write the copy, the same files byte for byte.
 * *out: how far it is (hws_op_*). While it runs, another save waits for it or gets HWS_BUSY, as
 * checkpoint.when_busy says; hws_checkpoint_load, hws_engine_export and hws_engine_destroy wait. A failure
 * that no hws_op_wait returned is, with checkpoint.on_error stop, the error of the next save, train or
 * train_step call, which then does nothing; it is counted in any case ("save_failures", "save_error" of
 * hws_engine_metrics).
 * Errors: HWS_ALREADY_EXISTS, HWS_OUT_OF_MEMORY for the copy (needed, available), HWS_UNIMPLEMENTED where
 * ranks are in several processes; whatever the file system answers comes through the op. */
HWS_API int32_t hws_checkpoint_save_async(hws_engine* engine, const char* path, hws_op** out);
/* Go on although the data is not what the checkpoint was trained on. A checkpoint holds digests of its data: of
 * all of it up to 4 GiB, of an even sample of more. */
#define HWS_LOAD_OTHER_DATA 1u
/* Restores weights, optimizer, counters and data cursor: training goes on bitwise. Everything is checked
 * before anything changes (each file's digests by one rank of all); should the disk fail after that, the
 * engine does nothing more before another load (HWS_FAILED_PRECONDITION), or, with several ranks, must be
 * made anew (HWS_ABORTED). */
HWS_API int32_t hws_checkpoint_load(hws_engine* engine, const char* path, uint32_t flags);
/* hws_checkpoint_load of the newest checkpoint below `folder` (step-*, best) that is whole. It spares
 * hws_checkpoint_latest, which reads all of it as well. *out: JSON {"name": "step-20", "step": 20, "damaged":
 * [{"name": "step-30", "problem": ".."}]}; damaged are those that were passed over. What is passed over and
 * what is an error: as hws_checkpoint_latest. After HWS_NOT_FOUND, and where all are damaged
 * (HWS_CHECKPOINT_CORRUPT), the engine is as it was. */
HWS_API int32_t hws_checkpoint_load_latest(hws_engine* engine, const char* folder, uint32_t flags,
                                           hws_buffer** out);
/* JSON about a checkpoint directory. */
HWS_API int32_t hws_checkpoint_inspect(const char* path, hws_buffer** out);
/* Checks every digest; HWS_CHECKPOINT_CORRUPT names file, tensor and byte range. */
HWS_API int32_t hws_checkpoint_verify(const char* path);
/* Path of the newest checkpoint below `folder` (step-*, best) that verifies. Damaged ones are passed over,
 * and nothing else: one that cannot be read now, or is of a newer version, is an error that names the file
 * (HWS_IO, HWS_PERMISSION, HWS_CHECKPOINT_INCOMPATIBLE, ...), because it may be whole. HWS_NOT_FOUND if there
 * is none at all, HWS_CHECKPOINT_CORRUPT, with why, if every one is damaged. */
HWS_API int32_t hws_checkpoint_latest(const char* folder, hws_buffer** out);
/* Hugging Face folder -> checkpoint (step 0). ignore_keys: JSON array of config.json keys to accept although
 * unknown, or NULL. */
HWS_API int32_t hws_checkpoint_import(const char* hf_folder, const char* path, const char* ignore_keys);
/* Checkpoint -> Hugging Face folder. dtype: "" or NULL (as imported, else f32), "f32", "bf16", "f16". */
HWS_API int32_t hws_checkpoint_export(const char* path, const char* hf_folder, const char* dtype);
/* The engine's weights -> Hugging Face folder. */
HWS_API int32_t hws_engine_export(const hws_engine* engine, const char* hf_folder, const char* dtype);

/* ---------------------------------------------------------------------------------------------- operations */

/* Something that the library does beside its caller. These functions may be called on any thread at any time,
 * also several at once on one handle, in callbacks, and after the engine is gone. */

/* Waits at most `timeout_seconds` for the end (negative: as long as it takes; 0: not at all). HWS_TIMEOUT: it
 * still runs. Otherwise its own status: HWS_OK, HWS_CANCELLED, or what it failed with. */
HWS_API int32_t hws_op_wait(const hws_op* op, double timeout_seconds);
/* *ended: 1 when it has ended, well or not, else 0. */
HWS_API int32_t hws_op_poll(const hws_op* op, int32_t* ended);
/* Bytes of tensors written so far, and in all. Either may be NULL. All are written a little before the end:
 * then they are made durable. */
HWS_API int32_t hws_op_progress(const hws_op* op, int64_t* done_bytes, int64_t* total_bytes);
/* Wishes that it end: nothing of it is left then, and its status is HWS_CANCELLED, unless it was just ending.
 * Does not wait. */
HWS_API int32_t hws_op_cancel(const hws_op* op);
/* Forgets the operation, which goes on. Waits for an hws_op_wait on another thread. */
HWS_API void hws_op_destroy(hws_op* op);

/* -------------------------------------------------------------------------------------- devices, telemetry */

/* JSON array of devices: the CPU (name, kind, threads, available memory, level), then those of the CUDA
 * module, which this opens (name, kind, index, memory), or one entry that says why there are none
 * ("unavailable"). */
HWS_API int32_t hws_device_list(hws_buffer** out);
/* Measures matrix-product peaks (GFLOP/s, fp32 and bf16) and memory bandwidth (GB/s) of the CPU with
 * `threads` threads (0: default) for about `seconds` (0: 0.5). JSON. */
HWS_API int32_t hws_device_measure(int32_t threads, double seconds, hws_buffer** out);
/* The peak of matrix products alone, in operations a second, to hold a run's speed against: of `precision`
 * "fp32" or "bf16", with `threads` threads of the CPU (0: default), in about `seconds` (0: 0.1). Takes about
 * 10 MB of memory. Blocks; any thread. */
HWS_API int32_t hws_device_peak(int32_t threads, const char* precision, double seconds, double* flops);

/* Called after each step with a JSON object of `size` bytes (NUL-terminated), on the thread that trains. */
typedef void (*hws_metrics_fn)(void* user, const char* json, size_t size);
/* fn NULL: no callback any more. The one before is destroyed. */
HWS_API int32_t hws_engine_set_metrics(hws_engine* engine, hws_metrics_fn fn, void* user,
                                       void (*destroy)(void*));
/* The same object on demand: the last step, and what one rank of this process sent in it ("communication", by
 * process group and operation: "calls", "bytes", which are the payload that the plan counts, and
 * "wire_bytes", which are what this process gave its sockets or the host's transport, headers and padding
 * included; 0 between threads) and since the engine was made ("communication_total"). */
HWS_API int32_t hws_engine_metrics(const hws_engine* engine, hws_buffer** out);

#define HWS_TRACE_OFF 0          /* nothing is noted, at no cost */
#define HWS_TRACE_INSTRUCTIONS 1 /* when each instruction of a step begins and ends */
#define HWS_TRACE_KERNELS 2      /* and every kernel call in them */
/* From the next step on, on every rank of this process; what was noted before is dropped. Meanwhile a GPU is
 * given step by step what it is given as graphs otherwise (/cuda/graphs): the host's share of a step is
 * larger. HWS_FAILED_PRECONDITION for inference and while a step is pending. */
HWS_API int32_t hws_engine_set_trace(hws_engine* engine, int32_t detail);
/* The last step. HWS_FORMAT_JSON: trace events, which Perfetto and chrome://tracing show: a process per rank,
 * a thread per stream (compute, communication), microseconds; in "otherData" per rank how much of the
 * communication was hidden. HWS_FORMAT_TEXT: that alone, as a table. HWS_FAILED_PRECONDITION if no step was
 * traced. */
HWS_API int32_t hws_engine_trace(const hws_engine* engine, int32_t format, hws_buffer** out);
/* Where the time of steps went since HWS_TRACE_KERNELS was set; the first step, which warms up, is left out
 * as soon as there is another. HWS_FORMAT_JSON: {"ranks": [{"rank", "steps", "seconds", "waited_seconds",
 * "communication": {"calls", "seconds", "bytes"}, "kernels": [{"kernel", "type", "calls", "seconds", "flops",
 * "bytes"}]}]}, slowest kernel first; a matmul (also "matmul_gelu" and others that take along what
 * follows) is listed by shape ("m", "n", "k", "a_transposed", "b_transposed"), flops are those of matrix
 * products and attention, bytes those of operands, each read or written once. HWS_FORMAT_TEXT: the same as a
 * table. HWS_FAILED_PRECONDITION if no step was profiled. */
HWS_API int32_t hws_engine_profile(const hws_engine* engine, int32_t format, hws_buffer** out);
/* What the ranks of this process said to others last: up to 2,048 calls of each, whatever became of them,
 * noted always and at no cost worth naming. Works at any time, also beside a call that does not return and
 * after an error; on any thread. HWS_FORMAT_JSON: {"ranks": [{"rank", "world_size", "time", "groups":
 * [{"name", "members", "lane"}], "calls": [{"ticket", "sequence", "operation", "group", "bytes", "state",
 * "issued", "entered", "ended"}]}]}, oldest call first; "ticket" counts in the lane (calls of one lane run one
 * after the other, beside those of others), "sequence" in the group, where it is the same on all members;
 * state is "queued", "running" (entered, waiting for others), "finished" or "failed"; times are
 * seconds since 1970, null for what has not happened. HWS_FORMAT_TEXT: a table of the last few. No ranks for
 * an engine of one. */
HWS_API int32_t hws_engine_flight(const hws_engine* engine, int32_t format, hws_buffer** out);

#ifdef __cplusplus
}
#endif

#endif /* HAWSER_H */
