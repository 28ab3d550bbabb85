// Hawser for C++20: wraps hawser.h in objects, exceptions and spans. This file needs only hawser.h and the
// standard library; link libhawser.
//
//   hawser::Config config = hawser::Config::preset("quickstart");
//   hawser::Engine engine(config);
//   for (const hawser::StepResult& step : engine.steps(100)) std::printf("%f\n", step.loss);
//
// hawser.h documents each function; its statements hold here, too. In addition:
//   - A status other than HWS_OK is thrown as the class of its code (hawser::ConfigInvalid, ...), all of
//     which derive from hawser::Error.
//  - An object owns its handle: it can be moved, not copied, and its destructor destroys the handle. Calls on
//    an object that was moved from throw hawser::BadHandle.
//   - `const` functions may run concurrently on any thread. The others need exclusive use of the object.
//   - Callbacks are callables. An exception of a callback reaches the caller of the function that ran it.
//  - Reports are JSON texts, as std::string.
#pragma once

#include <hawser.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hawser {

// ------------------------------------------------------------------------------------------------- errors

/// The failure of a call. what() has the problem, the place, the value and the remedy.
class Error : public std::runtime_error {
 public:
  Error(hws_status code, const std::string& message, std::string details = "{}")
      : std::runtime_error(message), code_(code), details_(std::move(details)) {}
  hws_status code() const noexcept { return code_; }
  /// A JSON object with "pointer", "file", "argument" and other keys as they apply.
  const std::string& details() const noexcept { return details_; }

 private:
  hws_status code_;
  std::string details_;
};

/// The exception class of one code.
template <hws_status kCodeOf>
class ErrorOf : public Error {
 public:
  static constexpr hws_status kCode = kCodeOf;
  explicit ErrorOf(const std::string& message, std::string details = "{}")
      : Error(kCodeOf, message, std::move(details)) {}
};

using Cancelled = ErrorOf<HWS_CANCELLED>;
using Unknown = ErrorOf<HWS_UNKNOWN>;
using InvalidArgument = ErrorOf<HWS_INVALID_ARGUMENT>;
using Timeout = ErrorOf<HWS_TIMEOUT>;
using NotFound = ErrorOf<HWS_NOT_FOUND>;
using AlreadyExists = ErrorOf<HWS_ALREADY_EXISTS>;
using Permission = ErrorOf<HWS_PERMISSION>;
using OutOfMemory = ErrorOf<HWS_OUT_OF_MEMORY>;
using FailedPrecondition = ErrorOf<HWS_FAILED_PRECONDITION>;
using Aborted = ErrorOf<HWS_ABORTED>;
using OutOfRange = ErrorOf<HWS_OUT_OF_RANGE>;
using Unimplemented = ErrorOf<HWS_UNIMPLEMENTED>;
using Internal = ErrorOf<HWS_INTERNAL>;
using Unavailable = ErrorOf<HWS_UNAVAILABLE>;
using DataLoss = ErrorOf<HWS_DATA_LOSS>;
using Io = ErrorOf<HWS_IO>;
using ConfigParse = ErrorOf<HWS_CONFIG_PARSE>;
using ConfigInvalid = ErrorOf<HWS_CONFIG_INVALID>;
using DeviceUnavailable = ErrorOf<HWS_DEVICE_UNAVAILABLE>;
using CheckpointCorrupt = ErrorOf<HWS_CHECKPOINT_CORRUPT>;
using CheckpointIncompatible = ErrorOf<HWS_CHECKPOINT_INCOMPATIBLE>;
using Numeric = ErrorOf<HWS_NUMERIC>;
using DataInvalid = ErrorOf<HWS_DATA_INVALID>;
using Busy = ErrorOf<HWS_BUSY>;
using Forked = ErrorOf<HWS_FORKED>;
using BadHandle = ErrorOf<HWS_BAD_HANDLE>;
using AbiMismatch = ErrorOf<HWS_ABI_MISMATCH>;
using CallbackFailed = ErrorOf<HWS_CALLBACK>;

/// The name of a code: "HWS_CONFIG_INVALID" for HWS_CONFIG_INVALID.
inline std::string status_name(hws_status status) { return hws_status_name(status); }

namespace detail {

/// Throws the class of `code`, or Error for a code of a newer library.
template <hws_status... kCodes>
[[noreturn]] void throw_one_of(std::integer_sequence<hws_status, kCodes...>, hws_status code,
                               const std::string& message, const std::string& details) {
  ((code == kCodes ? throw ErrorOf<kCodes>(message, details) : void()), ...);
  throw Error(code, message, details);
}

using Codes = std::integer_sequence<hws_status, HWS_CANCELLED, HWS_UNKNOWN, HWS_INVALID_ARGUMENT, HWS_TIMEOUT,
                                    HWS_NOT_FOUND, HWS_ALREADY_EXISTS, HWS_PERMISSION, HWS_OUT_OF_MEMORY,
                                    HWS_FAILED_PRECONDITION, HWS_ABORTED, HWS_OUT_OF_RANGE, HWS_UNIMPLEMENTED,
                                    HWS_INTERNAL, HWS_UNAVAILABLE, HWS_DATA_LOSS, HWS_IO, HWS_CONFIG_PARSE,
                                    HWS_CONFIG_INVALID, HWS_DEVICE_UNAVAILABLE, HWS_CHECKPOINT_CORRUPT,
                                    HWS_CHECKPOINT_INCOMPATIBLE, HWS_NUMERIC, HWS_DATA_INVALID, HWS_BUSY,
                                    HWS_FORKED, HWS_BAD_HANDLE, HWS_ABI_MISMATCH, HWS_CALLBACK>;

/// The exception of this thread's interrupt poll or progress callback, if it threw.
inline thread_local std::exception_ptr interrupt_error;

/// Throws unless `status` is HWS_OK.
inline void check(hws_status status) {
  if (status == HWS_OK) return;
  if (std::exception_ptr thrown = std::exchange(interrupt_error, nullptr)) {
    if (status == HWS_CANCELLED) std::rethrow_exception(thrown);
  }
  hws_error* taken = nullptr;
  std::string message = hws_status_name(status), details = "{}";
  const bool told = hws_error_take(&taken) == HWS_OK;
  const std::unique_ptr<hws_error, void (*)(hws_error*)> error(taken, hws_error_destroy);
  if (told && hws_error_code(taken) == status) {  // otherwise it is an older error
    message = hws_error_message(taken);
    details = hws_error_details(taken);
  }
  throw_one_of(Codes{}, status, message, details);
}

/// Owns a handle and destroys it by its destroy function.
template <typename T, void (*destroy)(T*)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T* handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      destroy(handle_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Handle() { destroy(handle_); }
  T* get() const { return handle_; }
  T** out() { return &handle_; }

 private:
  T* handle_ = nullptr;
};

using Buffer = Handle<hws_buffer, hws_buffer_destroy>;

/// Returns the text that `call(hws_buffer**)` gives.
template <typename Call>
std::string text(Call&& call) {
  Buffer buffer;
  check(call(buffer.out()));
  return std::string(static_cast<const char*>(hws_buffer_data(buffer.get())), hws_buffer_size(buffer.get()));
}

/// Returns the tokens that `call(hws_buffer**)` gives.
template <typename Call>
std::vector<std::int32_t> tokens(Call&& call) {
  Buffer buffer;
  check(call(buffer.out()));
  const auto* ids = static_cast<const std::int32_t*>(hws_buffer_data(buffer.get()));
  return std::vector<std::int32_t>(ids, ids + hws_buffer_size(buffer.get()) / sizeof(std::int32_t));
}

/// A string for a parameter that must end with a NUL.
inline const char* c_str(const std::string& text) {
  if (text.find('\0') != std::string::npos)
    throw InvalidArgument("a text has a NUL byte inside, where the library would cut it off");
  return text.c_str();
}

/// Keeps the first exception of an engine's callbacks until the call that ran them returns.
struct Pending {
  std::exception_ptr error;
  void rethrow() {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
  /// Returns fn(), or `otherwise` if it throws or an exception is already pending.
  template <typename Fn, typename Value>
  Value hold(Value otherwise, Fn&& fn) noexcept {
    if (error) return otherwise;
    try {
      return fn();
    } catch (...) {
      error = std::current_exception();
      return otherwise;
    }
  }
};

/// True if a callback wants to continue: false if it returned false; void callbacks always continue.
template <typename Fn, typename... Args>
bool wants_more(Fn& fn, Args&&... args) {
  if constexpr (std::is_void_v<std::invoke_result_t<Fn&, Args...>>) {
    fn(std::forward<Args>(args)...);
    return true;
  } else {
    return static_cast<bool>(fn(std::forward<Args>(args)...));
  }
}

/// A callable that the library owns, and the place where its exceptions are stored.
template <typename Fn>
struct Owned {
  Fn fn;
  std::shared_ptr<Pending> pending;
  static void destroy(void* user) { delete static_cast<Owned*>(user); }
};

}  // namespace detail

// ------------------------------------------------------------------------------------------------ library

inline std::uint32_t library_abi() { return hws_library_abi(); }
inline std::string library_version() { return hws_library_version(); }
inline std::string library_info() { return detail::text(hws_library_info); }

inline std::string device_list() { return detail::text(hws_device_list); }
inline std::string device_measure(std::int32_t threads = 0, double seconds = 0) {
  return detail::text([&](hws_buffer** out) { return hws_device_measure(threads, seconds, out); });
}
/// Prepares text for training (hws_data_prepare). request: JSON; progress: called with JSON from time to
/// time, or null. Returns the report as JSON.
inline std::string prepare_data(const std::string& request,
                                std::function<void(std::string_view)> progress = nullptr) {
  struct Listener {
    std::function<void(std::string_view)> fn;
    detail::Pending pending;
  } listener{std::move(progress), {}};
  const hws_prepare_fn tell = [](void* user, const char* json, std::size_t size) {
    auto* to = static_cast<Listener*>(user);
    to->pending.hold(0, [&] { return to->fn(std::string_view(json, size)), 0; });
  };
  const std::string report = detail::text([&](hws_buffer** out) {
    const hws_status status =
        hws_data_prepare(detail::c_str(request), listener.fn ? tell : nullptr, &listener, nullptr, out);
    listener.pending.rethrow();
    return status;
  });
  return report;
}
/// Returns a row of a prepared folder as the model sees it, as JSON.
inline std::string preview_data(const std::string& folder, std::int64_t row) {
  return detail::text([&](hws_buffer** out) { return hws_data_preview(detail::c_str(folder), row, out); });
}

/// Returns operations per second; precision: "fp32" or "bf16".
inline double device_peak(const std::string& precision, std::int32_t threads = 0, double seconds = 0) {
  double flops = 0;
  detail::check(hws_device_peak(threads, detail::c_str(precision), seconds, &flops));
  return flops;
}

/// Sets the interrupt poll of this thread. Long calls run it; they end with Cancelled if it returns true, or
/// with its exception. An empty function removes the poll.
inline void set_thread_interrupt(std::function<bool()> poll) {
  if (!poll) return detail::check(hws_thread_set_interrupt(nullptr, nullptr, nullptr));
  using Owned = detail::Owned<std::function<bool()>>;
  const hws_interrupt_fn ask = [](void* user) -> std::int32_t {
    try {
      return static_cast<Owned*>(user)->fn() ? 1 : 0;
    } catch (...) {
      detail::interrupt_error = std::current_exception();
      return 1;
    }
  };
  detail::check(hws_thread_set_interrupt(ask, new Owned{std::move(poll), nullptr}, Owned::destroy));
}

/// Sets the progress callback of this thread (hws_thread_set_progress). It receives JSON while an engine that
/// is being made computes the log-probabilities of a reference; that call ends with Cancelled if the callback
/// returns false, or with its exception. An empty function removes the callback.
inline void set_thread_progress(std::function<bool(std::string_view)> progress) {
  if (!progress) return detail::check(hws_thread_set_progress(nullptr, nullptr, nullptr));
  using Owned = detail::Owned<std::function<bool(std::string_view)>>;
  const hws_progress_fn tell = [](void* user, const char* json, std::size_t size) -> std::int32_t {
    try {
      return static_cast<Owned*>(user)->fn(std::string_view(json, size)) ? 0 : 1;
    } catch (...) {
      detail::interrupt_error = std::current_exception();
      return 1;
    }
  };
  detail::check(hws_thread_set_progress(tell, new Owned{std::move(progress), nullptr}, Owned::destroy));
}

// ---------------------------------------------------------------------------------------- config and plan

enum class Format : std::int32_t {
  kJson = HWS_FORMAT_JSON,
  kBinary = HWS_FORMAT_BINARY,
  kResolved = HWS_FORMAT_RESOLVED,
  kText = HWS_FORMAT_TEXT,
  kSvg = HWS_FORMAT_SVG
};

class Config {
 public:
  /// Parses JSON or, with Format::kBinary, FlatBuffers.
  static Config parse(std::string_view data, Format format = Format::kJson) {
    return make([&](hws_config** out) {
      return hws_config_parse(data.data(), data.size(), static_cast<std::int32_t>(format), out);
    });
  }
  static Config preset(const std::string& name) {
    return make([&](hws_config** out) { return hws_config_preset(detail::c_str(name), out); });
  }
  /// The config of the model in a checkpoint or a Hugging Face folder.
  static Config from_model(const std::string& path) {
    return make([&](hws_config** out) { return hws_config_from_model(detail::c_str(path), out); });
  }
  static std::string presets() { return detail::text(hws_config_presets); }
  static std::string schema(Format format = Format::kJson) {
    return detail::text(
        [&](hws_buffer** out) { return hws_config_schema(static_cast<std::int32_t>(format), out); });
  }

  Config clone() const {
    return make([&](hws_config** out) { return hws_config_clone(get(), out); });
  }
  Config& set(const std::string& pointer, const std::string& json_value) {
    detail::check(hws_config_set(get(), detail::c_str(pointer), detail::c_str(json_value)));
    return *this;
  }
  std::string validate() const {
    return detail::text([&](hws_buffer** out) { return hws_config_validate(get(), out); });
  }
  std::string explain(const std::string& pointer = "") const {
    return detail::text(
        [&](hws_buffer** out) { return hws_config_explain(get(), detail::c_str(pointer), out); });
  }
  std::string prove_layout(std::int32_t steps) const {
    return detail::text([&](hws_buffer** out) { return hws_config_prove_layout(get(), steps, out); });
  }
  Config fit_ranks(std::int32_t ranks) const {
    return make([&](hws_config** out) { return hws_config_fit_ranks(get(), ranks, out); });
  }
  std::string serialize(Format format = Format::kJson) const {
    return detail::text([&](hws_buffer** out) {
      return hws_config_serialize(get(), static_cast<std::int32_t>(format), out);
    });
  }
  hws_config* get() const { return handle_.get(); }

 private:
  Config() = default;
  template <typename Call>
  static Config make(Call&& call) {
    Config config;
    detail::check(call(config.handle_.out()));
    return config;
  }
  detail::Handle<hws_config, hws_config_destroy> handle_;
};

class Plan {
 public:
  explicit Plan(const Config& config) { detail::check(hws_plan_create(config.get(), handle_.out())); }
  /// Plans for a cluster: `cluster` is the text of a cluster file, or the name of one in the library.
  /// `imbalance`: the load of the busiest rank's experts over the mean of all ranks.
  Plan(const Config& config, const std::string& cluster, double tokens = 0, double imbalance = 1) {
    detail::check(hws_plan_create_on(config.get(), detail::c_str(cluster), tokens, imbalance, handle_.out()));
  }
  /// Finds the fastest layouts on a cluster. `ranks`: 0 for those of the cluster, or else of the config's
  /// mesh.
  static Plan search(const Config& config, const std::string& cluster, std::int64_t ranks = 0,
                     std::int32_t top = 10, double imbalance = 1) {
    Plan found;
    detail::check(
        hws_plan_search(config.get(), detail::c_str(cluster), ranks, top, imbalance, found.handle_.out()));
    return found;
  }
  std::string report(Format format = Format::kText) const {
    return detail::text([&](hws_buffer** out) {
      return hws_plan_report(handle_.get(), static_cast<std::int32_t>(format), out);
    });
  }
  /// Returns the predicted step of a plan for a cluster, in the formats of Engine::trace.
  std::string trace(Format format = Format::kJson) const {
    return detail::text([&](hws_buffer** out) {
      return hws_plan_trace(handle_.get(), static_cast<std::int32_t>(format), out);
    });
  }

 private:
  Plan() = default;
  detail::Handle<hws_plan, hws_plan_destroy> handle_;
};

// --------------------------------------------------------------------------------------------------- comm

/// hws_comm_address; fields that are empty or 0 count as not given.
struct Address {
  std::int32_t rank = 0, world_size = 0;
  std::string address, host, network_interface;
  double timeout_seconds = 0, silence_seconds = 0;
  std::string job, secret_file;
  std::function<std::string()> secret;
  bool trust_network = false, without_shared_memory = false;
};

/// A transport of the host program (hws_comm_host). An exception of a function is its failure: the code of an
/// Error, or HWS_UNAVAILABLE for any other exception.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(std::int32_t to_rank, std::span<const std::byte> data, double timeout_seconds) = 0;
  virtual void receive(std::int32_t from_rank, std::span<std::byte> data, double timeout_seconds) = 0;
  /// Reports that this rank has failed: its calls must return at once. Called on any thread.
  virtual void abort(hws_status, const std::string&) {}
};

namespace detail {

/// Adapts a Transport to the functions of hws_comm_host.
struct TransportLink {
  std::unique_ptr<Transport> transport;
  std::string message;
  template <typename Fn>
  hws_status run(Fn&& fn) noexcept {
    try {
      fn();
      return HWS_OK;
    } catch (const Error& error) {
      message = error.what();
      return error.code();
    } catch (const std::exception& error) {
      message = error.what();
    } catch (...) {
      message = "the transport threw what is no std::exception";
    }
    return HWS_UNAVAILABLE;
  }
};

}  // namespace detail

class Comm {
 public:
  /// Makes ranks as threads of this process.
  static Comm local(std::int32_t ranks) {
    return make([&](hws_comm** out) { return hws_comm_create_local(ranks, out); });
  }
  static Comm address(const Address& given) { return with(given, hws_comm_create_address); }
  /// Makes a rank from a launcher's variables; `overrides` take precedence.
  static Comm env(const Address& overrides = {}) { return with(overrides, hws_comm_create_env); }
  static std::string read_env() { return detail::text(hws_comm_read_env); }
  static Comm host(std::unique_ptr<Transport> transport, std::int32_t rank, std::int32_t world_size);

  std::string info() const {
    return detail::text([&](hws_buffer** out) { return hws_comm_info(get(), out); });
  }
  hws_comm* get() const { return handle_.get(); }

 private:
  Comm() = default;
  template <typename Call>
  static Comm make(Call&& call) {
    Comm comm;
    detail::check(call(comm.handle_.out()));
    return comm;
  }
  template <typename Create>
  static Comm with(const Address& given, Create create);
  detail::Handle<hws_comm, hws_comm_destroy> handle_;
};

template <typename Create>
Comm Comm::with(const Address& given, Create create) {
  struct Secret {
    const std::function<std::string()>& fn;
    detail::Pending pending;
  } secret{given.secret, {}};
  const auto optional = [](const std::string& text) { return text.empty() ? nullptr : detail::c_str(text); };
  hws_comm_address to = {};
  to.struct_size = sizeof to;
  to.rank = given.rank;
  to.world_size = given.world_size;
  to.address = optional(given.address);
  to.host = optional(given.host);
  to.network_interface = optional(given.network_interface);
  to.timeout_seconds = given.timeout_seconds;
  to.silence_seconds = given.silence_seconds;
  to.job = optional(given.job);
  to.secret_file = optional(given.secret_file);
  to.trust_network = given.trust_network ? 1 : 0;
  to.without_shared_memory = given.without_shared_memory ? 1 : 0;
  to.secret_user = &secret;
  if (given.secret) {
    to.secret = [](void* user, void* data, std::size_t capacity, std::size_t* bytes) -> std::int32_t {
      auto* from = static_cast<Secret*>(user);
      return from->pending.hold(1, [&] {
        const std::string text = from->fn();
        *bytes = text.size();
        std::memcpy(data, text.data(), text.size() < capacity ? text.size() : capacity);
        return 0;
      });
    };
  }
  Comm comm;
  const hws_status status = create(&to, comm.handle_.out());
  secret.pending.rethrow();
  detail::check(status);
  return comm;
}

inline Comm Comm::host(std::unique_ptr<Transport> transport, std::int32_t rank, std::int32_t world_size) {
  using Link = detail::TransportLink;
  auto link = std::make_unique<Link>(Link{std::move(transport), {}});
  hws_comm_host to = {};
  to.struct_size = sizeof to;
  to.rank = rank;
  to.world_size = world_size;
  to.user = link.get();
  to.send = [](void* user, std::int32_t peer, const void* data, std::int64_t bytes, double timeout) {
    auto* from = static_cast<Link*>(user);
    return from->run([&] {
      from->transport->send(peer, {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)},
                            timeout);
    });
  };
  to.recv = [](void* user, std::int32_t peer, void* data, std::int64_t bytes, double timeout) {
    auto* from = static_cast<Link*>(user);
    return from->run([&] {
      from->transport->receive(peer, {static_cast<std::byte*>(data), static_cast<std::size_t>(bytes)},
                               timeout);
    });
  };
  to.abort = [](void* user, hws_status code, const char* message) {
    try {
      static_cast<Link*>(user)->transport->abort(code, message);
    } catch (...) {  // no caller can receive this exception
    }
  };
  to.message = [](void* user) { return static_cast<Link*>(user)->message.c_str(); };
  to.destroy = [](void* user) { delete static_cast<Link*>(user); };
  static_cast<void>(link.release());  // the library owns it, even if the call fails
  return make([&](hws_comm** out) { return hws_comm_create_host(&to, out); });
}

// --------------------------------------------------------------------------------------------- tokenizers

/// A model's tokenizer and chat template.
class Tokenizer {
 public:
  /// Opens the tokenizer of a tokenizer.json, a Hugging Face folder, or a checkpoint.
  static Tokenizer open(const std::string& path) {
    return make([&](hws_tokenizer** out) { return hws_tokenizer_open(detail::c_str(path), out); });
  }
  /// Trains a byte-level BPE and writes it to `path`. files, special_tokens: JSON arrays.
  static void train(const std::string& files, std::int64_t vocab_size, const std::string& path,
                    const std::string& special_tokens = "[]") {
    detail::check(hws_tokenizer_train(detail::c_str(files), vocab_size, detail::c_str(special_tokens),
                                      detail::c_str(path)));
  }

  std::string info() const {
    return detail::text([&](hws_buffer** out) { return hws_tokenizer_info(get(), out); });
  }
  /// add_special: adds the special tokens that begin or end a text.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special = false) const {
    return detail::tokens([&](hws_buffer** out) {
      return hws_tokenizer_encode(get(), text.data(), text.size(), add_special ? HWS_TEXT_ADD_SPECIAL : 0,
                                  out);
    });
  }
  /// skip_special: omits special tokens. whole: omits an incomplete character at the end.
  std::string decode(std::span<const std::int32_t> tokens, bool skip_special = false,
                     bool whole = false) const {
    const std::uint32_t flags = (skip_special ? HWS_TEXT_SKIP_SPECIAL : 0) | (whole ? HWS_TEXT_WHOLE : 0);
    return detail::text([&](hws_buffer** out) {
      return hws_tokenizer_decode(get(), tokens.data(), tokens.size(), flags, out);
    });
  }
  /// chat: a JSON object with "messages".
  std::string render(const std::string& chat) const {
    return detail::text(
        [&](hws_buffer** out) { return hws_tokenizer_render(get(), detail::c_str(chat), out); });
  }
  hws_tokenizer* get() const { return handle_.get(); }

 private:
  friend class Engine;
  Tokenizer() = default;
  template <typename Call>
  static Tokenizer make(Call&& call) {
    Tokenizer tokenizer;
    detail::check(call(tokenizer.handle_.out()));
    return tokenizer;
  }
  detail::Handle<hws_tokenizer, hws_tokenizer_destroy> handle_;
};

// ----------------------------------------------------------------------------------- what engines work with

using Sizes = hws_sizes;
using Progress = hws_progress;
using StepResult = hws_step_result;
using TrainRecord = hws_train_record;
using SourceBatch = hws_source_batch;

/// rows x cols tokens, with targets, document_begin and weights unless they are empty. It borrows the arrays.
struct Batch {
  std::int64_t rows = 0, cols = 0;
  std::span<const std::int32_t> tokens, targets, document_begin;
  std::span<const float> weights = {};
  std::span<const float> references = {};          ///< one number a row, for objectives with a reference
  std::int64_t teacher_top = 0;                    ///< ids of a teacher at each position (teacher.top)
  std::span<const std::int32_t> teacher_ids = {};  ///< rows x cols x teacher_top
  std::span<const float> teacher_logprobs = {};    ///< the same
};

/// The likeliest tokens of each position with their log-probabilities, rows x cols x top each.
struct TopLogprobs {
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;
};

struct Evaluation {
  double loss = 0;
  std::int64_t tokens = 0;  ///< unmasked targets
};

struct GenerateRequest {
  std::span<const std::int32_t> prompt;
  std::int64_t max_tokens = 0;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
  std::int32_t stop_token = -1;
  std::span<const std::int32_t> stop_tokens = {};  ///< more tokens that end the text
};

enum class TensorKind : std::int32_t {
  kWeight = HWS_TENSOR_WEIGHT,
  kGradient = HWS_TENSOR_GRADIENT,
  kMoment1 = HWS_TENSOR_MOMENT1,
  kMoment2 = HWS_TENSOR_MOMENT2,
  kAverage = HWS_TENSOR_AVERAGE
};

enum class Trace : std::int32_t {
  kOff = HWS_TRACE_OFF,
  kInstructions = HWS_TRACE_INSTRUCTIONS,
  kKernels = HWS_TRACE_KERNELS
};

/// A view of a tensor without a copy; it may outlive its engine.
class TensorView {
 public:
  explicit TensorView(DLManagedTensorVersioned* tensor) : tensor_(tensor) {}
  TensorView(TensorView&& other) noexcept : tensor_(other.release()) {}
  TensorView& operator=(TensorView&& other) noexcept {
    if (this != &other) TensorView(std::exchange(tensor_, other.release()));
    return *this;
  }
  ~TensorView() {
    if (tensor_ != nullptr) layout().deleter(tensor_);
  }

  std::span<const std::int64_t> shape() const {
    return {layout().tensor.shape, static_cast<std::size_t>(layout().tensor.ndim)};
  }
  std::size_t size() const {
    std::size_t elements = 1;
    for (const std::int64_t length : shape()) elements *= static_cast<std::size_t>(length);
    return elements;
  }
  bool is_f32() const { return layout().tensor.code == 2 && layout().tensor.bits == 32; }
  /// Returns the elements. Throws FailedPrecondition unless they are f32.
  std::span<const float> f32() const {
    if (!is_f32()) throw FailedPrecondition("the tensor is stored as bf16; Engine::tensor copies it as f32");
    return {static_cast<const float*>(layout().tensor.data), size()};
  }
  const DLManagedTensorVersioned* get() const { return tensor_; }
  /// Releases the view to code that takes DLPack tensors and calls the deleter.
  DLManagedTensorVersioned* release() { return std::exchange(tensor_, nullptr); }

 private:
  // DLPack 1.0's struct; works with or without dlpack.h.
  struct Layout {
    std::uint32_t major, minor;
    void* context;
    void (*deleter)(DLManagedTensorVersioned*);
    std::uint64_t flags;
    struct {
      void* data;
      std::int32_t device_type, device_id, ndim;
      std::uint8_t code, bits;
      std::uint16_t lanes;
      std::int64_t *shape, *strides;
      std::uint64_t byte_offset;
    } tensor;
  };
  Layout layout() const {
    if (tensor_ == nullptr) throw BadHandle("the view was moved from or released");
    Layout layout;
    std::memcpy(&layout, static_cast<const void*>(tensor_), sizeof layout);
    return layout;
  }

  DLManagedTensorVersioned* tensor_;
};

/// A save that runs during training. Destroying this object does not end the save.
class Operation {
 public:
  /// Returns false if it still runs after `timeout_seconds` (negative: no limit). Throws the error of a save
  /// that failed.
  bool wait(double timeout_seconds = -1) const {
    hws_status status = hws_op_wait(handle_.get(), timeout_seconds);
    if (status == HWS_TIMEOUT) {
      if (!ended()) return false;
      status = hws_op_wait(handle_.get(), 0);  // it ended just after the timeout: its own result counts
    }
    detail::check(status);
    return true;
  }
  bool ended() const {
    std::int32_t ended = 0;
    detail::check(hws_op_poll(handle_.get(), &ended));
    return ended != 0;
  }
  struct Bytes {
    std::int64_t done = 0, total = 0;
  };
  Bytes progress() const {
    Bytes bytes;
    detail::check(hws_op_progress(handle_.get(), &bytes.done, &bytes.total));
    return bytes;
  }
  void cancel() const { detail::check(hws_op_cancel(handle_.get())); }

 private:
  friend class Engine;
  Operation() = default;
  detail::Handle<hws_op, hws_op_destroy> handle_;
};

// ------------------------------------------------------------------------------------------------- engine

class Steps;

enum class Mode : std::uint32_t { kTraining = 0, kInference = HWS_ENGINE_INFERENCE };

class Engine {
 public:
  explicit Engine(const Config& config, Mode mode = Mode::kTraining) {
    detail::check(hws_engine_create(config.get(), static_cast<std::uint32_t>(mode), handle_.out()));
  }
  /// Makes an engine over all ranks of a comm.
  Engine(const Config& config, const Comm& comm, Mode mode = Mode::kTraining) {
    detail::check(
        hws_engine_create_ranks(config.get(), comm.get(), static_cast<std::uint32_t>(mode), handle_.out()));
  }

  /// Makes an engine for an adapter on the weights of `base`, which it only reads (hws_engine_create_on);
  /// over the ranks of `comm` if there is one.
  static Engine on(const Engine& base, const Config& config, Mode mode = Mode::kTraining,
                   const Comm* comm = nullptr) {
    Engine made;
    detail::check(hws_engine_create_on(base.get(), config.get(), comm ? comm->get() : nullptr,
                                       static_cast<std::uint32_t>(mode), made.handle_.out()));
    return made;
  }

  std::string info() const { return report(hws_engine_info); }
  std::string data_info() const { return report(hws_data_info); }
  Sizes sizes() const { return filled<Sizes>(hws_engine_sizes); }
  /// Works on any thread, at any time.
  Progress progress() const { return filled<Progress>(hws_engine_progress); }
  double learning_rate() const {
    double rate = 0;
    detail::check(hws_engine_learning_rate(get(), &rate));
    return rate;
  }

  // Steps.
  StepResult train_step() { return stepped(hws_engine_train_step); }
  StepResult forward_backward() { return stepped(hws_engine_forward_backward); }
  /// The gradient phase for an objective of your own, from its gradients [rows, cols] by the log-probability
  /// of each target.
  StepResult backward_with(const Batch& batch, std::span<const float> gradients) {
    const hws_batch host = raw(batch);
    return stepped([&](hws_engine* engine, hws_step_result* result) {
      return hws_engine_backward_with(engine, &host, gradients.data(), gradients.size_bytes(), result);
    });
  }
  StepResult commit() { return stepped(hws_engine_commit); }
  StepResult discard(bool rewind = false) {
    return stepped([&](hws_engine* e, StepResult* r) { return hws_engine_discard(e, rewind ? 1 : 0, r); });
  }
  /// Trains with the config's validation and checkpoints until `until_step` (0: the config's last step).
  void train(std::int64_t until_step = 0) {
    train(until_step, [](const TrainRecord&) {});
  }
  /// Also calls callback(record) after each step; if that returns false, the run ends.
  template <std::invocable<const TrainRecord&> Fn>
  void train(std::int64_t until_step, Fn&& callback);
  template <std::invocable<const TrainRecord&> Fn>
  void train(Fn&& callback) {
    train(0, std::forward<Fn>(callback));
  }
  /// A range in which each element is one step, until `until_step` (0: train.steps of the config) or the end
  /// of the source's data. Validation and checkpoints are left to the body of the loop.
  Steps steps(std::int64_t until_step = 0);
  /// Ends a running train, eval or generate. Works on any thread, at any time, also in signal handlers.
  void cancel() const noexcept { static_cast<void>(hws_engine_cancel(get())); }

  // Data.
  void push(const Batch& batch) {
    const hws_batch host = raw(batch);
    detail::check(hws_data_push(get(), &host));
  }
  /// Sets a source: source(SourceBatch&) fills the batch of a step; it returns false at the end of its data.
  /// An empty function restores the config's data.
  void set_source(std::function<bool(SourceBatch&)> source);

  // Use of the model without a change to it.
  /// Puts the moving averages of the weights (optimizer.average) in the place of the weights, or puts the
  /// weights back. Meanwhile training, saves and loads are refused.
  void use_average(bool on = true) { detail::check(hws_engine_use_average(get(), on ? 1 : 0)); }
  Evaluation eval(std::int64_t max_batches = 0) { return evaluated(nullptr, max_batches); }
  Evaluation eval(const Batch& batch) {
    const hws_batch host = raw(batch);
    return evaluated(&host, 0);
  }
  /// logits: [rows, cols, vocab_size]; for a model with a score head the scores, [rows, cols].
  void forward(const Batch& batch, std::span<float> logits) {
    const hws_batch host = raw(batch);
    detail::check(hws_engine_forward(get(), &host, logits.data(), logits.size_bytes()));
  }
  std::vector<float> forward(const Batch& batch) {
    std::vector<float> logits(static_cast<std::size_t>(batch.rows * batch.cols * sizes().outputs));
    forward(batch, logits);
    return logits;
  }
  /// The log-probability of each target, [rows, cols]; 0 where it is masked.
  void logprobs(const Batch& batch, std::span<float> logprobs) {
    const hws_batch host = raw(batch);
    detail::check(hws_engine_logprobs(get(), &host, logprobs.data(), logprobs.size_bytes()));
  }
  std::vector<float> logprobs(const Batch& batch) {
    std::vector<float> result(static_cast<std::size_t>(batch.rows * batch.cols));
    logprobs(batch, result);
    return result;
  }
  /// The `top` likeliest next tokens of each position, the likeliest first: the rows of a teacher.
  void top_logprobs(const Batch& batch, std::int64_t top, std::span<std::int32_t> ids,
                    std::span<float> logprobs) {
    const hws_batch host = raw(batch);
    detail::check(hws_engine_top_logprobs(get(), &host, top, ids.data(), ids.size_bytes(), logprobs.data(),
                                          logprobs.size_bytes()));
  }
  TopLogprobs top_logprobs(const Batch& batch, std::int64_t top) {
    const auto size = static_cast<std::size_t>(top < 0 ? 0 : batch.rows * batch.cols * top);
    TopLogprobs result{std::vector<std::int32_t>(size), std::vector<float>(size)};
    top_logprobs(batch, top, result.ids, result.logprobs);
    return result;
  }
  /// Calls callback(token) for each new token; if that returns false, the text ends.
  template <std::invocable<std::int32_t> Fn>
  void generate(const GenerateRequest& request, Fn&& callback);
  std::vector<std::int32_t> generate(const GenerateRequest& request) {
    std::vector<std::int32_t> tokens;
    generate(request, [&](std::int32_t token) { tokens.push_back(token); });
    return tokens;
  }
  std::vector<std::int32_t> encode(std::string_view text) const {
    return detail::tokens(
        [&](hws_buffer** out) { return hws_text_encode(get(), text.data(), text.size(), out); });
  }
  std::string decode(std::span<const std::int32_t> tokens) const {
    return report([&](const hws_engine* engine, hws_buffer** out) {
      return hws_text_decode(engine, tokens.data(), tokens.size(), out);
    });
  }

  /// Opens the tokenizer of the engine's model.
  Tokenizer tokenizer() const {
    return Tokenizer::make([&](hws_tokenizer** out) { return hws_engine_tokenizer(get(), out); });
  }

  // Tensors.
  std::string tensors() const { return report(hws_tensor_list); }
  std::string tensor_statistics() const { return report(hws_tensor_statistics); }
  void get_tensor(const std::string& name, std::span<float> values,
                  TensorKind kind = TensorKind::kWeight) const {
    detail::check(hws_tensor_get(get(), static_cast<std::int32_t>(kind), detail::c_str(name), values.data(),
                                 values.size_bytes()));
  }
  void set_tensor(const std::string& name, std::span<const float> values,
                  TensorKind kind = TensorKind::kWeight) {
    detail::check(hws_tensor_set(get(), static_cast<std::int32_t>(kind), detail::c_str(name), values.data(),
                                 values.size_bytes()));
  }
  TensorView view(const std::string& name, TensorKind kind = TensorKind::kWeight) const {
    DLManagedTensorVersioned* tensor = nullptr;
    detail::check(hws_tensor_view(get(), static_cast<std::int32_t>(kind), detail::c_str(name), &tensor));
    return TensorView(tensor);
  }

  // Checkpoints.
  void save(const std::string& path) { detail::check(hws_checkpoint_save(get(), detail::c_str(path))); }
  Operation save_async(const std::string& path) {
    Operation operation;
    detail::check(hws_checkpoint_save_async(get(), detail::c_str(path), operation.handle_.out()));
    return operation;
  }
  void load(const std::string& path, bool other_data = false) {
    detail::check(hws_checkpoint_load(get(), detail::c_str(path), other_data ? HWS_LOAD_OTHER_DATA : 0));
  }
  std::string load_latest(const std::string& folder, bool other_data = false) {
    return detail::text([&](hws_buffer** out) {
      return hws_checkpoint_load_latest(get(), detail::c_str(folder), other_data ? HWS_LOAD_OTHER_DATA : 0,
                                        out);
    });
  }
  /// Writes a Hugging Face folder. dtype: "f32", "bf16", "f16" or "" (as imported).
  void export_to(const std::string& hf_folder, const std::string& dtype = "") const {
    detail::check(hws_engine_export(get(), detail::c_str(hf_folder), detail::c_str(dtype)));
  }
  /// Writes the adapter as a PEFT folder. export_to merges it.
  void export_adapter_to(const std::string& peft_folder) const {
    detail::check(hws_engine_export_adapter(get(), detail::c_str(peft_folder)));
  }

  // Metrics, traces.
  /// Calls callback(json) after each step; an empty function removes it. An exception ends a run of train.
  void set_metrics(std::function<void(std::string_view)> callback);
  std::string metrics() const { return report(hws_engine_metrics); }
  void set_trace(Trace detail) {
    detail::check(hws_engine_set_trace(get(), static_cast<std::int32_t>(detail)));
  }
  std::string trace(Format format = Format::kJson) const { return report(hws_engine_trace, format); }
  std::string profile(Format format = Format::kJson) const { return report(hws_engine_profile, format); }
  std::string flight(Format format = Format::kJson) const { return report(hws_engine_flight, format); }

  hws_engine* get() const { return handle_.get(); }

 private:
  Engine() = default;
  template <typename Read>
  std::string report(Read&& read) const {
    return detail::text([&](hws_buffer** out) { return read(static_cast<const hws_engine*>(get()), out); });
  }
  std::string report(hws_status (*read)(const hws_engine*, std::int32_t, hws_buffer**), Format format) const {
    return detail::text(
        [&](hws_buffer** out) { return read(get(), static_cast<std::int32_t>(format), out); });
  }
  template <typename T>
  T filled(hws_status (*fill)(const hws_engine*, T*)) const {
    T value = {};
    value.struct_size = sizeof value;
    detail::check(fill(get(), &value));
    return value;
  }
  template <typename Step>
  StepResult stepped(Step&& step) {
    StepResult result = {};
    result.struct_size = sizeof result;
    finish(step(get(), &result));
    return result;
  }
  Evaluation evaluated(const hws_batch* batch, std::int64_t max_batches) {
    Evaluation result;
    detail::check(hws_engine_eval(get(), batch, max_batches, &result.loss, &result.tokens));
    return result;
  }
  /// Ends a call that may have run callbacks: rethrows their exception, or else throws the error of `status`.
  void finish(hws_status status) {
    if (pending_) pending_->rethrow();
    detail::check(status);
  }
  static hws_batch raw(const Batch& batch);

  std::shared_ptr<detail::Pending> pending_ = std::make_shared<detail::Pending>();
  detail::Handle<hws_engine, hws_engine_destroy> handle_;  // destroyed first
};

inline hws_batch Engine::raw(const Batch& batch) {
  const auto array = [&](const auto& values, const char* name) -> decltype(values.data()) {
    if (values.empty()) return nullptr;
    if (batch.rows < 0 || batch.cols < 0 || (batch.cols > 0 && batch.rows > INT64_MAX / batch.cols) ||
        static_cast<std::uint64_t>(batch.rows * batch.cols) != values.size())
      throw InvalidArgument("batch." + std::string(name) + " has " + std::to_string(values.size()) +
                            " elements; the batch is " + std::to_string(batch.rows) + " x " +
                            std::to_string(batch.cols));
    return values.data();
  };
  hws_batch host = {};
  host.struct_size = sizeof host;
  host.rows = batch.rows;
  host.cols = batch.cols;
  host.tokens = array(batch.tokens, "tokens");
  host.targets = array(batch.targets, "targets");
  host.document_begin = array(batch.document_begin, "document_begin");
  host.weights = array(batch.weights, "weights");
  if (!batch.references.empty() && static_cast<std::int64_t>(batch.references.size()) != batch.rows)
    throw InvalidArgument("batch.references has " + std::to_string(batch.references.size()) +
                          " elements; the batch has " + std::to_string(batch.rows) + " rows");
  host.references = batch.references.empty() ? nullptr : batch.references.data();
  const auto pairs = [&](const auto& values, const char* name) -> decltype(values.data()) {
    if (values.empty()) return nullptr;
    if (batch.teacher_top < 1 || values.size() % static_cast<std::size_t>(batch.teacher_top) != 0 ||
        values.size() / static_cast<std::size_t>(batch.teacher_top) != batch.tokens.size())
      throw InvalidArgument("batch." + std::string(name) + " has " + std::to_string(values.size()) +
                            " elements; the batch is " + std::to_string(batch.rows) + " x " +
                            std::to_string(batch.cols) + " with " + std::to_string(batch.teacher_top) +
                            " pairs for each position");
    return values.data();
  };
  host.teacher_top = batch.teacher_top;
  host.teacher_ids = pairs(batch.teacher_ids, "teacher_ids");
  host.teacher_logprobs = pairs(batch.teacher_logprobs, "teacher_logprobs");
  return host;
}

template <std::invocable<const TrainRecord&> Fn>
void Engine::train(std::int64_t until_step, Fn&& callback) {
  struct Call {
    std::remove_reference_t<Fn>& fn;
    detail::Pending* pending;
  } call{callback, pending_.get()};
  const hws_train_fn tell = [](void* user, const hws_train_record* record) -> std::int32_t {
    auto* to = static_cast<Call*>(user);
    return to->pending->hold(1, [&] { return detail::wants_more(to->fn, *record) ? 0 : 1; });
  };
  finish(hws_engine_train(get(), until_step, tell, &call, nullptr));
}

template <std::invocable<std::int32_t> Fn>
void Engine::generate(const GenerateRequest& request, Fn&& callback) {
  struct Call {
    std::remove_reference_t<Fn>& fn;
    detail::Pending pending;  // a separate one, because generate may run inside a callback of train
  } call{callback, {}};
  hws_generate_request host = {};
  host.struct_size = sizeof host;
  host.stop_token = request.stop_token;
  host.prompt = request.prompt.data();
  host.prompt_length = static_cast<std::int64_t>(request.prompt.size());
  host.max_tokens = request.max_tokens;
  host.temperature = request.temperature;
  host.top_k = request.top_k;
  host.top_p = request.top_p;
  host.seed = request.seed;
  host.stop_tokens = request.stop_tokens.data();
  host.stop_count = static_cast<std::int64_t>(request.stop_tokens.size());
  const hws_token_fn tell = [](void* user, std::int32_t token) -> std::int32_t {
    auto* to = static_cast<Call*>(user);
    return to->pending.hold(1, [&] { return detail::wants_more(to->fn, token) ? 0 : 1; });
  };
  const hws_status status = hws_engine_generate(get(), &host, tell, &call, nullptr);
  call.pending.rethrow();
  detail::check(status);
}

inline void Engine::set_source(std::function<bool(SourceBatch&)> source) {
  if (!source) return detail::check(hws_data_set_source(get(), nullptr, nullptr, nullptr));
  using Owned = detail::Owned<std::function<bool(SourceBatch&)>>;
  const hws_source_fn fill = [](void* user, hws_source_batch* batch) -> std::int32_t {
    auto* from = static_cast<Owned*>(user);
    return from->pending->hold(-1, [&] { return from->fn(*batch) ? 0 : HWS_SOURCE_END; });
  };
  detail::check(hws_data_set_source(get(), fill, new Owned{std::move(source), pending_}, Owned::destroy));
}

inline void Engine::set_metrics(std::function<void(std::string_view)> callback) {
  if (!callback) return detail::check(hws_engine_set_metrics(get(), nullptr, nullptr, nullptr));
  using Owned = detail::Owned<std::function<void(std::string_view)>>;
  const hws_metrics_fn tell = [](void* user, const char* json, std::size_t size) {
    auto* to = static_cast<Owned*>(user);
    to->pending->hold(0, [&] { return to->fn(std::string_view(json, size)), 0; });
  };
  detail::check(
      hws_engine_set_metrics(get(), tell, new Owned{std::move(callback), pending_}, Owned::destroy));
}

/// Steps as a range. Each increment takes one step, so the range is single-pass.
class Steps {
 public:
  class Iterator {
   public:
    using value_type = StepResult;
    using difference_type = std::ptrdiff_t;
    const StepResult& operator*() const { return steps_->last_; }
    const StepResult* operator->() const { return &steps_->last_; }
    Iterator& operator++() {
      steps_->take();
      return *this;
    }
    void operator++(int) { steps_->take(); }
    bool operator==(std::default_sentinel_t) const { return steps_->ended_; }

   private:
    friend class Steps;
    explicit Iterator(Steps* steps) : steps_(steps) {}
    Steps* steps_;
  };

  /// Takes the first step.
  Iterator begin() {
    take();
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Engine;
  Steps(Engine* engine, std::int64_t until_step) : engine_(*engine) {
    const Progress now = engine_.progress();
    last_.step = now.step;
    until_step_ = until_step > 0 ? until_step : now.total_steps;
  }
  void take() {
    ended_ = last_.step >= until_step_;
    if (ended_) return;
    try {
      last_ = engine_.train_step();
    } catch (const OutOfRange&) {  // the end of the source's data
      ended_ = true;
    }
  }

  Engine& engine_;
  std::int64_t until_step_ = 0;
  StepResult last_ = {};
  bool ended_ = false;
};

inline Steps Engine::steps(std::int64_t until_step) { return Steps(this, until_step); }

// ------------------------------------------------------------------------------- checkpoints without engines

/// Returns JSON about a checkpoint.
inline std::string checkpoint_inspect(const std::string& path) {
  return detail::text([&](hws_buffer** out) { return hws_checkpoint_inspect(detail::c_str(path), out); });
}
inline void checkpoint_verify(const std::string& path) {
  detail::check(hws_checkpoint_verify(detail::c_str(path)));
}
/// Returns the path of the newest complete checkpoint below `folder`.
inline std::string checkpoint_latest(const std::string& folder) {
  return detail::text([&](hws_buffer** out) { return hws_checkpoint_latest(detail::c_str(folder), out); });
}
/// Makes a checkpoint from a Hugging Face folder. ignore_keys: a JSON array, or "".
inline void checkpoint_import(const std::string& hf_folder, const std::string& path,
                              const std::string& ignore_keys = "") {
  detail::check(hws_checkpoint_import(detail::c_str(hf_folder), detail::c_str(path),
                                      ignore_keys.empty() ? nullptr : detail::c_str(ignore_keys)));
}
/// Makes a checkpoint with the weighted mean of others. paths, weights: JSON arrays; weights "": equal ones.
inline void checkpoint_average(const std::string& paths, const std::string& weights,
                               const std::string& path) {
  detail::check(hws_checkpoint_average(
      detail::c_str(paths), weights.empty() ? nullptr : detail::c_str(weights), detail::c_str(path)));
}
/// Writes a checkpoint as a Hugging Face folder. dtype as for Engine::export_to.
inline void checkpoint_export(const std::string& path, const std::string& hf_folder,
                              const std::string& dtype = "") {
  detail::check(hws_checkpoint_export(detail::c_str(path), detail::c_str(hf_folder), detail::c_str(dtype)));
}
/// Writes the adapter of a checkpoint as a PEFT folder.
inline void checkpoint_export_adapter(const std::string& path, const std::string& peft_folder) {
  detail::check(hws_checkpoint_export_adapter(detail::c_str(path), detail::c_str(peft_folder)));
}

}  // namespace hawser
