// Implements engine_session.h.
#include "tests/golden/engine_session.h"

namespace hawser::golden {
namespace {

hws_batch view(const TokenBatch& batch) {
  hws_batch view{};
  view.struct_size = sizeof(view);
  view.rows = batch.rows;
  view.cols = batch.cols;
  view.tokens = batch.tokens.data();
  view.targets = batch.targets.data();
  view.document_begin = batch.document_begin.empty() ? nullptr : batch.document_begin.data();
  view.references = batch.references.empty() ? nullptr : batch.references.data();
  view.teacher_top = batch.teacher_top;
  view.teacher_ids = batch.teacher_top > 0 ? batch.teacher_ids.data() : nullptr;
  view.teacher_logprobs = batch.teacher_top > 0 ? batch.teacher_logprobs.data() : nullptr;
  return view;
}

hws_step_result empty_result() {
  hws_step_result result{};
  result.struct_size = sizeof(result);
  return result;
}

}  // namespace

void check(int32_t status, const char* call) {
  if (status == HWS_OK) return;
  std::string text = std::string(call) + ": " + hws_status_name(status);
  hws_error* error = nullptr;
  if (hws_error_take(&error) == HWS_OK) text += std::string(": ") + hws_error_message(error);
  hws_error_destroy(error);
  throw ApiError(text);
}

std::string take_text(hws_buffer* buffer) {
  std::string text(static_cast<const char*>(hws_buffer_data(buffer)), hws_buffer_size(buffer));
  hws_buffer_destroy(buffer);
  return text;
}

EngineSession::EngineSession(const std::string& config_json, int32_t ranks) {
  if (ranks > 1) check(hws_comm_create_local(ranks, &comm_), "hws_comm_create_local");
  hws_config* config = nullptr;
  check(hws_config_parse(config_json.data(), config_json.size(), HWS_FORMAT_JSON, &config),
        "hws_config_parse");
  const int32_t status = ranks > 1 ? hws_engine_create_ranks(config, comm_, 0, &engine_)
                                   : hws_engine_create(config, 0, &engine_);
  hws_config_destroy(config);
  if (status != HWS_OK) hws_comm_destroy(comm_);
  check(status, "hws_engine_create");
}

EngineSession::~EngineSession() {
  hws_engine_destroy(engine_);
  hws_comm_destroy(comm_);
}

std::vector<float> EngineSession::logits(const TokenBatch& batch, int64_t vocab) const {
  std::vector<float> out(static_cast<size_t>(batch.rows * batch.cols * vocab));
  const hws_batch rows = view(batch);
  check(hws_engine_forward(engine_, &rows, out.data(), out.size() * sizeof(float)), "hws_engine_forward");
  return out;
}

double EngineSession::eval(const TokenBatch& batch) const {
  const hws_batch rows = view(batch);
  double loss = 0;
  check(hws_engine_eval(engine_, &rows, 0, &loss, nullptr), "hws_engine_eval");
  return loss;
}

hws_step_result EngineSession::forward_backward(const TokenBatch& batch) {
  const hws_batch rows = view(batch);
  check(hws_data_push(engine_, &rows), "hws_data_push");
  hws_step_result result = empty_result();
  check(hws_engine_forward_backward(engine_, &result), "hws_engine_forward_backward");
  return result;
}

std::vector<float> EngineSession::logprobs(const TokenBatch& batch) const {
  std::vector<float> out(batch.tokens.size());
  const hws_batch rows = view(batch);
  check(hws_engine_logprobs(engine_, &rows, out.data(), out.size() * sizeof(float)), "hws_engine_logprobs");
  return out;
}

hws_step_result EngineSession::backward_with(const TokenBatch& batch, const std::vector<float>& gradients) {
  const hws_batch rows = view(batch);
  hws_step_result result = empty_result();
  check(hws_engine_backward_with(engine_, &rows, gradients.data(), gradients.size() * sizeof(float), &result),
        "hws_engine_backward_with");
  return result;
}

hws_step_result EngineSession::commit() {
  hws_step_result result = empty_result();
  check(hws_engine_commit(engine_, &result), "hws_engine_commit");
  return result;
}

hws_step_result EngineSession::train_step(const TokenBatch& batch) {
  const hws_batch rows = view(batch);
  check(hws_data_push(engine_, &rows), "hws_data_push");
  hws_step_result result = empty_result();
  check(hws_engine_train_step(engine_, &result), "hws_engine_train_step");
  return result;
}

std::vector<float> EngineSession::tensor(int32_t kind, const std::string& name, int64_t count) const {
  std::vector<float> out(static_cast<size_t>(count));
  check(hws_tensor_get(engine_, kind, name.c_str(), out.data(), out.size() * sizeof(float)),
        ("hws_tensor_get " + name).c_str());
  return out;
}

std::string EngineSession::info() const {
  hws_buffer* text = nullptr;
  check(hws_engine_info(engine_, &text), "hws_engine_info");
  return take_text(text);
}

std::string EngineSession::metrics() const {
  hws_buffer* text = nullptr;
  check(hws_engine_metrics(engine_, &text), "hws_engine_metrics");
  return take_text(text);
}

void EngineSession::export_adapter_to(const std::string& folder) const {
  check(hws_engine_export_adapter(engine_, folder.c_str()), "hws_engine_export_adapter");
}

void EngineSession::export_to(const std::string& folder, const char* dtype) const {
  check(hws_engine_export(engine_, folder.c_str(), dtype), "hws_engine_export");
}

}  // namespace hawser::golden
