// EngineSession: the calls of the C API that golden_check and the benchmarks need, as a class. A status other
// than HWS_OK becomes an ApiError with the library's message. Uses capi/include/hawser.h only.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "capi/include/hawser.h"

namespace hawser::golden {

/// Returns the text of a buffer that a call returned, and destroys the buffer.
std::string take_text(hws_buffer* buffer);

/// An error returned by the library.
class ApiError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws ApiError with the call's name, the status and the thread's last error unless `status` is HWS_OK.
void check(int32_t status, const char* call);

/// Rows of tokens and their targets (targets[t] is what t predicts; -100 masks), all row-major [rows, cols].
struct TokenBatch {
  int64_t rows = 0, cols = 0;
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  std::vector<int32_t> document_begin;  ///< empty: one document per row
  std::vector<float> references = {};   ///< empty: none
  int64_t teacher_top = 0;              ///< pairs of each target; 0: no teacher
  std::vector<int32_t> teacher_ids = {};
  std::vector<float> teacher_logprobs = {};
};

/// One engine with one config. Not copyable; destroys the engine.
class EngineSession {
 public:
  /// Creates an engine of `ranks` threads of this process.
  explicit EngineSession(const std::string& config_json, int32_t ranks = 1);
  ~EngineSession();
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;

  std::vector<float> logits(const TokenBatch& batch, int64_t vocab) const;  ///< [rows, cols, vocab]
  double eval(const TokenBatch& batch) const;                               ///< mean loss, nats
  std::vector<float> logprobs(const TokenBatch& batch) const;               ///< [rows, cols]; 0 where masked
  hws_step_result forward_backward(const TokenBatch& batch);
  /// Computes a backward from `gradients` [rows, cols] with respect to each target's log-probability.
  hws_step_result backward_with(const TokenBatch& batch, const std::vector<float>& gradients);
  hws_step_result commit();
  hws_step_result train_step(const TokenBatch& batch);
  /// kind: HWS_TENSOR_*; `name`: the Hugging Face name; `count` elements, in Hugging Face's layout.
  std::vector<float> tensor(int32_t kind, const std::string& name, int64_t count) const;
  std::string metrics() const;  ///< JSON of hws_engine_metrics
  std::string info() const;     ///< JSON of hws_engine_info
  void export_to(const std::string& folder, const char* dtype) const;
  void export_adapter_to(const std::string& folder) const;
  hws_engine* handle() { return engine_; }  ///< for calls that this class lacks; do not destroy it

 private:
  hws_comm* comm_ = nullptr;  ///< null for one rank
  hws_engine* engine_ = nullptr;
};

}  // namespace hawser::golden
