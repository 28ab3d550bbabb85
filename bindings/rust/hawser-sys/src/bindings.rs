// Made by generate.sh from hawser.h. Do not edit.

pub const HWS_OK: i32 = 0;
pub const HWS_CANCELLED: i32 = 1;
pub const HWS_UNKNOWN: i32 = 2;
pub const HWS_INVALID_ARGUMENT: i32 = 3;
pub const HWS_TIMEOUT: i32 = 4;
pub const HWS_NOT_FOUND: i32 = 5;
pub const HWS_ALREADY_EXISTS: i32 = 6;
pub const HWS_PERMISSION: i32 = 7;
pub const HWS_OUT_OF_MEMORY: i32 = 8;
pub const HWS_FAILED_PRECONDITION: i32 = 9;
pub const HWS_ABORTED: i32 = 10;
pub const HWS_OUT_OF_RANGE: i32 = 11;
pub const HWS_UNIMPLEMENTED: i32 = 12;
pub const HWS_INTERNAL: i32 = 13;
pub const HWS_UNAVAILABLE: i32 = 14;
pub const HWS_DATA_LOSS: i32 = 15;
pub const HWS_IO: i32 = 16;
pub const HWS_CONFIG_PARSE: i32 = 20;
pub const HWS_CONFIG_INVALID: i32 = 21;
pub const HWS_DEVICE_UNAVAILABLE: i32 = 30;
pub const HWS_CHECKPOINT_CORRUPT: i32 = 50;
pub const HWS_CHECKPOINT_INCOMPATIBLE: i32 = 51;
pub const HWS_NUMERIC: i32 = 60;
pub const HWS_DATA_INVALID: i32 = 61;
pub const HWS_BUSY: i32 = 70;
pub const HWS_FORKED: i32 = 71;
pub const HWS_BAD_HANDLE: i32 = 72;
pub const HWS_ABI_MISMATCH: i32 = 73;
pub const HWS_CALLBACK: i32 = 74;
pub const HWS_ABI_VERSION: i32 = 1;
pub const HWS_FORMAT_JSON: i32 = 0;
pub const HWS_FORMAT_BINARY: i32 = 1;
pub const HWS_FORMAT_RESOLVED: i32 = 2;
pub const HWS_FORMAT_TEXT: i32 = 3;
pub const HWS_FORMAT_SVG: i32 = 4;
pub const HWS_ENGINE_INFERENCE: i32 = 1;
pub const HWS_STEP_ACCEPTED: i32 = 0;
pub const HWS_STEP_SKIPPED_NON_FINITE: i32 = 1;
pub const HWS_STEP_SKIPPED_OUTLIER: i32 = 2;
pub const HWS_STEP_DISCARDED: i32 = 3;
pub const HWS_STEP_PENDING: i32 = 4;
pub const HWS_STEP_SKIPPED_OVERFLOW: i32 = 5;
pub const HWS_STEP_REWOUND: i32 = 6;
pub const HWS_SOURCE_END: i32 = 1;
pub const HWS_TEXT_ADD_SPECIAL: i32 = 1;
pub const HWS_TEXT_SKIP_SPECIAL: i32 = 2;
pub const HWS_TEXT_WHOLE: i32 = 4;
pub const HWS_TENSOR_WEIGHT: i32 = 0;
pub const HWS_TENSOR_GRADIENT: i32 = 1;
pub const HWS_TENSOR_MOMENT1: i32 = 2;
pub const HWS_TENSOR_MOMENT2: i32 = 3;
pub const HWS_TENSOR_AVERAGE: i32 = 4;
pub const HWS_LOAD_OTHER_DATA: i32 = 1;
pub const HWS_PHASE_IDLE: i32 = 0;
pub const HWS_PHASE_TRAIN: i32 = 1;
pub const HWS_PHASE_EVAL: i32 = 2;
pub const HWS_PHASE_GENERATE: i32 = 3;
pub const HWS_PHASE_SAVE: i32 = 4;
pub const HWS_PHASE_LOAD: i32 = 5;
pub const HWS_TRACE_OFF: i32 = 0;
pub const HWS_TRACE_INSTRUCTIONS: i32 = 1;
pub const HWS_TRACE_KERNELS: i32 = 2;
pub type __int32_t = ::core::ffi::c_int;
pub type __uint32_t = ::core::ffi::c_uint;
pub type __int64_t = ::core::ffi::c_long;
pub type __uint64_t = ::core::ffi::c_ulong;
#[doc = " One of the codes above."]
pub type hws_status = i32;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_error {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_buffer {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_config {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_plan {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_comm {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_engine {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_op {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_tokenizer {
    _unused: [u8; 0],
}
extern "C" {
    #[doc = " The ABI number of the loaded library. Compare it with HWS_ABI_VERSION, the number of this header."]
    pub fn hws_library_abi() -> u32;
}
extern "C" {
    #[doc = " The version as text, \"0.1.0\". Static storage."]
    pub fn hws_library_version() -> *const ::core::ffi::c_char;
}
extern "C" {
    #[doc = " *out: a JSON object with the version, the compiler, the CPU level (set of vector instructions) that this"]
    #[doc = " machine uses, and the modules that could be opened: \"cpu\", \"text\", \"cuda\", \"identity\"."]
    pub fn hws_library_info(out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " The name of a code, such as \"HWS_CONFIG_INVALID\"; \"HWS_UNKNOWN\" for any other number. Static storage."]
    pub fn hws_status_name(status: hws_status) -> *const ::core::ffi::c_char;
}
#[doc = " Called on the thread that made a long call, while that call runs. Non-zero ends the call."]
pub type hws_interrupt_fn =
    ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void) -> i32>;
extern "C" {
    #[doc = " Sets the interrupt poll of the calling thread; NULL: none. Use it if signals of the program, or interrupts"]
    #[doc = " of a runtime, should be able to end a long call."]
    #[doc = ""]
    #[doc = " While one of the following calls runs on this thread, it calls the poll at most every 20 ms. If the poll"]
    #[doc = " returns a number other than 0, the call ends with HWS_CANCELLED: hws_engine_train, _eval and _generate as"]
    #[doc = " by hws_engine_cancel; hws_checkpoint_verify, _load, _load_latest, _latest and _average while they check"]
    #[doc = " digests (a load has changed nothing then); hws_engine_create, hws_checkpoint_import and _export while"]
    #[doc = " they read weights, and hws_engine_create while it computes the log-probabilities of a reference or"]
    #[doc = " teacher; hws_tokenizer_encode, _render and _train; hws_config_prove_layout; hws_device_measure and _peak;"]
    #[doc = " hws_data_prepare. A step, a save or a transfer is never cut short."]
    #[doc = ""]
    #[doc = " The poll may call the functions that work at any time. It must not throw; if it does, the call ends as"]
    #[doc = " well. It may set another poll. destroy(user) runs when another poll is set, but not before this poll has"]
    #[doc = " returned, or when the thread ends."]
    pub fn hws_thread_set_interrupt(
        callback: hws_interrupt_fn,
        user: *mut ::core::ffi::c_void,
        destroy: ::core::option::Option<unsafe extern "C" fn(arg1: *mut ::core::ffi::c_void)>,
    ) -> hws_status;
}
#[doc = " Called on the thread that made a long call, while that call runs, with a JSON object of `size` bytes,"]
#[doc = " NUL-terminated and valid during the call: {\"phase\", \"done\", \"total\"}. Non-zero ends the call."]
pub type hws_progress_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        json: *const ::core::ffi::c_char,
        size: usize,
    ) -> i32,
>;
extern "C" {
    #[doc = " Sets the progress callback of the calling thread; NULL: none. It shows the progress of calls that have no"]
    #[doc = " engine yet, whose hws_engine_progress could show it."]
    #[doc = ""]
    #[doc = " hws_engine_create, _create_ranks and _create_on call it while they compute the log-probabilities of the"]
    #[doc = " reference of /objective, or the rows of a teacher (/teacher/from): \"phase\" is \"references\" or \"teacher\","]
    #[doc = " \"done\" and \"total\" count rows of the data. They call it at the start and the end of the phase, and at"]
    #[doc = " most ten times a second in between. If it returns a number other than 0, the call ends with"]
    #[doc = " HWS_CANCELLED; among several processes, in all of them. Later versions may add phases."]
    #[doc = ""]
    #[doc = " It may call the functions that work at any time, and hws_thread_set_interrupt and hws_thread_set_progress."]
    #[doc = " destroy(user) runs when another callback is set, but not before this one has returned, or when the thread"]
    #[doc = " ends."]
    pub fn hws_thread_set_progress(
        callback: hws_progress_fn,
        user: *mut ::core::ffi::c_void,
        destroy: ::core::option::Option<unsafe extern "C" fn(arg1: *mut ::core::ffi::c_void)>,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Moves the calling thread's last error into an object that any thread may read. A call that succeeds does"]
    #[doc = " not change the last error, so take it only after a call has failed. Errors: HWS_NOT_FOUND if there is none."]
    #[doc = " If this call itself fails, with HWS_OUT_OF_MEMORY, the error stays and can be taken later."]
    pub fn hws_error_take(out: *mut *mut hws_error) -> hws_status;
}
extern "C" {
    #[doc = " The HWS_* code; HWS_BAD_HANDLE for a bad handle."]
    pub fn hws_error_code(error: *const hws_error) -> hws_status;
}
extern "C" {
    #[doc = " The message: the problem, the place, the value and the remedy. Valid until the handle is destroyed; \"\" for"]
    #[doc = " a bad handle."]
    pub fn hws_error_message(error: *const hws_error) -> *const ::core::ffi::c_char;
}
extern "C" {
    #[doc = " A JSON object for programs. It has \"pointer\", \"problems\", \"file\", \"offset\", \"tensor\", \"argument\" and other"]
    #[doc = " keys as they apply, or only \"function\". Valid until the handle is destroyed; \"\" for a bad handle."]
    pub fn hws_error_details(error: *const hws_error) -> *const ::core::ffi::c_char;
}
extern "C" {
    pub fn hws_error_destroy(error: *mut hws_error);
}
extern "C" {
    #[doc = " Bytes that the library owns. They are valid until the buffer is destroyed, and aligned for every element"]
    #[doc = " type. A text has a NUL after its last byte, which its size does not count. A bad handle gives NULL and 0."]
    pub fn hws_buffer_data(buffer: *const hws_buffer) -> *const ::core::ffi::c_void;
}
extern "C" {
    pub fn hws_buffer_size(buffer: *const hws_buffer) -> usize;
}
extern "C" {
    pub fn hws_buffer_destroy(buffer: *mut hws_buffer);
}
extern "C" {
    #[doc = " Parses a config from `size` bytes. format: HWS_FORMAT_JSON or HWS_FORMAT_BINARY. Errors: HWS_CONFIG_PARSE"]
    #[doc = " (where the text stops being JSON), HWS_CONFIG_INVALID (every unknown key, wrong type and wrong name at"]
    #[doc = " once)."]
    pub fn hws_config_parse(
        data: *const ::core::ffi::c_void,
        size: usize,
        format: i32,
        out: *mut *mut hws_config,
    ) -> hws_status;
}
extern "C" {
    #[doc = " A built-in preset, such as \"gpt2-124m\" or \"quickstart\", as a separate config. Errors: HWS_NOT_FOUND."]
    pub fn hws_config_preset(name: *const ::core::ffi::c_char, out: *mut *mut hws_config) -> hws_status;
}
extern "C" {
    #[doc = " The config of the model in a checkpoint or a Hugging Face folder: its model section, its vocabulary and"]
    #[doc = " init.from = path. Data, optimizer and run settings are left to the caller."]
    pub fn hws_config_from_model(path: *const ::core::ffi::c_char, out: *mut *mut hws_config) -> hws_status;
}
extern "C" {
    pub fn hws_config_clone(config: *const hws_config, out: *mut *mut hws_config) -> hws_status;
}
extern "C" {
    #[doc = " Sets a field, a section or an array element. pointer: a JSON pointer (\"/model/layers\"). json_value: a JSON"]
    #[doc = " value (\"12\"); the quotes of a string or an enum may be omitted. On error the config is unchanged."]
    pub fn hws_config_set(
        config: *mut hws_config,
        pointer: *const ::core::ffi::c_char,
        json_value: *const ::core::ffi::c_char,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Checks a config and the files that init.from and data name. *out: a JSON array of all problems,"]
    #[doc = " [{\"pointer\",\"message\",\"fix\"}]; [] for a valid config. Returns HWS_OK in both cases."]
    pub fn hws_config_validate(config: *const hws_config, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " Explains why a field has its value. pointer: a field, a section, or \"\" for all. *out: JSON with value,"]
    #[doc = " origin (default, preset, imported, file, set, rule), rule, default, bounds, unit and documentation."]
    pub fn hws_config_explain(
        config: *const hws_config,
        pointer: *const ::core::ffi::c_char,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Proves that the config's layout of ranks changes no number. It shrinks model and batch until training"]
    #[doc = " takes seconds; the proof holds for the config with these changes, which \"shrunk\" lists. The number of"]
    #[doc = " stages, the sizes of their chunks up to a few layers, shared tables, and whether ranks pad the vocabulary,"]
    #[doc = " do not change. It then trains `steps` steps (1 to 1,000) three times: on the config's own mesh, with ranks"]
    #[doc = " as threads of this process; with one rank that replays all of them serially, without buckets, shards or"]
    #[doc = " communication; and with as many ranks of plain data parallelism, which add in the same order. Losses, raw"]
    #[doc = " gradients, weights and moments must be equal bit by bit."]
    #[doc = ""]
    #[doc = " Tensor- and context-parallel ranks add in a different order from one rank. Their results must have the bits"]
    #[doc = " of plain data parallelism at the same /mesh/tp, cp and cp_mode. Their distance to one rank is limited, for"]
    #[doc = " each gradient of the first step: to twice the distance of a permuted model (the same model with its heads,"]
    #[doc = " features and vocabulary in another order), or to three times the distance of one rank from a model in"]
    #[doc = " float64 if that is more. And no gradient may be more than twice as far from that of the float64 model as"]
    #[doc = " the gradient of one rank is."]
    #[doc = ""]
    #[doc = " *out: a JSON object. Returns HWS_OK whether or not the results are equal."]
    #[doc = "   \"equal\"               true or false"]
    #[doc = "   \"first_difference\"    null, or {\"step\", \"what\", \"tensor\", \"index\", \"ranks\", and \"one_rank\", \"plain\" or"]
    #[doc = "                         \"gradients\": the norm of the gradients as read, which must equal that of each step}"]
    #[doc = "   \"same_bits\"           {pointer: value}: the settings with which plain data parallelism has the same bits"]
    #[doc = "   \"ranks\", \"steps\""]
    #[doc = "   \"tensors\", \"elements\" numbers of those compared"]
    #[doc = "   \"grad_norms\"          one for each step"]
    #[doc = "   \"clipped_steps\"       number of steps in which clipping changed the gradients"]
    #[doc = "   \"distance_to_f64\"     {\"ranks\", \"ascending\", \"descending\"}: relative distance of the first gradients from"]
    #[doc = "                         float64, in three orders of summation"]
    #[doc = "   \"distance_to_one_rank\" null, or under tensor or context parallelism {\"tensor\", \"distance\", \"allowed\","]
    #[doc = "                         \"share_of_allowed\"} of the gradient that comes closest to its limit"]
    #[doc = "   \"distance_to_f64_model\" likewise, for the distance to gradients computed in float64"]
    #[doc = "   \"choices_of_experts\"  null, or for experts under tensor or context parallelism {\"least_margin\", \"moved\"}:"]
    #[doc = "                         the narrowest choice in float64, relative to its score, and the number of choices"]
    #[doc = "                         of the first step that differ from those of one rank. Rounding decides near ties;"]
    #[doc = "                         then gradients differ by more than is allowed"]
    #[doc = "   \"shrunk\"              [{\"pointer\", \"from\", \"to\"}]"]
    #[doc = " Errors: those of hws_engine_create; HWS_CONFIG_INVALID for a mesh of one rank."]
    pub fn hws_config_prove_layout(
        config: *const hws_config,
        steps: i32,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Adapts a config to another number of ranks, for the same run. *out: a copy of the config with `ranks`"]
    #[doc = " ranks in its mesh and the same rows in a step, so that the stream of samples continues where a checkpoint"]
    #[doc = " of the other run left it. Changes /mesh/dp_replicate and dp_shard (pp, cp and tp stay, so `ranks` must be a"]
    #[doc = " multiple of their product), /batch/micro_batch (never upwards), /batch/grad_accum_steps and, if nothing is"]
    #[doc = " left to shard over, /zero/stage. The result depends only on `config` and `ranks`, so after several changes"]
    #[doc = " of size, pass the first config. Reads the files that init.from and data name. Errors: HWS_CONFIG_INVALID if"]
    #[doc = " the rows of a step do not divide (the text names the nearest numbers of ranks for which they do) or the"]
    #[doc = " config forbids that size."]
    pub fn hws_config_fit_ranks(
        config: *const hws_config,
        ranks: i32,
        out: *mut *mut hws_config,
    ) -> hws_status;
}
extern "C" {
    #[doc = " format: HWS_FORMAT_JSON, _BINARY or _RESOLVED. Parsing the result gives an equal config."]
    pub fn hws_config_serialize(
        config: *const hws_config,
        format: i32,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " *out: the JSON Schema of a config (HWS_FORMAT_JSON) or the binary FlatBuffers schema"]
    #[doc = " (HWS_FORMAT_BINARY)."]
    pub fn hws_config_schema(format: i32, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " *out: a JSON array of the names of presets."]
    pub fn hws_config_presets(out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    pub fn hws_config_destroy(config: *mut hws_config);
}
extern "C" {
    #[doc = " The exact schedule and memory of a config, computed without allocating a tensor. All ranks share one plan,"]
    #[doc = " so it needs no comm, and the mesh may be of any size. Errors: those of hws_engine_create, except for"]
    #[doc = " memory."]
    pub fn hws_plan_create(config: *const hws_config, out: *mut *mut hws_plan) -> hws_status;
}
extern "C" {
    #[doc = " The plan of a config for devices that this machine need not have, with a prediction of how long a step"]
    #[doc = " takes there. `cluster`: the text of a cluster file (engine/cluster/README.md), or the name of one in the"]
    #[doc = " library: \"a100-80\", \"h100-80\", \"h200-141\". A config that names no /device gets the cluster's. `tokens`:"]
    #[doc = " the tokens of a whole run, for which the report also predicts the days; 0: no prediction of a run."]
    #[doc = " `imbalance`: if ranks divide experts (/mesh/ep), the number of rows for the experts of the busiest rank,"]
    #[doc = " divided by the mean over all ranks; 1: balanced. Above 1, the report predicts the busiest rank, for which"]
    #[doc = " the others wait. No device is opened, and the result is the same on every machine."]
    #[doc = ""]
    #[doc = " Instead of instructions and slots, the report has \"foretold\": {\"cluster\",\"seconds\",\"tokens_per_second\","]
    #[doc = " \"mfu\",\"bubble_share\",\"mean_seconds\": {\"computing\",\"exposed\": {group: seconds},\"copies\",\"bubble\"},\"stages\":"]
    #[doc = " [{\"stage\",\"device_bytes\",\"free_bytes\",\"memory\",\"seconds\"}],\"sent\": [{\"group\",\"operation\",\"hop\",\"bytes\":"]
    #[doc = " {level: bytes}}],\"run\": {\"tokens\",\"steps\",\"days\",\"device_hours\"},\"imbalance\",\"not_hawser\",\"not_modelled\":"]
    #[doc = " [...], \"bounds\"}. Each row of \"work\" also has the \"seconds\" of its kernels, without launches, and what"]
    #[doc = " they are \"bound_by\": \"arithmetic\" or \"memory\". `not_hawser` is the name of the trainer that the cluster's"]
    #[doc = " `stack` describes. `exposed` has the seconds in which a stage waits for data that is on its way; the"]
    #[doc = " seconds of a stage add up to those of the step. `sent` lists what one rank of the first stage sends. The"]
    #[doc = " workspaces of a GPU's libraries are upper bounds; bytes are exact only for devices of this machine."]
    #[doc = ""]
    #[doc = " Errors: HWS_INVALID_ARGUMENT for `tokens` below 0, for an `imbalance` below 1 or, if the model has no"]
    #[doc = " experts, above 1, and for a cluster with fields that are missing, unknown or out of range: the message"]
    #[doc = " names all of them, and {\"problems\": [{\"pointer\",\"message\",\"fix\"}]} are the details; HWS_NOT_FOUND for"]
    #[doc = " an unknown name; those of hws_plan_create."]
    pub fn hws_plan_create_on(
        config: *const hws_config,
        cluster: *const ::core::ffi::c_char,
        tokens: f64,
        imbalance: f64,
        out: *mut *mut hws_plan,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Searches for the fastest layouts of a config on a cluster, at the global batch of the config. The search"]
    #[doc = " varies the degrees of /mesh, /pipeline/schedule and chunks, /batch/micro_batch, /zero/stage and"]
    #[doc = " /recompute/policy. Around the best layouts, it also varies /zero/reduce, prefetch and"]
    #[doc = " reshard_after_forward, /recompute, /offload and /pipeline/layers. Fields that the config sets stay as"]
    #[doc = " they are. `cluster`: as for hws_plan_create_on. `ranks`: the number of devices; 0: those of the cluster,"]
    #[doc = " or else of the config's mesh. `top`: the number of layouts, 1 to 1000. `imbalance`: as for"]
    #[doc = " hws_plan_create_on."]
    #[doc = ""]
    #[doc = " The report is {\"cluster\",\"ranks\",\"global_batch\",\"layouts\": [{\"fields\": a config with the fields to set,"]
    #[doc = " \"seconds\",\"tokens_per_second\",\"mfu\",\"bubble_share\",\"exposed_seconds\": {group: seconds},\"fullest_stage\":"]
    #[doc = " {\"stage\",\"device_bytes\",\"free_bytes\",\"memory\"}}],\"why\": [{\"field\",\"value\",\"others\": [{\"value\",\"seconds\","]
    #[doc = " \"least_seconds\",\"fits\",\"note\"}]}],\"considered\",\"refused\",\"does_not_fit\": {reason: layouts},\"fits_with\":"]
    #[doc = " {change: layouts},\"slower\",\"forecasts\",\"varied\",\"not_tried\",\"not_tried_seconds\"}. The fastest layout comes"]
    #[doc = " first; of equally fast layouts, the simpler one. `why` has, for each field of the fastest layout, the"]
    #[doc = " fastest layouts with other values: their `seconds`, or `least_seconds` if they were not simulated; `fits`"]
    #[doc = " is false if none fits. `fits_with` counts the layouts that do not fit, by the change that would make their"]
    #[doc = " least bytes fit. `varied` is the number of `forecasts` made around the best layouts. `not_tried` layouts"]
    #[doc = " were not simulated, because the number and size of simulations are limited; each takes at least"]
    #[doc = " `not_tried_seconds`. The result is the same on every machine."]
    #[doc = ""]
    #[doc = " Errors: HWS_CONFIG_INVALID if no mesh has that many ranks or none divides the global batch, with the"]
    #[doc = " nearest number that works, and if the rules of configs refuse every layout; HWS_OUT_OF_MEMORY if the model"]
    #[doc = " fits in no layout, with the least bytes; those of hws_plan_create_on."]
    pub fn hws_plan_search(
        config: *const hws_config,
        cluster: *const ::core::ffi::c_char,
        ranks: i64,
        top: i32,
        imbalance: f64,
        out: *mut *mut hws_plan,
    ) -> hws_status;
}
extern "C" {
    #[doc = " HWS_FORMAT_TEXT: the list of instructions, memory by category, and the calls of kernels in a step."]
    #[doc = " HWS_FORMAT_JSON: the same as {\"instructions\":[...],\"memory\":{category: bytes},\"work\":[...],\"total_bytes\","]
    #[doc = " \"parameters\",\"flops_per_token\",\"ranks\",\"strategy\",\"transport_bytes\",\"fits\",\"hugging_face\",...}. work is a"]
    #[doc = " list of {\"kernel\",\"type\",\"m\",\"n\",\"k\",\"calls\",\"flops\",\"bytes\"}, the sums over one step of the first rank of"]
    #[doc = " the first stage by kernel and shape, as hws_engine_profile counts them in a real step; where ranks divide"]
    #[doc = " experts, it counts as many rows as there is room for. transport_bytes is the size of a rank's buffers for"]
    #[doc = " other processes, with its half of the memory that it shares with them; fits states whether one rank and"]
    #[doc = " all ranks fit this machine now; hugging_face is the name that Transformers has for the model, or \"none"]
    #[doc = " (...)\" and the reason. Memory and bytes sent are those of one rank, FLOPs those of the complete model."]
    pub fn hws_plan_report(plan: *const hws_plan, format: i32, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " *out: the predicted step of a plan that hws_plan_create_on made, in the formats of hws_engine_trace, so"]
    #[doc = " that the two can be compared. It has one rank per pipeline stage, because the prediction is the same for"]
    #[doc = " all ranks of a stage. \"otherData\" has \"cluster\", \"predicted\": true and \"seconds\" in place of \"step\"."]
    #[doc = " Errors: HWS_FAILED_PRECONDITION for a plan that predicts no step."]
    pub fn hws_plan_trace(plan: *const hws_plan, format: i32, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    pub fn hws_plan_destroy(plan: *mut hws_plan);
}
extern "C" {
    #[doc = " `ranks` ranks (1 to 4,096) as threads of this process. The threads start with an engine."]
    pub fn hws_comm_create_local(ranks: i32, out: *mut *mut hws_comm) -> hws_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_comm_address {
    pub struct_size: u32,
    #[doc = "< of this process; each of 0 ... world_size - 1 is taken once"]
    pub rank: i32,
    pub world_size: i32,
    #[doc = "< 0"]
    pub reserved: i32,
    #[doc = "< \"host:port\": where rank 0 listens and all others connect"]
    pub address: *const ::core::ffi::c_char,
    #[doc = "< the address on which this rank listens until all are connected; NULL: the one from"]
    #[doc = "which it reaches rank 0"]
    pub host: *const ::core::ffi::c_char,
    #[doc = "< `host` by the name of an interface (\"eth0\"); NULL: `host` applies"]
    pub network_interface: *const ::core::ffi::c_char,
    #[doc = "< time limit for all ranks to connect; 0: 60"]
    pub timeout_seconds: f64,
    #[doc = "< a process without a heartbeat for this long counts as stopped or cut"]
    #[doc = "off; rank 0's value applies to all; 0: 10"]
    pub silence_seconds: f64,
    #[doc = "< at most 127 bytes that must be equal on all ranks, such as the name of the job and a"]
    #[doc = "digest of its config; NULL: \"\""]
    pub job: *const ::core::ffi::c_char,
    #[doc = "< holds the job's secret: 32 to 4,096 bytes, without the newline at the end."]
    #[doc = "It must belong to this process's user or root, must not be readable by every"]
    #[doc = "user nor writable by others. NULL: no secret, or the one of `secret`"]
    pub secret_file: *const ::core::ffi::c_char,
    #[doc = " An alternative to secret_file: writes at most `capacity` bytes of the secret to `data`, and their number"]
    #[doc = " to *bytes. Non-zero ends the call with HWS_CALLBACK. Called at most once, before the function returns."]
    pub secret: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            data: *mut ::core::ffi::c_void,
            capacity: usize,
            bytes: *mut usize,
        ) -> i32,
    >,
    #[doc = "< passed to `secret` and `secret_destroy`"]
    pub secret_user: *mut ::core::ffi::c_void,
    #[doc = " Called with secret_user exactly once, before the function returns, also if the function fails, unless it"]
    #[doc = " could not read the struct at all (as hws_comm_host.destroy). NULL: nothing to do."]
    pub secret_destroy: ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void)>,
    #[doc = "< 1: allow an address beyond the loopback without a secret. 0: refuse it"]
    pub trust_network: i32,
    #[doc = "< 0: processes on one machine exchange data through shared memory, all others"]
    #[doc = "over TCP. 1: all processes exchange data over TCP"]
    pub without_shared_memory: i32,
}
extern "C" {
    #[doc = " One rank of a job of processes, on one machine or many, over TCP. Every process calls it, in any order; it"]
    #[doc = " returns when all ranks have connected. `address` and the memory that it points to are needed only during"]
    #[doc = " the call."]
    #[doc = ""]
    #[doc = " Shared memory. Two processes on one machine and in one network namespace connect through a Unix socket and"]
    #[doc = " prove over it that they belong to the job. They then exchange data through memory without a name"]
    #[doc = " (memfd_create(2)), which disappears with the processes. If the system refuses the memory, the Unix socket"]
    #[doc = " carries the data. hws_engine_info counts both kinds in \"connections\" and gives the reason in"]
    #[doc = " \"shared_memory_without\". Results are bit-identical."]
    #[doc = ""]
    #[doc = " Who may join. With a secret, every connection starts with a mutual proof that both sides know it"]
    #[doc = " (HMAC-SHA256 over fresh nonces, rank, world, job and version), before anything else is read. Strangers,"]
    #[doc = " other jobs, replayed conversations and other versions are rejected, and the job continues. Without a"]
    #[doc = " secret, rank, world, job and version are compared but not proven, and a rejection repeats only what the"]
    #[doc = " rejected rank claimed. Ranks listen only while the job and each process group connect. Connections are not"]
    #[doc = " encrypted, and not authenticated after their start: whoever can read or change packets between the machines"]
    #[doc = " can read and change weights, gradients and data. Use a private network or a tunnel."]
    #[doc = ""]
    #[doc = " Heartbeats. When a process dies, all other processes are notified at once. When it is stopped or cut off,"]
    #[doc = " they detect it after silence_seconds. Their calls then return HWS_UNAVAILABLE and name it. While ranks"]
    #[doc = " connect, this holds for rank 0 (after at least 2 s); if another rank is stopped then, it is named at the"]
    #[doc = " timeout."]
    #[doc = ""]
    #[doc = " Errors:"]
    #[doc = "   HWS_INVALID_ARGUMENT     a malformed address; a rank outside the world, or taken twice; world sizes or"]
    #[doc = "                            jobs that differ; a secret of the wrong size"]
    #[doc = "   HWS_PERMISSION           this rank and the others have different secrets; a secret's file that every user"]
    #[doc = "                            may read or others may write"]
    #[doc = "   HWS_FAILED_PRECONDITION  an address beyond the loopback with neither secret nor trust_network; too few"]
    #[doc = "                            file descriptors (the text states how many are needed; raise RLIMIT_NOFILE)"]
    #[doc = "   HWS_TIMEOUT              some ranks did not connect; the text names them"]
    #[doc = "   HWS_UNAVAILABLE          an address on which this process cannot listen; a process that died meanwhile;"]
    #[doc = "                            for a secret, no libsodium or no hawser-0/libhawser_identity.so (names the path)"]
    #[doc = "   HWS_ABI_MISMATCH         another version of the library"]
    pub fn hws_comm_create_address(address: *const hws_comm_address, out: *mut *mut hws_comm) -> hws_status;
}
extern "C" {
    #[doc = " As hws_comm_create_address, but with rank, world and address from the environment variables of a launcher:"]
    #[doc = " torchrun, Open MPI (mpirun), Slurm (srun), PMIx, PMI (MPICH, Intel MPI) or an indexed job of Kubernetes;"]
    #[doc = " the innermost if there are several. HAWSER_RANK, HAWSER_WORLD_SIZE, HAWSER_LOCAL_WORLD_SIZE,"]
    #[doc = " HAWSER_ADDRESS, HAWSER_PORT, HAWSER_HOST, HAWSER_INTERFACE, HAWSER_JOB, HAWSER_SECRET_FILE,"]
    #[doc = " HAWSER_TRUST_NETWORK=1 and HAWSER_SHARED_MEMORY=0 add to the launcher's variables and override them. Only"]
    #[doc = " this function and the next read the environment."]
    #[doc = ""]
    #[doc = " overrides: the fields that are not 0 or NULL override the variables; NULL: none. Its rank and world_size"]
    #[doc = " must be 0, and its job is appended to the launcher's. Errors also: HWS_FAILED_PRECONDITION if there is no"]
    #[doc = " launcher, or a variable is missing (the text names it)."]
    pub fn hws_comm_create_env(overrides: *const hws_comm_address, out: *mut *mut hws_comm) -> hws_status;
}
extern "C" {
    #[doc = " Returns what hws_comm_create_env would use, without connecting. *out: a JSON object with \"launcher\","]
    #[doc = " \"job\", \"rank\", \"world_size\", \"local_world_size\" (ranks on this machine; null: unknown), \"address\", \"host\","]
    #[doc = " \"network_interface\", \"secret_file\", \"trust_network\", \"shared_memory\", and \"read\", an array of the variables"]
    #[doc = " used, {\"name\", \"value\"}. Errors: HWS_FAILED_PRECONDITION as above."]
    pub fn hws_comm_read_env(out: *mut *mut hws_buffer) -> hws_status;
}
#[doc = " A transport of the host program, by which this process's one rank exchanges messages with the other ranks."]
#[doc = " Messages between two ranks arrive in the order and with the sizes in which they were sent; none is empty."]
#[doc = " All functions except abort are called by one thread at a time, not always the same one. Statuses are HWS_OK"]
#[doc = " or an HWS_* code, such as HWS_TIMEOUT after timeout_seconds, or HWS_UNAVAILABLE for a peer that no longer"]
#[doc = " exists."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_comm_host {
    pub struct_size: u32,
    pub rank: i32,
    pub world_size: i32,
    #[doc = "< 0"]
    pub reserved: i32,
    #[doc = "< passed to each function"]
    pub user: *mut ::core::ffi::c_void,
    #[doc = " Sends `bytes` bytes to a rank, and may return before they arrive. Must not wait for the receiver if"]
    #[doc = " bytes <= 512 and fewer than two such messages are on their way to it; the buffer of any socket has room"]
    #[doc = " for these. Required."]
    pub send: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            to_rank: i32,
            data: *const ::core::ffi::c_void,
            bytes: i64,
            timeout_seconds: f64,
        ) -> hws_status,
    >,
    #[doc = " Receives exactly `bytes` bytes from a rank. Required."]
    pub recv: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            from_rank: i32,
            data: *mut ::core::ffi::c_void,
            bytes: i64,
            timeout_seconds: f64,
        ) -> hws_status,
    >,
    #[doc = " Sends to and receives from one rank at the same time, for speed. NULL: the lower rank sends first."]
    pub exchange: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            rank: i32,
            sent: *const ::core::ffi::c_void,
            sent_bytes: i64,
            received: *mut ::core::ffi::c_void,
            received_bytes: i64,
            timeout_seconds: f64,
        ) -> hws_status,
    >,
    #[doc = " Reports that this rank has failed: its running and later calls must return `code` at once, and those of"]
    #[doc = " its peers soon. Called on any thread, also during a running call. NULL: the calls return at their"]
    #[doc = " timeouts."]
    pub abort: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            code: hws_status,
            message: *const ::core::ffi::c_char,
        ),
    >,
    #[doc = " Returns why the last call failed; the text is valid until the next call. If the pointer is NULL, or it"]
    #[doc = " returns NULL or \"\", the status determines the text."]
    pub message: ::core::option::Option<
        unsafe extern "C" fn(user: *mut ::core::ffi::c_void) -> *const ::core::ffi::c_char,
    >,
    #[doc = " Called exactly once, on any thread, when nothing uses the transport any more, and also when"]
    #[doc = " hws_comm_create_host fails, unless it could not read `host` at all (NULL, misaligned, or a struct_size"]
    #[doc = " that makes no sense). NULL: nothing to do."]
    pub destroy: ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void)>,
}
extern "C" {
    #[doc = " One rank over a transport of the host program. *host is copied. Errors: HWS_INVALID_ARGUMENT if send or"]
    #[doc = " recv is missing, or for a rank outside the world."]
    pub fn hws_comm_create_host(host: *const hws_comm_host, out: *mut *mut hws_comm) -> hws_status;
}
extern "C" {
    #[doc = " *out: a JSON object with kind (\"local\", \"address\", \"env\", \"host\"), world_size and local_ranks (an array);"]
    #[doc = " for \"env\" also \"environment\", the object of hws_comm_read_env."]
    pub fn hws_comm_info(comm: *const hws_comm, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    pub fn hws_comm_destroy(comm: *mut hws_comm);
}
extern "C" {
    #[doc = " Makes an engine of one rank: the model with its initial weights or those of init.from, one block of memory"]
    #[doc = " of exactly the planned size (the arena), threads, and readers of the data. flags: 0 or"]
    #[doc = " HWS_ENGINE_INFERENCE. Errors: HWS_CONFIG_INVALID (all problems at once; a mesh of several ranks needs"]
    #[doc = " hws_engine_create_ranks), HWS_OUT_OF_MEMORY (the text states the bytes needed and available, and which"]
    #[doc = " setting saves how much), HWS_NOT_FOUND, HWS_DATA_INVALID, HWS_CHECKPOINT_*."]
    pub fn hws_engine_create(config: *const hws_config, flags: u32, out: *mut *mut hws_engine) -> hws_status;
}
extern "C" {
    #[doc = " Makes an engine over all ranks of a comm, arranged by `mesh` of the config. Collective: returns in each"]
    #[doc = " process when all have called it. Processes may differ only in the section cpu, in telemetry.tensorboard"]
    #[doc = " and in checkpoint.path. Errors also: HWS_CONFIG_INVALID if mesh and comm have different numbers of ranks,"]
    #[doc = " or processes have different configs (the text names the first field that differs); HWS_FAILED_PRECONDITION"]
    #[doc = " if their builds of Hawser make different plans of one config; HWS_BUSY while another engine uses the comm;"]
    #[doc = " HWS_TIMEOUT, HWS_UNAVAILABLE, and the error of any other rank."]
    pub fn hws_engine_create_ranks(
        config: *const hws_config,
        comm: *const hws_comm,
        flags: u32,
        out: *mut *mut hws_engine,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Makes an engine that trains (or, with HWS_ENGINE_INFERENCE, runs) an adapter on the weights of `base`. It"]
    #[doc = " only reads these weights; its adapter, optimizer state, activations, threads, data and checkpoints are its"]
    #[doc = " own. Its plan counts no byte for the borrowed weights, and its results are those of an engine with its own"]
    #[doc = " copy. Any number of engines may borrow from one base and run at the same time, each on its own thread."]
    #[doc = " comm: NULL for one rank. `base` must be created with HWS_ENGINE_INFERENCE from a folder (init.from)."]
    #[doc = " hws_tensor_set on it is refused while other engines borrow its weights. It may be destroyed before them;"]
    #[doc = " the last of them then frees its memory. The config must have an adapter and the model, device, precision,"]
    #[doc = " mesh and ZeRO stage of `base`, and its init.from must be that folder or a checkpoint of an adapter on it."]
    #[doc = " At stage 3 the engine gathers the shards of `base` into its own memory for each use. An adapter of a reward"]
    #[doc = " model (model.head \"score\") needs a `base` with that head. Errors also: HWS_FAILED_PRECONDITION for another"]
    #[doc = " `base`, HWS_CONFIG_INVALID for a config that does not fit, HWS_CHECKPOINT_INCOMPATIBLE for an adapter that"]
    #[doc = " was trained on other weights."]
    pub fn hws_engine_create_on(
        base: *const hws_engine,
        config: *const hws_config,
        comm: *const hws_comm,
        flags: u32,
        out: *mut *mut hws_engine,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Waits for a running call and a running save, ends the engine's threads and frees its memory. The arena"]
    #[doc = " stays as long as a view of it (hws_tensor_view)."]
    pub fn hws_engine_destroy(engine: *mut hws_engine);
}
extern "C" {
    #[doc = " *out: a JSON object with the model, parameters, flops_per_token (of training: 6 per matmul weight, and"]
    #[doc = " causal attention), memory by category (of each rank), step, samples, ranks, threads (of each rank), CPU"]
    #[doc = " level and total steps; \"step_rows\": rows of the pending step, or else of the next; \"older_decay\": true for"]
    #[doc = " a run that an older version began, which keeps that version's learning rates (the last step of a decay has"]
    #[doc = " the minimum). On GPUs also \"choices\", the matmul algorithms, equal on all ranks: \"by\" (GPU, libraries,"]
    #[doc = " deterministic or not) and \"products\" with sizes, algorithm and nanoseconds (0: not timed; see"]
    #[doc = " /cuda/algorithm_cache); \"apart\" names a rank that uses its own choices."]
    pub fn hws_engine_info(engine: *const hws_engine, out: *mut *mut hws_buffer) -> hws_status;
}
#[doc = " Sizes of a batch. The numbers never change while the engine exists."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_sizes {
    pub struct_size: u32,
    #[doc = "< 0"]
    pub reserved: i32,
    #[doc = "< tokens and targets lie in [0, vocab_size); a target may also be -100"]
    pub vocab_size: i64,
    #[doc = "< columns of a training batch, and the most that eval and forward take"]
    pub sequence: i64,
    #[doc = "< rows of a training batch, over all ranks and micro-batches. With /batch/ramp:"]
    #[doc = "the largest; \"step_rows\" of hws_engine_info gives the rows of the next step"]
    pub global_batch: i64,
    #[doc = "< numbers that the head gives for each token: vocab_size, or 1 for a score"]
    pub outputs: i64,
}
extern "C" {
    #[doc = " Fills *sizes. A training batch has `global_batch` rows of `sequence` tokens; hws_engine_forward"]
    #[doc = " gives `outputs` numbers for each token. Works at any time, on any thread, and for inference. Errors:"]
    #[doc = " HWS_INVALID_ARGUMENT if sizes is NULL, HWS_ABI_MISMATCH."]
    pub fn hws_engine_sizes(engine: *const hws_engine, sizes: *mut hws_sizes) -> hws_status;
}
extern "C" {
    #[doc = " *rate: the learning rate that the next step will use, from the config's schedule; while a step is pending,"]
    #[doc = " the rate of that step. The rate is a function of the config and the number of the step. A host program"]
    #[doc = " cannot override it on a live engine: to continue with another rate, save, change /optimizer or /schedule in"]
    #[doc = " the config, create an engine and load. Allowed in callbacks. Errors: HWS_FAILED_PRECONDITION for inference."]
    pub fn hws_engine_learning_rate(engine: *const hws_engine, rate: *mut f64) -> hws_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_step_result {
    pub struct_size: u32,
    #[doc = "< HWS_STEP_*"]
    pub outcome: i32,
    #[doc = "< number of this step, from 1; skipped and discarded ones count"]
    pub step: i64,
    #[doc = "< mean over the unmasked targets of the global batch, nats; with weights, the sum of"]
    #[doc = "weight x token loss divided by their number"]
    pub loss: f64,
    #[doc = "< of all distinct parameters, before clipping"]
    pub grad_norm: f64,
    #[doc = "< of this step"]
    pub learning_rate: f64,
    #[doc = "< unmasked targets"]
    pub tokens: i64,
    #[doc = "< data cursor after the step: rows consumed since the start"]
    pub samples: i64,
    #[doc = "< steps skipped or discarded so far"]
    pub skipped: i64,
    #[doc = "< wall time of the step"]
    pub seconds: f64,
}
extern "C" {
    #[doc = " Takes one optimizer step on the next global batch: the pushed batch, else the batch of the source"]
    #[doc = " (hws_data_set_source), else the config's data. The guard of the config decides whether the step is accepted"]
    #[doc = " or skipped, or whether the engine goes back to a checkpoint (HWS_STEP_REWOUND). result: may be NULL."]
    #[doc = " Errors: HWS_NUMERIC after guard.max_consecutive_skips skips in a row, or if the engine has returned to one"]
    #[doc = " checkpoint more than guard.max_rewinds times (that checkpoint is loaded); HWS_IO if a checkpoint cannot be"]
    #[doc = " read;"]
    #[doc = " HWS_DATA_INVALID; HWS_OUT_OF_RANGE at the end of the source's data; HWS_FAILED_PRECONDITION without data,"]
    #[doc = " while a step is pending, and for inference."]
    pub fn hws_engine_train_step(engine: *mut hws_engine, result: *mut hws_step_result) -> hws_status;
}
extern "C" {
    #[doc = " The gradient phase of a step: computes the gradients of the next global batch and changes nothing durable."]
    #[doc = " The step is then pending, until commit or discard. result: may be NULL. Errors: HWS_DATA_INVALID;"]
    #[doc = " HWS_FAILED_PRECONDITION as above; HWS_IO if a disk of /offload fails, after which the same step can be"]
    #[doc = " taken again (with several ranks, by a new engine)."]
    pub fn hws_engine_forward_backward(engine: *mut hws_engine, result: *mut hws_step_result) -> hws_status;
}
extern "C" {
    #[doc = " The update phase of a step: clips and updates the weights, without consulting the guard. result: may be"]
    #[doc = " NULL. Errors: HWS_FAILED_PRECONDITION unless a step is pending, and if it overflowed (precision fp16: its"]
    #[doc = " loss or gradient norm is not finite; it can only be discarded); HWS_IO if a disk of /offload fails. The"]
    #[doc = " engine then refuses every call until a checkpoint is loaded (HWS_FAILED_PRECONDITION) or, with several"]
    #[doc = " ranks, until a new engine is made (HWS_ABORTED)."]
    pub fn hws_engine_commit(engine: *mut hws_engine, result: *mut hws_step_result) -> hws_status;
}
extern "C" {
    #[doc = " Drops the gradients of the pending step instead. With rewind 0, schedule and data cursor advance."]
    #[doc = " Otherwise neither does, and the next step uses the same data; a pushed batch must be pushed again. result:"]
    #[doc = " may be NULL. Errors: HWS_FAILED_PRECONDITION unless a step is pending."]
    pub fn hws_engine_discard(
        engine: *mut hws_engine,
        rewind: i32,
        result: *mut hws_step_result,
    ) -> hws_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_train_record {
    pub struct_size: u32,
    #[doc = "< HWS_STEP_*; the fields down to seconds are those of hws_step_result"]
    pub outcome: i32,
    pub step: i64,
    pub loss: f64,
    pub grad_norm: f64,
    pub learning_rate: f64,
    pub tokens: i64,
    pub samples: i64,
    pub skipped: i64,
    pub seconds: f64,
    #[doc = "< nats; NaN if this step had no validation, or a cancel cut it short"]
    pub validation_loss: f64,
    #[doc = "< of this step: positions, masked ones too"]
    pub tokens_per_second: f64,
    #[doc = "< the step at which this run ends"]
    pub total_steps: i64,
    #[doc = "< 1: a checkpoint of this step is written (with checkpoint.async: begun) as"]
    #[doc = "soon as the callback returns"]
    pub saved: i32,
    #[doc = "< 1: the lowest validation loss so far"]
    pub best: i32,
    #[doc = "< sent in this step by the first rank of this process; 0 with one rank"]
    pub communication_bytes: i64,
    #[doc = "< checkpoints that this engine could not write so far; \"save_error\" of"]
    #[doc = "hws_engine_metrics has the last one's path and error"]
    pub save_failures: i64,
}
#[doc = " Called after each step, on the thread that called hws_engine_train. `record` is valid during the call."]
#[doc = " Non-zero ends the run after this step, with HWS_OK."]
pub type hws_train_fn = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, record: *const hws_train_record) -> i32,
>;
extern "C" {
    #[doc = " Trains until step `until_step` (0: train.steps of the config), and validates and saves as the config"]
    #[doc = " specifies (train.eval_every, checkpoint.*). callback and destroy may be NULL. With train.patience the run"]
    #[doc = " also ends after that many validations in a row without a lower loss (\"ended_early\" of hws_engine_metrics);"]
    #[doc = " checkpoints store their number, and an engine that has ended in this way takes no further step until the"]
    #[doc = " config has more patience."]
    #[doc = ""]
    #[doc = " If checkpoint.path is set, the last step is saved, however the run ends: at until_step, by the callback, by"]
    #[doc = " hws_engine_cancel, or by an error that leaves the state of that step complete (bad data, but not the loss"]
    #[doc = " of a rank). With checkpoint.every_seconds, rank 0's clock decides for all ranks when to save. The folder is"]
    #[doc = " opened once, at the start: if it is moved meanwhile, checkpoints follow it."]
    #[doc = ""]
    #[doc = " When a checkpoint cannot be written, checkpoint.on_error decides. \"go_on\" (the default) counts the failure"]
    #[doc = " (save_failures), keeps the older checkpoints and continues training; only the last checkpoint of a run is"]
    #[doc = " tried again, and must be written. \"stop\" ends the run with the error. With checkpoint.async, the run also"]
    #[doc = " waits for its last checkpoint."]
    #[doc = ""]
    #[doc = " Errors: those of hws_engine_train_step and of saving. HWS_CANCELLED after hws_engine_cancel: the run ended"]
    #[doc = " after a complete step, and the engine can continue training."]
    pub fn hws_engine_train(
        engine: *mut hws_engine,
        until_step: i64,
        callback: hws_train_fn,
        user: *mut ::core::ffi::c_void,
        destroy: ::core::option::Option<unsafe extern "C" fn(arg1: *mut ::core::ffi::c_void)>,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Ends a running train, eval or generate at its next step boundary; never cuts a step short. If none of them"]
    #[doc = " runs, nothing happens: the next call is not cancelled. (A host program that must also end a call that is"]
    #[doc = " about to begin needs its own flag, which hws_thread_set_interrupt's poll or a callback reads.) A pushed"]
    #[doc = " batch that no step has taken keeps waiting (hws_data_push). The call is one atomic store: it may run on any"]
    #[doc = " thread, at any time, also in signal handlers, so it sets no last error."]
    pub fn hws_engine_cancel(engine: *const hws_engine) -> hws_status;
}
#[doc = " rows x cols tokens with their targets. The arrays belong to the caller; a call copies what it needs."]
#[doc = ""]
#[doc = " Loss = sum of weight x token loss / unmasked targets. Weights do not enter the divisor, so a target of"]
#[doc = " weight 0 still counts, and twice the weights are twice the loss and twice the gradient. To leave a target"]
#[doc = " out altogether, mask it (-100)."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_batch {
    pub struct_size: u32,
    #[doc = "< 0"]
    pub reserved: i32,
    pub rows: i64,
    pub cols: i64,
    #[doc = "< [rows, cols]"]
    pub tokens: *const i32,
    #[doc = "< [rows, cols]"]
    pub targets: *const i32,
    #[doc = "< [rows, cols]: the column where the document of each position starts."]
    #[doc = "Positions count from there, and attention stops there. NULL: each row"]
    #[doc = "is one document"]
    pub document_begin: *const i32,
    #[doc = "< [rows, cols]: the weight of each target's loss; finite, at least 0. NULL:"]
    #[doc = "all 1"]
    pub weights: *const f32,
    #[doc = "< [rows]: for each row, the sum of its targets' log-probabilities under the"]
    #[doc = "reference of /objective, for the kinds that have one; otherwise NULL"]
    pub references: *const f32,
    #[doc = "< must be /teacher/top; 0 without a teacher"]
    pub teacher_top: i64,
    #[doc = "< [rows, cols, teacher_top]: distinct token ids for each target, as"]
    #[doc = "hws_engine_top_logprobs gives them; NULL without a teacher"]
    pub teacher_ids: *const i32,
    #[doc = "< [rows, cols, teacher_top]: the teacher's log-probabilities of these"]
    #[doc = "ids; finite, at most 0. Not read where the target is masked"]
    pub teacher_logprobs: *const f32,
}
extern "C" {
    #[doc = " Copies one global batch (global_batch rows x `sequence` columns, see hws_engine_sizes; with /batch/ramp"]
    #[doc = " the \"step_rows\" of hws_engine_info) for the next step, which uses it instead of the config's data. A train"]
    #[doc = " callback may push: train uses the batch in the step after the callback, so a host program that trains on"]
    #[doc = " its own tokens pushes the first batch before hws_engine_train and each further one in the callback."]
    #[doc = ""]
    #[doc = " An objective over pairs (/objective/kind) takes two rows for each pair, the chosen answer first; targets"]
    #[doc = " are the tokens of the answer, and weights must be NULL. Under \"reward\" a row's score is read at the token"]
    #[doc = " that its last target names, which must be in the row, so the last column has no target. References are"]
    #[doc = " computed by hws_engine_logprobs of the same rows, summed by row, before the first step or by another"]
    #[doc = " engine. If the config's data are prepared pairs, the engine computes them when it is created, with its"]
    #[doc = " weights at that time or with the model of /objective/reference, and a run keeps them next to its"]
    #[doc = " checkpoints."]
    #[doc = ""]
    #[doc = " With a teacher (/teacher/top), the batch must contain the teacher's rows for its tokens, from"]
    #[doc = " hws_engine_top_logprobs of another engine or from any other source. This also holds with /teacher/from."]
    #[doc = ""]
    #[doc = " A batch waits until a step takes it. hws_engine_cancel does not drop it: a step that has begun ends with"]
    #[doc = " its batch, and a waiting batch is taken by the first step after the cancelled call. Evaluating and saving"]
    #[doc = " do not change it; hws_checkpoint_load drops it. A step that fails, is skipped or is discarded has consumed"]
    #[doc = " its batch."]
    #[doc = ""]
    #[doc = " Errors: HWS_DATA_INVALID for ids outside the vocabulary (row, column, id), for weights that are negative"]
    #[doc = " or not finite (row, column, weight), and for a teacher's row with an id twice or a log-probability that"]
    #[doc = " is above 0 or not finite; HWS_INVALID_ARGUMENT for another shape; HWS_BUSY if a batch is already waiting;"]
    #[doc = " HWS_FAILED_PRECONDITION for inference and while a step is pending. After an error, the batch that was"]
    #[doc = " waiting before still waits."]
    pub fn hws_data_push(engine: *mut hws_engine, batch: *const hws_batch) -> hws_status;
}
#[doc = " The global batch of one step, for a data source to fill. The arrays are [rows, cols], belong to the"]
#[doc = " library and are valid during the call. On entry all tokens are 0 and all targets -100, so rows that the"]
#[doc = " source does not fill do not count."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_source_batch {
    pub struct_size: u32,
    #[doc = "< set it to 1 if document_begin is filled; 0: each row is one document"]
    pub has_documents: i32,
    #[doc = "< the step that this batch is for, from 1"]
    pub step: i64,
    #[doc = "< rows consumed before it: the position in the data"]
    pub samples: i64,
    pub rows: i64,
    pub cols: i64,
    pub tokens: *mut i32,
    pub targets: *mut i32,
    #[doc = "< as in hws_batch; 0 on entry"]
    pub document_begin: *mut i32,
    #[doc = "< as in hws_batch; 1 on entry"]
    pub weights: *mut f32,
    #[doc = "< set it to 1 if weights is filled; 0: all are 1"]
    pub has_weights: i32,
    #[doc = "< 0"]
    pub reserved: i32,
}
#[doc = " Fills `batch` and returns 0, or returns HWS_SOURCE_END. Any other number ends the call with HWS_CALLBACK."]
#[doc = " Called once before each step, on the thread that trains. May call the functions with a `const` handle."]
pub type hws_source_fn = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, batch: *mut hws_source_batch) -> i32,
>;
extern "C" {
    #[doc = " Sets a source of training batches, used instead of the config's data; NULL: the config's data again. A"]
    #[doc = " pushed batch still comes first. Train's other parts do not change: validation data, the guard, checkpoints."]
    #[doc = ""]
    #[doc = " The source is called with a position. `samples` continues from step to step, but a load moves it to that of"]
    #[doc = " the checkpoint, and after hws_engine_discard with rewind, and after a step that failed, the same position"]
    #[doc = " is requested again. If a source continues at the position in `samples`, a resumed run trains on the same"]
    #[doc = " rows."]
    #[doc = ""]
    #[doc = " At the end of the data, hws_engine_train ends as if its callback had ended it, with the last checkpoint and"]
    #[doc = " HWS_OK, and hws_engine_train_step and _forward_backward return HWS_OUT_OF_RANGE. When the source fails, or"]
    #[doc = " fills in ids or weights that hws_data_push would refuse (HWS_DATA_INVALID: row, column, value), the step"]
    #[doc = " has changed nothing and the engine can continue training."]
    #[doc = ""]
    #[doc = " With ranks in several processes, all of them set a source or none does. Each source must return the same"]
    #[doc = " global batch. When one ends or fails, all do. destroy(user) runs when another source is set or the engine"]
    #[doc = " is destroyed. Errors: HWS_FAILED_PRECONDITION for inference."]
    pub fn hws_data_set_source(
        engine: *mut hws_engine,
        callback: hws_source_fn,
        user: *mut ::core::ffi::c_void,
        destroy: ::core::option::Option<unsafe extern "C" fn(arg1: *mut ::core::ffi::c_void)>,
    ) -> hws_status;
}
extern "C" {
    #[doc = " *out: JSON about the config's data: tokens, validation samples, the data cursor, the vocabulary; for pairs"]
    #[doc = " \"references\": the number of their \"rows\", whether they were \"read\" from the run's folder, and the \"seconds\""]
    #[doc = " that this took; with a teacher (/teacher/from) \"teacher\": the same, and the number of \"targets\"."]
    pub fn hws_data_info(engine: *const hws_engine, out: *mut *mut hws_buffer) -> hws_status;
}
#[doc = " Called during a preparation with a JSON object of `size` bytes, NUL-terminated and valid during the call:"]
#[doc = " {\"done_bytes\", \"total_bytes\", \"rows\"}. Runs on the thread that prepares, at most ten times a second."]
pub type hws_prepare_fn = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, json: *const ::core::ffi::c_char, size: usize),
>;
extern "C" {
    #[doc = " Prepares text for training: turns files of rows into a folder of tokens with a loss mask, for /data/format"]
    #[doc = " \"prepared\". Needs the text module. request: a JSON object."]
    #[doc = "   \"model\"     a folder with tokenizer.json, or the path of such a file"]
    #[doc = "   \"files\"     an array of paths: JSON Lines, JSON arrays, Parquet, or text; the content decides which. The"]
    #[doc = "              keys of a row determine its form: \"text\"; \"prompt\" and \"completion\"; \"messages\", with \"tools\""]
    #[doc = "              (OpenAI); \"instruction\" and \"output\" (Alpaca); \"conversations\" (ShareGPT); \"prompt\", \"chosen\""]
    #[doc = "              and \"rejected\" (pairs for /objective: all rows of a folder, or none)"]
    #[doc = "   \"out\"       the folder. It must not exist, or hold the result of the same request: then nothing is done"]
    #[doc = "   \"sequence\"  tokens of a row, as /batch/sequence"]
    #[doc = "   \"long\"      \"cut\" (default): longer rows are cut at their end; \"drop\": they are omitted. A text file is"]
    #[doc = "              never cut: it continues in the next row"]
    #[doc = "   \"unprinted\" \"refuse\" (default): a field with words that the chat template does not print, such as"]
    #[doc = "              \"tool_calls\", is an error; \"drop\": it is omitted, and counted"]
    #[doc = "   \"packing\"   true (default): several short rows share one row, each with its own document mask; false."]
    #[doc = "              Answers of pairs never share one"]
    #[doc = "   \"pairs\"     true: rows must be pairs; false: none may be; default: as the first row is"]
    #[doc = "   \"template\"  a file with a chat template, or \"plain\", \"chatml\", \"llama2\", \"llama3\"; default: the model's"]
    #[doc = "   \"threads\"   0 (default): as many as this process may use. Any number writes the same bytes"]
    #[doc = "   \"seed\"      determines the order of the rows; default 0"]
    #[doc = " The loss covers the assistant's answers and the token that ends each of them; all other tokens are masked."]
    #[doc = " A message's \"train\": false and \"weight\" are honoured. Rows without a target are dropped, and counted."]
    #[doc = ""]
    #[doc = " *out: JSON: the folder, whether it existed already (\"reused\"), rows read and prepared, the share of tokens"]
    #[doc = " that are trained on, lengths, what was cut or dropped, and how many rows lack a token that ends them"]
    #[doc = " (\"without_end\"). \"training_template\" is null, or {\"family\", \"reason\", \"rows\"} if the template rewrites"]
    #[doc = " earlier turns of a chat and these rows were therefore rendered without that (file training_template.jinja"]
    #[doc = " of the folder). Afterwards the folder is complete, or does not exist."]
    #[doc = " callback: may be NULL; it may call nothing except hws_op_*. Errors: HWS_DATA_INVALID (file, line and column"]
    #[doc = " of the first row that cannot be used; no row left); HWS_ALREADY_EXISTS; HWS_UNAVAILABLE without the text"]
    #[doc = " module; HWS_CANCELLED by hws_thread_set_interrupt; those of the file system. Exempt from the promise on"]
    #[doc = " memory: if memory runs out within the text module, the process aborts."]
    pub fn hws_data_prepare(
        request: *const ::core::ffi::c_char,
        callback: hws_prepare_fn,
        user: *mut ::core::ffi::c_void,
        destroy: ::core::option::Option<unsafe extern "C" fn(arg1: *mut ::core::ffi::c_void)>,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Shows a row of a prepared folder as the model sees it. *out: JSON {\"row\", \"rows\", \"sequence\", \"tokens\","]
    #[doc = " \"documents\": [{\"begin\", \"tokens\", \"learned_tokens\", \"text\", \"learned\": [[begin, end], ..]}]}: documents by"]
    #[doc = " the column where they begin, and the bytes of each text that are trained on. Needs the text module. Errors:"]
    #[doc = " HWS_OUT_OF_RANGE if there is no such row; HWS_DATA_INVALID for a folder that is damaged; and as above."]
    pub fn hws_data_preview(
        folder: *const ::core::ffi::c_char,
        row: i64,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Swaps the weights with their moving averages (optimizer.average) in memory (on: 1), or swaps them back"]
    #[doc = " (0); if this is already so, nothing happens. While the averages are in place, evaluation, logits,"]
    #[doc = " generation, exports and hws_tensor_get use them, and the tensors of kind HWS_TENSOR_AVERAGE are the trained"]
    #[doc = " weights; steps, saves, loads and hws_tensor_set are refused with HWS_FAILED_PRECONDITION. Collective if"]
    #[doc = " ranks are in several processes. Errors: HWS_FAILED_PRECONDITION while a step is pending, and for an engine"]
    #[doc = " that keeps no averages or is for inference (init.average loads those of a checkpoint); after HWS_IO (a disk"]
    #[doc = " of /offload failed), the engine needs a load."]
    pub fn hws_engine_use_average(engine: *mut hws_engine, on: i32) -> hws_status;
}
extern "C" {
    #[doc = " The mean loss, without gradients. batch: any rows, at most `sequence` columns, with targets; NULL: the"]
    #[doc = " validation data, at most max_batches global batches (0: as the config specifies). Held-out pairs are"]
    #[doc = " evaluated by /objective. If it has a reference, an engine for inference needs /objective/reference, or a"]
    #[doc = " checkpoint of such a run as init.from: the reference is then the model with which that run began, and its"]
    #[doc = " log-probabilities are computed when the engine is made. *loss: for pairs, the loss of the objective; else"]
    #[doc = " nats per unmasked target, each times its weight if the batch or the data has weights; NaN or infinite if"]
    #[doc = " the model's numbers are. *tokens: unmasked targets; may be NULL. Errors:"]
    #[doc = " HWS_DATA_INVALID; HWS_FAILED_PRECONDITION without validation data, or for a batch if the model has a score"]
    #[doc = " head; HWS_CANCELLED."]
    pub fn hws_engine_eval(
        engine: *mut hws_engine,
        batch: *const hws_batch,
        max_batches: i64,
        loss: *mut f64,
        tokens: *mut i64,
    ) -> hws_status;
}
extern "C" {
    #[doc = " The logits (after soft-capping) of each position. batch: any rows, at most `sequence` columns; its targets"]
    #[doc = " may be NULL. logits: f32 [rows, cols, vocab_size], memory of the caller that does not overlap the batch;"]
    #[doc = " the values are rounded to /output_type. logits_bytes: its size, exactly. A model with a score head"]
    #[doc = " (/model/head) gives f32 [rows, cols], the score of the text up to each token: the score of a row is the one"]
    #[doc = " at its last token, whatever follows as padding. Errors: HWS_DATA_INVALID."]
    pub fn hws_engine_forward(
        engine: *mut hws_engine,
        batch: *const hws_batch,
        logits: *mut f32,
        logits_bytes: usize,
    ) -> hws_status;
}
extern "C" {
    #[doc = " The log-probability of each target, in nats, without storing logits: the input of a score, a perplexity or"]
    #[doc = " an objective of your own. batch: any rows, at most `sequence` columns, with targets; its weights do not"]
    #[doc = " matter. logprobs: f32 [rows, cols], memory of the caller that does not overlap the batch; 0 where the"]
    #[doc = " target is masked, NaN or infinite if the model's numbers are. logprobs_bytes: its size, exactly. Errors:"]
    #[doc = " HWS_DATA_INVALID."]
    pub fn hws_engine_logprobs(
        engine: *mut hws_engine,
        batch: *const hws_batch,
        logprobs: *mut f32,
        logprobs_bytes: usize,
    ) -> hws_status;
}
extern "C" {
    #[doc = " The `top` likeliest next tokens at each position, without storing logits: the rows of a teacher"]
    #[doc = " (/teacher). The likeliest is first; of equal logits, the lower id. batch: any rows, at most `sequence`"]
    #[doc = " columns; targets and weights do not matter and may be NULL. top: 1 to vocab_size. ids: int32 [rows, cols,"]
    #[doc = " top]; logprobs: f32 [rows, cols, top], their log-probabilities in nats over the whole vocabulary, at most"]
    #[doc = " 0. Both are memory of the caller that overlaps neither the batch nor each other; ids_bytes and"]
    #[doc = " logprobs_bytes: their sizes, exactly. Errors: HWS_DATA_INVALID; HWS_INVALID_ARGUMENT for another top or"]
    #[doc = " size; HWS_NUMERIC if the model's numbers are not finite (row, column; ids and logprobs are then undefined);"]
    #[doc = " HWS_FAILED_PRECONDITION for a model with a score head."]
    pub fn hws_engine_top_logprobs(
        engine: *mut hws_engine,
        batch: *const hws_batch,
        top: i64,
        ids: *mut i32,
        ids_bytes: usize,
        logprobs: *mut f32,
        logprobs_bytes: usize,
    ) -> hws_status;
}
extern "C" {
    #[doc = " The gradient phase of a step for an objective of your own (DPO, GRPO): computes the gradients of the"]
    #[doc = " weights from the gradients of the objective by the log-probability of each target. Compute the latter from"]
    #[doc = " hws_engine_logprobs of the same batch, call this, then commit or discard."]
    #[doc = ""]
    #[doc = " batch: a global batch as for hws_data_push; it is used at once and counts in the data cursor. Its weights"]
    #[doc = " must be NULL, because the gradients contain them. gradients: f32 [rows, cols], d objective / d"]
    #[doc = " log-probability; 0 where the target is masked. Nothing is divided: apply the divisor of a mean (pairs,"]
    #[doc = " tokens, rows of the global batch) yourself. The guard is not consulted, and losses of routers (/moe) are"]
    #[doc = " added as always. Dropout applies here and not in hws_engine_logprobs: set /model/dropout to 0 if both must"]
    #[doc = " agree. With ranks in several processes, all pass the same batch and gradients. result: may be NULL; its"]
    #[doc = " loss is the sum of gradient x log-probability, whose gradient is that of the objective. gradients_bytes:"]
    #[doc = " its size, exactly. Errors: HWS_DATA_INVALID for the batch, for a gradient that is not finite and for one of"]
    #[doc = " a masked target (row, column, value); HWS_INVALID_ARGUMENT for another shape; HWS_BUSY if a pushed batch"]
    #[doc = " waits; HWS_FAILED_PRECONDITION while a step is pending, and for inference."]
    pub fn hws_engine_backward_with(
        engine: *mut hws_engine,
        batch: *const hws_batch,
        gradients: *const f32,
        gradients_bytes: usize,
        result: *mut hws_step_result,
    ) -> hws_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_generate_request {
    pub struct_size: u32,
    #[doc = "< ends the text, and is delivered; -1: none"]
    pub stop_token: i32,
    #[doc = "< [prompt_length]"]
    pub prompt: *const i32,
    #[doc = "< at least 1"]
    pub prompt_length: i64,
    #[doc = "< new tokens, at most"]
    pub max_tokens: i64,
    #[doc = "< 0: greedy"]
    pub temperature: f64,
    #[doc = "< sample among the k likeliest tokens; 0: all"]
    pub top_k: i64,
    #[doc = "< sample among the likeliest tokens that sum to this probability; 1: all"]
    pub top_p: f64,
    pub seed: u64,
    #[doc = "< [stop_count]: more tokens that end the text, such as \"end_tokens\" of"]
    #[doc = "hws_tokenizer_info; NULL: none"]
    pub stop_tokens: *const i32,
    pub stop_count: i64,
}
#[doc = " Called for each new token, on the calling thread. Non-zero ends the text."]
pub type hws_token_fn =
    ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void, token: i32) -> i32>;
extern "C" {
    #[doc = " Continues the prompt, with a KV cache, and passes each token to `callback`, which is required. The model"]
    #[doc = " sees the last batch.sequence tokens (default: model.context). Errors: HWS_DATA_INVALID for a prompt outside"]
    #[doc = " the vocabulary; HWS_NUMERIC if the logits are not finite, so that no token follows; HWS_CANCELLED."]
    pub fn hws_engine_generate(
        engine: *mut hws_engine,
        request: *const hws_generate_request,
        callback: hws_token_fn,
        user: *mut ::core::ffi::c_void,
        destroy: ::core::option::Option<unsafe extern "C" fn(arg1: *mut ::core::ffi::c_void)>,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Converts text to tokens, for models with a tokenizer or with a byte or character vocabulary. text: `size`"]
    #[doc = " bytes. *out: an int32 array. A tokenizer adds the special tokens that begin or end a text. Errors:"]
    #[doc = " HWS_FAILED_PRECONDITION for a model that has neither; HWS_DATA_INVALID for a character that is not in the"]
    #[doc = " vocabulary and for text that is not UTF-8; for a tokenizer also those of hws_tokenizer_open."]
    pub fn hws_text_encode(
        engine: *const hws_engine,
        text: *const ::core::ffi::c_char,
        size: usize,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Converts tokens to text, without special tokens. tokens: `count` of them. *out: text. Errors: as above."]
    pub fn hws_text_decode(
        engine: *const hws_engine,
        tokens: *const i32,
        count: usize,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Opens the tokenizer of a model: a tokenizer.json by itself, a Hugging Face folder, or a checkpoint. A"]
    #[doc = " model of bytes or characters gets the tokenizer that its export would have. Errors: HWS_NOT_FOUND without a"]
    #[doc = " tokenizer.json; HWS_DATA_INVALID if that file, or another file of the folder, cannot be read"]
    #[doc = " (tokenizer_config.json, special_tokens_map.json, chat_template.jinja, generation_config.json); the text"]
    #[doc = " names the file. HWS_ABI_MISMATCH for a module of another version."]
    pub fn hws_tokenizer_open(path: *const ::core::ffi::c_char, out: *mut *mut hws_tokenizer) -> hws_status;
}
extern "C" {
    #[doc = " Opens the tokenizer of an engine's model. Errors also: HWS_FAILED_PRECONDITION for a model without one;"]
    #[doc = " HWS_DATA_INVALID for one with more tokens than the model's embedding has rows."]
    pub fn hws_engine_tokenizer(engine: *const hws_engine, out: *mut *mut hws_tokenizer) -> hws_status;
}
extern "C" {
    #[doc = " *out: a JSON object."]
    #[doc = "   \"vocab_size\"      the greatest token id plus 1"]
    #[doc = "   \"end_of_text\"     the id of eos_token, or eos_token_id of config.json (else of generation_config.json) if"]
    #[doc = "                     the folder names no eos_token, or null"]
    #[doc = "   \"end_tokens\"      all ids that end an answer: eos_token_id of generation_config.json (else of"]
    #[doc = "                     config.json), eos_token, and the special token that the template puts after an answer"]
    #[doc = "   \"special_tokens\"  {\"bos_token\": \"<s>\", ...}, as the folder names them"]
    #[doc = "   \"chat_template\"   true if the model has one"]
    #[doc = "   \"digest\", \"template_digest\" (null without a template)"]
    pub fn hws_tokenizer_info(tokenizer: *const hws_tokenizer, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " Converts text to tokens. text: `size` bytes. *out: an int32 array. Do not pass HWS_TEXT_ADD_SPECIAL for a"]
    #[doc = " text that already has its special tokens, such as a rendered chat. flags: 0 or HWS_TEXT_ADD_SPECIAL."]
    #[doc = " Errors: HWS_DATA_INVALID for text that is not UTF-8, with the offset; HWS_CANCELLED by"]
    #[doc = " hws_thread_set_interrupt."]
    pub fn hws_tokenizer_encode(
        tokenizer: *const hws_tokenizer,
        text: *const ::core::ffi::c_char,
        size: usize,
        flags: u32,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Converts tokens to text. tokens: `count` of them; ids without a token are left out. *out: text. flags: 0,"]
    #[doc = " HWS_TEXT_SKIP_SPECIAL, HWS_TEXT_WHOLE or both. Errors: HWS_INVALID_ARGUMENT for a negative id."]
    pub fn hws_tokenizer_decode(
        tokenizer: *const hws_tokenizer,
        tokens: *const i32,
        count: usize,
        flags: u32,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Renders a chat by the model's template. chat: a JSON object with \"messages\" (in OpenAI's form), and"]
    #[doc = " optionally \"tools\", \"add_generation_prompt\" (default: false) and other variables that the template reads."]
    #[doc = " *out: text. Errors: HWS_FAILED_PRECONDITION for a model without a template; HWS_DATA_INVALID for a chat of"]
    #[doc = " another form (the text names the message), for a chat that the template refuses, with its message, and for"]
    #[doc = " a template that takes too many steps, too much memory or too long; HWS_CANCELLED by"]
    #[doc = " hws_thread_set_interrupt."]
    pub fn hws_tokenizer_render(
        tokenizer: *const hws_tokenizer,
        chat: *const ::core::ffi::c_char,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Trains a byte-level BPE of at most `vocab_size` tokens on UTF-8 files and writes it as a tokenizer.json to"]
    #[doc = " `path`, which must not exist. files and special_tokens: JSON arrays of paths and of tokens; special tokens"]
    #[doc = " come first in the vocabulary, and may be NULL. Equal files in equal order give equal bytes. All different"]
    #[doc = " words are held in memory. Errors: HWS_DATA_INVALID for text that is not UTF-8 (file and offset), and for a"]
    #[doc = " vocabulary without room for 256 bytes and the special tokens; HWS_ALREADY_EXISTS; HWS_CANCELLED"]
    #[doc = " (hws_thread_set_interrupt); those of the file system."]
    pub fn hws_tokenizer_train(
        files: *const ::core::ffi::c_char,
        vocab_size: i64,
        special_tokens: *const ::core::ffi::c_char,
        path: *const ::core::ffi::c_char,
    ) -> hws_status;
}
extern "C" {
    pub fn hws_tokenizer_destroy(tokenizer: *mut hws_tokenizer);
}
extern "C" {
    #[doc = " *out: a JSON array of all parameters with name, shape, count (of elements) and Hugging Face name."]
    pub fn hws_tensor_list(engine: *const hws_engine, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " Copies a tensor to `data` as f32. name: Hawser's name, or the Hugging Face name, which gives the tensor in"]
    #[doc = " Hugging Face's layout. bytes: 4 x elements. Errors: HWS_NOT_FOUND; HWS_FAILED_PRECONDITION for a kind that"]
    #[doc = " does not exist now."]
    pub fn hws_tensor_get(
        engine: *const hws_engine,
        kind: i32,
        name: *const ::core::ffi::c_char,
        data: *mut ::core::ffi::c_void,
        bytes: usize,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Sets a weight (with its fp32 master copy) or a moment from f32 data. Under precision bf16_pure the values"]
    #[doc = " are rounded to the nearest bf16. name, bytes and errors as for hws_tensor_get; HWS_FAILED_PRECONDITION also"]
    #[doc = " for a frozen weight below an adapter that was read from init.from, because checkpoints omit it. After"]
    #[doc = " HWS_IO (a disk of /offload failed) the tensor may be set in part: set it again."]
    pub fn hws_tensor_set(
        engine: *mut hws_engine,
        kind: i32,
        name: *const ::core::ffi::c_char,
        data: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> hws_status;
}
#[doc = " DLPack 1.0's struct, declared by dlpack.h."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct DLManagedTensorVersioned {
    _unused: [u8; 0],
}
extern "C" {
    #[doc = " A view without a copy, by Hawser's name. *out: a tensor of DLPack 1.0 with the read-only flag, aligned for"]
    #[doc = " its element type, whose contents change as training continues. Call its deleter once, on any thread, also"]
    #[doc = " after the engine is destroyed: the view keeps the arena alive. Errors: those of hws_tensor_get;"]
    #[doc = " HWS_UNIMPLEMENTED for tensors in shards, on another stage of a pipeline or in the memory of a GPU."]
    pub fn hws_tensor_view(
        engine: *const hws_engine,
        kind: i32,
        name: *const ::core::ffi::c_char,
        out: *mut *mut DLManagedTensorVersioned,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Statistics of the gradients of the pending step. *out: a JSON array with the norm, the largest magnitude"]
    #[doc = " and the number of non-finite elements of each parameter. Errors: HWS_FAILED_PRECONDITION unless a step is"]
    #[doc = " pending."]
    pub fn hws_tensor_statistics(engine: *const hws_engine, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " Writes a checkpoint, a directory that must not exist yet. Afterwards it is complete and durable, or does"]
    #[doc = " not exist. With an adapter on a model of init.from, it holds the trained parameters, and the name and"]
    #[doc = " digests of that model: loading it with another model is HWS_CHECKPOINT_INCOMPATIBLE, and init.base names"]
    #[doc = " the folder if it has moved. Errors: HWS_ALREADY_EXISTS, HWS_IO and others of the file system."]
    pub fn hws_checkpoint_save(engine: *mut hws_engine, path: *const ::core::ffi::c_char) -> hws_status;
}
extern "C" {
    #[doc = " Writes a checkpoint while training continues: returns as soon as the state is copied. Threads of the"]
    #[doc = " engine, of lower priority, then write it, the same files byte for byte. *out: the operation (hws_op_*)."]
    #[doc = ""]
    #[doc = " The copy needs memory outside the arena, as much as the plan lists as save copy. With checkpoint.async and"]
    #[doc = " checkpoint.path it is allocated with the engine, and leaves out state on disk (offload.optimizer,"]
    #[doc = " offload.parameters): the file of that state has a second place of the same size, reserved with the engine,"]
    #[doc = " and the save reads the one while steps write the other. Otherwise the copy is of all state, wherever that"]
    #[doc = " is, and is allocated with the first such save. It is kept. While the save runs, another one waits for it or"]
    #[doc = " gets HWS_BUSY, by checkpoint.when_busy; hws_checkpoint_load, hws_engine_export and hws_engine_destroy wait."]
    #[doc = ""]
    #[doc = " A failure that no hws_op_wait returned is counted (\"save_failures\" and \"save_error\" of hws_engine_metrics)."]
    #[doc = " With checkpoint.on_error \"stop\", it is also the error of the next save, train or train_step call, which"]
    #[doc = " then does nothing. Errors: HWS_ALREADY_EXISTS; HWS_OUT_OF_MEMORY for the copy (bytes needed and available);"]
    #[doc = " HWS_UNIMPLEMENTED with ranks in several processes over hws_comm_create_host, whose functions only one"]
    #[doc = " thread may call. The operation returns errors of the file system."]
    #[doc = ""]
    #[doc = " With ranks in several processes the call is collective. A save that fails or is cancelled on one of them"]
    #[doc = " fails on all. A failure that has not been reported yet is the error of the next save or train call."]
    pub fn hws_checkpoint_save_async(
        engine: *mut hws_engine,
        path: *const ::core::ffi::c_char,
        out: *mut *mut hws_op,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Restores weights, optimizer, counters and data cursor; training continues bit for bit. flags: 0 or"]
    #[doc = " HWS_LOAD_OTHER_DATA. Everything is checked before anything changes; among several ranks, one of them checks"]
    #[doc = " each file's digests. If the disk fails after that, the engine refuses every call until it is loaded again"]
    #[doc = " (HWS_FAILED_PRECONDITION) or, with several ranks, until a new engine is made (HWS_ABORTED). Errors:"]
    #[doc = " HWS_NOT_FOUND, HWS_CHECKPOINT_CORRUPT, HWS_CHECKPOINT_INCOMPATIBLE, and those of the file system."]
    pub fn hws_checkpoint_load(
        engine: *mut hws_engine,
        path: *const ::core::ffi::c_char,
        flags: u32,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Loads the newest complete checkpoint below `folder` (step-*, best). Do not look for it with"]
    #[doc = " hws_checkpoint_latest first: both functions read all of it. *out: JSON {\"name\": \"step-20\", \"step\": 20,"]
    #[doc = " \"damaged\": [{\"name\": \"step-30\", \"problem\": \"..\"}]}; \"damaged\" lists the checkpoints that were skipped. The"]
    #[doc = " rules for skipping and for errors are those of hws_checkpoint_latest. After HWS_NOT_FOUND, and if all are"]
    #[doc = " damaged (HWS_CHECKPOINT_CORRUPT), the engine is unchanged."]
    pub fn hws_checkpoint_load_latest(
        engine: *mut hws_engine,
        folder: *const ::core::ffi::c_char,
        flags: u32,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " *out: JSON about a checkpoint: model, step, tensors, files."]
    pub fn hws_checkpoint_inspect(path: *const ::core::ffi::c_char, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " Checks every digest. Errors: HWS_CHECKPOINT_CORRUPT names file, tensor and byte range."]
    pub fn hws_checkpoint_verify(path: *const ::core::ffi::c_char) -> hws_status;
}
extern "C" {
    #[doc = " *out: the path of the newest complete checkpoint below `folder` (step-*, best). Damaged ones are skipped."]
    #[doc = " A checkpoint that cannot be read now, or that a newer version wrote, may be complete, so it is an error"]
    #[doc = " that names the file (HWS_IO, HWS_PERMISSION, HWS_CHECKPOINT_INCOMPATIBLE, ...). Errors also: HWS_NOT_FOUND"]
    #[doc = " if there is none; HWS_CHECKPOINT_CORRUPT, with the reasons, if every one is damaged."]
    pub fn hws_checkpoint_latest(folder: *const ::core::ffi::c_char, out: *mut *mut hws_buffer)
        -> hws_status;
}
extern "C" {
    #[doc = " Makes a checkpoint (of step 0) from a Hugging Face folder. ignore_keys: a JSON array of unknown"]
    #[doc = " config.json keys to accept; NULL: none."]
    pub fn hws_checkpoint_import(
        hf_folder: *const ::core::ffi::c_char,
        path: *const ::core::ffi::c_char,
        ignore_keys: *const ::core::ffi::c_char,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Makes a checkpoint with the weighted mean of the weights of several checkpoints of one model. paths: a"]
    #[doc = " JSON array of their paths. weights: a JSON array of as many positive numbers; NULL: equal numbers. Each"]
    #[doc = " element is computed in f64 and rounded once to f32. The new checkpoint has no optimizer state, so it can be"]
    #[doc = " exported and evaluated, and can start a run (init.from), but cannot be resumed. Its step is the greatest"]
    #[doc = " step of the given checkpoints. `path` must not exist, and appears complete or not at all. Every digest is"]
    #[doc = " verified first. Errors: HWS_INVALID_ARGUMENT (fewer than two paths, or weights that are not positive and"]
    #[doc = " finite, or not as many), HWS_NOT_FOUND, HWS_CHECKPOINT_CORRUPT; HWS_CHECKPOINT_INCOMPATIBLE for different"]
    #[doc = " models, vocabularies or tokenizers; HWS_FAILED_PRECONDITION for adapters; HWS_ALREADY_EXISTS."]
    pub fn hws_checkpoint_average(
        paths: *const ::core::ffi::c_char,
        weights: *const ::core::ffi::c_char,
        path: *const ::core::ffi::c_char,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Makes a Hugging Face folder, or a file for llama.cpp if `to` ends in \".gguf\". path: a checkpoint or a"]
    #[doc = " Hugging Face folder. dtype: \"f32\", \"bf16\", \"f16\", for GGUF also \"q8_0\"; \"\" or NULL: as imported, else f32."]
    #[doc = " For a model of bytes or characters, the result has a tokenizer. A GGUF file has the vocabulary, special"]
    #[doc = " tokens and chat template of the model's folder. llama.cpp has no Unicode normalisation (Qwen's NFC), and no"]
    #[doc = " sliding windows for Mistral models, so their context_length becomes the window. `to` must not exist, and"]
    #[doc = " appears complete or not at all. Errors: HWS_ALREADY_EXISTS; HWS_FAILED_PRECONDITION if no Hugging Face"]
    #[doc = " family can express the model, or llama.cpp cannot compute it or has no such tokenizer: the message names"]
    #[doc = " what is missing; HWS_OUT_OF_RANGE for a weight that the dtype cannot hold; HWS_INVALID_ARGUMENT."]
    pub fn hws_checkpoint_export(
        path: *const ::core::ffi::c_char,
        to: *const ::core::ffi::c_char,
        dtype: *const ::core::ffi::c_char,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Makes a Hugging Face folder or a GGUF file from the engine's weights. Arguments as above."]
    pub fn hws_engine_export(
        engine: *const hws_engine,
        to: *const ::core::ffi::c_char,
        dtype: *const ::core::ffi::c_char,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Makes a PEFT folder (adapter_config.json, adapter_model.safetensors) from the adapter in a checkpoint: its"]
    #[doc = " factors and the parameters trained with them, in the types of adapter.from, else f32. If `to` ends in"]
    #[doc = " \".gguf\", makes a file that llama.cpp applies to the base model, with the factors in f32. The two functions"]
    #[doc = " above merge an adapter: they write the weights of an equivalent model without one, W + s B A, computed in"]
    #[doc = " fp32 and rounded once. Errors: HWS_FAILED_PRECONDITION without an adapter, or for one that PEFT"]
    #[doc = " or llama.cpp cannot represent."]
    pub fn hws_checkpoint_export_adapter(
        path: *const ::core::ffi::c_char,
        to: *const ::core::ffi::c_char,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Makes a PEFT folder or a GGUF file from the engine's adapter."]
    pub fn hws_engine_export_adapter(engine: *const hws_engine, to: *const ::core::ffi::c_char)
        -> hws_status;
}
extern "C" {
    #[doc = " Waits at most `timeout_seconds` for the end (negative: without limit; 0: not at all). Returns HWS_TIMEOUT"]
    #[doc = " while the operation runs, else its own status: HWS_OK, HWS_CANCELLED, or the status of its failure."]
    pub fn hws_op_wait(op: *const hws_op, timeout_seconds: f64) -> hws_status;
}
extern "C" {
    #[doc = " *ended: 1 when the operation has ended, with success or not; else 0."]
    pub fn hws_op_poll(op: *const hws_op, ended: *mut i32) -> hws_status;
}
extern "C" {
    #[doc = " Bytes of tensors written so far, and in total; either may be NULL. After the last byte the operation still"]
    #[doc = " runs for a short time, to make the files durable."]
    pub fn hws_op_progress(op: *const hws_op, done_bytes: *mut i64, total_bytes: *mut i64) -> hws_status;
}
extern "C" {
    #[doc = " Requests the operation to stop, and does not wait. It leaves no files and ends with HWS_CANCELLED, unless"]
    #[doc = " it was just ending."]
    pub fn hws_op_cancel(op: *const hws_op) -> hws_status;
}
extern "C" {
    #[doc = " Destroys the handle; the operation continues. Waits for an hws_op_wait on another thread."]
    pub fn hws_op_destroy(op: *mut hws_op);
}
extern "C" {
    #[doc = " *out: a JSON array of devices: the CPU (name, kind, threads, available memory, level), then those of the"]
    #[doc = " CUDA module, which this call opens (name, kind, index, memory), or one entry with the reason why there are"]
    #[doc = " none (\"unavailable\")."]
    pub fn hws_device_list(out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " Measures the CPU with `threads` threads (0: default) for about `seconds` (0: 0.5). *out: JSON with the"]
    #[doc = " peaks of matrix products in fp32 and bf16 (GFLOP/s) and the bandwidth of memory (GB/s)."]
    pub fn hws_device_measure(threads: i32, seconds: f64, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " Measures only the peak of matrix products, to compare the speed of a run with. *flops: operations per"]
    #[doc = " second, with `threads` threads of the CPU (0: default), in precision \"fp32\" or \"bf16\". Takes about"]
    #[doc = " `seconds` (0: 0.1) and 10 MB of memory."]
    pub fn hws_device_peak(
        threads: i32,
        precision: *const ::core::ffi::c_char,
        seconds: f64,
        flops: *mut f64,
    ) -> hws_status;
}
#[doc = " Called after each step with a JSON object of `size` bytes, NUL-terminated and valid during the call, on"]
#[doc = " the thread that trains."]
pub type hws_metrics_fn = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, json: *const ::core::ffi::c_char, size: usize),
>;
extern "C" {
    #[doc = " Sets the metrics callback; NULL: none. The `destroy` of the previous one runs."]
    pub fn hws_engine_set_metrics(
        engine: *mut hws_engine,
        callback: hws_metrics_fn,
        user: *mut ::core::ffi::c_void,
        destroy: ::core::option::Option<unsafe extern "C" fn(arg1: *mut ::core::ffi::c_void)>,
    ) -> hws_status;
}
extern "C" {
    #[doc = " Returns the callback's object on demand: the last step, and the bytes that one rank of this process sent"]
    #[doc = " in it (\"communication\") and since the engine was made (\"communication_total\"), by process group and"]
    #[doc = " operation: \"calls\"; \"bytes\", the payload that the plan counts; \"wire_bytes\", the bytes sent to other"]
    #[doc = " processes or to the host program's transport, with headers and padding (0 between threads)."]
    #[doc = " \"validation_losses\" has the last loss of each of several data.validation_sources, {name: nats}, and"]
    #[doc = " \"ended_early\" is true if the last run of train ended by train.patience. \"preferences\", for an objective"]
    #[doc = " over pairs: the means over the pairs of the last step of \"chosen_reward\", \"rejected_reward\" and \"margin\","]
    #[doc = " and \"accuracy\", the share of pairs whose chosen answer has the higher reward, where equal rewards count as"]
    #[doc = " half a pair; \"validation_preferences\": those of the last validation."]
    #[doc = " \"attention_scores\", with optimizer.qk_clip: \"largest\", the largest score of the last step (null if it is"]
    #[doc = " not finite), and \"heads_above_limit\", the number of heads, summed over layers, that exceeded the limit."]
    #[doc = " \"ahead_losses\", with model.ahead: for each depth, the mean loss of its targets in the last step."]
    #[doc = " \"experts\", for a model with experts: for each layer the load of the busiest and the idlest over their"]
    #[doc = " mean, the number of idle ones, the mean number of rounds in which a micro-batch's rows were sent to them,"]
    #[doc = " the share of choices dropped, and both losses of its router. \"event_failures\" counts records of"]
    #[doc = " /telemetry/tensorboard that could not be written, \"event_error\" has the reason. Works at any time, on any"]
    #[doc = " thread."]
    pub fn hws_engine_metrics(engine: *const hws_engine, out: *mut *mut hws_buffer) -> hws_status;
}
#[doc = " The state of an engine. Numbers of the last step are NaN before the first step and after a load."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct hws_progress {
    pub struct_size: u32,
    #[doc = "< HWS_PHASE_*"]
    pub phase: i32,
    #[doc = "< steps taken, skipped and discarded ones too"]
    pub step: i64,
    #[doc = "< the step at which the running hws_engine_train ends; 0: none runs"]
    pub until_step: i64,
    #[doc = "< the step at which the config ends a run (train.steps)"]
    pub total_steps: i64,
    #[doc = "< data cursor: rows consumed since the start"]
    pub samples: i64,
    #[doc = "< positions in these rows"]
    pub tokens: i64,
    #[doc = "< steps skipped or discarded"]
    pub skipped: i64,
    #[doc = "< progress of the phase: rows evaluated, tokens generated"]
    pub done: i64,
    #[doc = "< the number of these at its end; 0: nothing is counted"]
    pub total: i64,
    #[doc = "< of the last step, like the next three"]
    pub loss: f64,
    pub grad_norm: f64,
    pub learning_rate: f64,
    pub step_seconds: f64,
    #[doc = "< of the last step"]
    pub tokens_per_second: f64,
    #[doc = "< of the last validation within train; NaN: none yet"]
    pub validation_loss: f64,
    #[doc = "< since the running call began; 0 if none runs"]
    pub running_seconds: f64,
    #[doc = "< checkpoints that this engine could not write"]
    pub save_failures: i64,
    #[doc = "< 1: a checkpoint is being written during training"]
    pub saving: i32,
    #[doc = "< 0"]
    pub reserved: i32,
}
extern "C" {
    #[doc = " Fills *progress, for a monitor or a progress bar. Works at any time, on any thread; it neither waits for a"]
    #[doc = " step nor allocates memory."]
    pub fn hws_engine_progress(engine: *const hws_engine, progress: *mut hws_progress) -> hws_status;
}
extern "C" {
    #[doc = " Sets what is recorded from the next step on, on every rank of this process, and drops what was recorded. A"]
    #[doc = " GPU then gets its work call by call instead of as graphs (/cuda/graphs), so the CPU's share of a step is"]
    #[doc = " larger. Errors: HWS_FAILED_PRECONDITION for inference and while a step is pending."]
    pub fn hws_engine_set_trace(engine: *mut hws_engine, detail: i32) -> hws_status;
}
extern "C" {
    #[doc = " *out: the last step. HWS_FORMAT_JSON: trace events for Perfetto and chrome://tracing, with a process per"]
    #[doc = " rank and a thread per lane (compute, communication, saves), in microseconds; for each rank, \"otherData\" has"]
    #[doc = " the share of its communication that was hidden behind compute, and the time for which exchanges within"]
    #[doc = " blocks delayed it (\"exchanging_seconds\") or ran while it computed (\"beside_seconds\"). HWS_FORMAT_TEXT: only"]
    #[doc = " these figures, as a table. HWS_FORMAT_SVG: an image with one row per lane. It shows instructions, not"]
    #[doc = " kernels; each column of half a pixel has the colour of what ran longest in it. Errors:"]
    #[doc = " HWS_FAILED_PRECONDITION if no step was recorded."]
    pub fn hws_engine_trace(engine: *const hws_engine, format: i32, out: *mut *mut hws_buffer) -> hws_status;
}
extern "C" {
    #[doc = " *out: where the time of the steps went since HWS_TRACE_KERNELS was set, without the first step, which"]
    #[doc = " warms up, if there is another. HWS_FORMAT_JSON: {\"ranks\": [{\"rank\", \"steps\", \"seconds\", \"waited_seconds\","]
    #[doc = " \"communication\": {\"calls\", \"seconds\", \"bytes\"}, \"exchanges\": the same within blocks (the rank computed"]
    #[doc = " during \"beside_seconds\" of them: pairs of dualpipev, and chunks of mesh.tp_chunks), \"kernels\":"]
    #[doc = " [{\"kernel\", \"type\", \"calls\", \"seconds\", \"flops\", \"bytes\"}]}]}, slowest kernel first. A matmul, also a"]
    #[doc = " fused one such as \"matmul_gelu\", has a row for each shape (\"m\", \"n\", \"k\", \"a_transposed\","]
    #[doc = " \"b_transposed\"). Attention has a row for each number of keys and size of a head (\"length\", \"head_dim\")."]
    #[doc = " flops are those of matrix products and attention; bytes are those of the operands, each read or written"]
    #[doc = " once. HWS_FORMAT_TEXT: the same as a table. Errors:"]
    #[doc = " HWS_FAILED_PRECONDITION if no step was recorded."]
    pub fn hws_engine_profile(
        engine: *const hws_engine,
        format: i32,
        out: *mut *mut hws_buffer,
    ) -> hws_status;
}
extern "C" {
    #[doc = " *out: the flight recorder, the last calls (up to 2,048) of each rank of this process to other ranks,"]
    #[doc = " finished, failed or still waiting. It is always on and costs next to nothing. Works at any time, on any"]
    #[doc = " thread, also during a call that does not return and after an error. HWS_FORMAT_JSON: {\"ranks\": [{\"rank\","]
    #[doc = " \"world_size\", \"time\", \"groups\": [{\"name\", \"members\", \"lane\"}], \"calls\": [{\"ticket\", \"sequence\","]
    #[doc = " \"operation\", \"group\", \"bytes\", \"state\", \"issued\", \"entered\", \"ended\"}]}]}, oldest call first. Calls of one"]
    #[doc = " lane run one after the other, concurrently with those of other lanes. \"ticket\" counts the calls of a lane."]
    #[doc = " \"sequence\" counts the calls of a group and is equal on all its members. \"state\" is \"queued\", \"running\""]
    #[doc = " (entered, waiting for other ranks), \"finished\" or \"failed\". Times are seconds since 1970; null: not yet."]
    #[doc = " HWS_FORMAT_TEXT: a table of the last few. An engine of one rank has none."]
    pub fn hws_engine_flight(engine: *const hws_engine, format: i32, out: *mut *mut hws_buffer)
        -> hws_status;
}
