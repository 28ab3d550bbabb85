// Call cases: calls with invalid arguments, and calls in an invalid order. (tests/capi tests invalid handles,
// NULL and struct sizes.)
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace call_cases {

/// Makes a row that calls `use` with a valid engine.
Case engine(const std::string& what, int32_t status, std::vector<std::string> words,
            const std::function<int32_t(hws_engine*)>& use, uint32_t flags = 0) {
  return {what, status, std::move(words), [=](Site&) { return create(sound_config(), flags, use); }};
}

/// A batch of 2 x 16 ones that is pushed with one thing changed.
struct Batch {
  std::vector<int32_t> tokens = std::vector<int32_t>(32, 1), targets = tokens, document_begin;
  std::vector<float> weights;
  int64_t rows = 2, cols = 16;
  int32_t push(hws_engine* engine) const {
    hws_batch batch = view();
    return hws_data_push(engine, &batch);
  }
  hws_batch view() const {
    hws_batch batch = {};
    batch.struct_size = sizeof batch;
    batch.rows = rows;
    batch.cols = cols;
    batch.tokens = tokens.data();
    batch.targets = targets.data();
    batch.document_begin = document_begin.empty() ? nullptr : document_begin.data();
    batch.weights = weights.empty() ? nullptr : weights.data();
    return batch;
  }
};

Case push(const std::string& what, int32_t status, std::vector<std::string> words,
          const std::function<void(Batch&)>& change) {
  return engine(what, status, std::move(words), [change](hws_engine* engine) {
    Batch batch;
    change(batch);
    return batch.push(engine);
  });
}

/// Generates two tokens after a valid prompt of two; `change` may alter the request.
int32_t generate_two(hws_engine* engine, const std::function<void(hws_generate_request&)>& change) {
  static const int32_t prompt[] = {1, 2, 61};
  hws_generate_request request = {};
  request.struct_size = sizeof request;
  request.stop_token = -1;
  request.prompt = prompt;
  request.prompt_length = 2;
  request.max_tokens = 2;
  request.top_p = 1;
  change(request);
  return hws_engine_generate(
      engine, &request, [](void*, int32_t) { return 0; }, nullptr, nullptr);
}

Case generate(const std::string& what, std::vector<std::string> words,
              const std::function<void(hws_generate_request&)>& change,
              int32_t status = HWS_INVALID_ARGUMENT) {
  return engine(what, status, std::move(words),
                [change](hws_engine* engine) { return generate_two(engine, change); });
}

/// Generates two tokens with a model whose last norm is a NaN.
int32_t generate_from_nan(hws_engine* engine) {
  const std::vector<float> weights(16, std::nanf(""));
  const int32_t status = hws_tensor_set(engine, HWS_TENSOR_WEIGHT, "final_norm.weight", weights.data(),
                                        weights.size() * sizeof(float));
  return status != HWS_OK ? status : generate_two(engine, [](hws_generate_request&) {});
}

int32_t tensor_get(hws_engine* engine, int32_t kind, const char* name, size_t bytes) {
  std::vector<float> data(bytes / 4 + 1);
  return hws_tensor_get(engine, kind, name, data.data(), bytes);
}

std::vector<Case> batches() {
  return {
      push("a batch of 3 rows", HWS_INVALID_ARGUMENT, {"3 x 16", "2 x 16", "/batch/global_batch"},
           [](Batch& b) { b.tokens.resize(48), b.targets.resize(48), b.rows = 3; }),
      push("a batch of -1 rows", HWS_INVALID_ARGUMENT, {"-1"}, [](Batch& b) { b.rows = -1; }),
      push("a batch of 2^62 columns", HWS_INVALID_ARGUMENT, {"4611686018427387904", "address space"},
           [](Batch& b) { b.cols = int64_t{1} << 62; }),
      push("token 61 of 61", HWS_DATA_INVALID, {"token 61 at row 1, column 3", "vocabulary of 61"},
           [](Batch& b) { b.tokens[19] = 61; }),
      push("token -1", HWS_DATA_INVALID, {"token -1 at row 0, column 0"}, [](Batch& b) { b.tokens[0] = -1; }),
      push("target -1", HWS_DATA_INVALID, {"target -1 at row 0, column 5", "neither -100"},
           [](Batch& b) { b.targets[5] = -1; }),
      push("document_begin behind its position", HWS_DATA_INVALID,
           {"document_begin 7 at row 0, column 3", "starts"},
           [](Batch& b) { b.document_begin.assign(32, 0), b.document_begin[3] = 7; }),
      push("a weight below 0", HWS_DATA_INVALID, {"weight -0.5 at row 1, column 3", "at least 0", "-100"},
           [](Batch& b) { b.weights.assign(32, 1.0f), b.weights[19] = -0.5f; }),
      push("a weight that is not finite", HWS_DATA_INVALID, {"weight nan at row 0, column 2", "finite"},
           [](Batch& b) { b.weights.assign(32, 1.0f), b.weights[2] = std::nanf(""); }),
      engine("a gradient of a masked target", HWS_DATA_INVALID, {"gradient 0.5 at row 0, column 0", "be 0"},
             [](hws_engine* e) {
               Batch batch;
               batch.targets[0] = -100;
               const hws_batch view = batch.view();
               const std::vector<float> gradients(32, 0.5f);
               return hws_engine_backward_with(e, &view, gradients.data(), 128, nullptr);
             }),
      engine("a second batch before the step", HWS_BUSY, {"waiting already", "take a step"},
             [](hws_engine* e) { return Batch().push(e) == HWS_OK ? Batch().push(e) : HWS_UNKNOWN; }),
      engine("a batch whose targets are all masked", HWS_DATA_INVALID, {"masked (-100)"},
             [](hws_engine* e) {
               Batch batch;
               batch.targets.assign(32, -100);
               return batch.push(e) == HWS_OK ? hws_engine_train_step(e, nullptr) : HWS_UNKNOWN;
             }),
      engine("an evaluation of masked targets alone", HWS_DATA_INVALID, {"every target", "masked (-100)"},
             [](hws_engine* e) {
               Batch batch;
               batch.targets.assign(32, -100);
               const hws_batch view = batch.view();
               double loss = 0;
               return hws_engine_eval(e, &view, 0, &loss, nullptr);
             }),
      engine("logits of the wrong size", HWS_INVALID_ARGUMENT,
             {"logits has 4 bytes", "2 x 16 x 61 floats take 7808"},
             [](hws_engine* e) {
               const Batch batch;
               const hws_batch view = batch.view();
               float logit = 0;
               return hws_engine_forward(e, &view, &logit, sizeof logit);
             }),
  };
}

std::vector<Case> orders() {
  return {
      engine("a step without data", HWS_FAILED_PRECONDITION,
             {"no batch", "hws_data_push", "hws_data_set_source"},
             [](hws_engine* e) { return hws_engine_train_step(e, nullptr); }),
      engine("a data source that fails", HWS_CALLBACK, {"source returned 7", "step 1"},
             [](hws_engine* e) {
               hws_data_set_source(
                   e, [](void*, hws_source_batch*) { return 7; }, nullptr, nullptr);
               return hws_engine_train(e, 1, nullptr, nullptr, nullptr);
             }),
      engine("a step after the end of a data source", HWS_OUT_OF_RANGE, {"no batch for step 1"},
             [](hws_engine* e) {
               hws_data_set_source(
                   e, [](void*, hws_source_batch*) { return HWS_SOURCE_END; }, nullptr, nullptr);
               return hws_engine_train_step(e, nullptr);
             }),
      engine("commit without a pending step", HWS_FAILED_PRECONDITION,
             {"no step is pending", "forward_backward"},
             [](hws_engine* e) { return hws_engine_commit(e, nullptr); }),
      engine("a step while one is pending", HWS_FAILED_PRECONDITION,
             {"a step is pending", "commit or discard"},
             [](hws_engine* e) {
               Batch().push(e);
               hws_engine_forward_backward(e, nullptr);
               return hws_engine_train_step(e, nullptr);
             }),
      engine(
          "a step of an engine for inference", HWS_FAILED_PRECONDITION,
          {"created for inference", "cannot train"},
          [](hws_engine* e) { return hws_engine_train_step(e, nullptr); }, HWS_ENGINE_INFERENCE),
      engine("validation without validation data", HWS_FAILED_PRECONDITION,
             {"no validation data", "/data/validation_fraction"},
             [](hws_engine* e) {
               double loss = 0;
               return hws_engine_eval(e, nullptr, 0, &loss, nullptr);
             }),
      engine("a trace of nothing", HWS_FAILED_PRECONDITION, {"hws_engine_set_trace", "take a step"},
             [](hws_engine* e) {
               hws_buffer* out = nullptr;
               return hws_engine_trace(e, HWS_FORMAT_JSON, &out);
             }),
      engine("text for a model of tokens", HWS_FAILED_PRECONDITION, {"no text vocabulary", "data.vocabulary"},
             [](hws_engine* e) {
               hws_buffer* out = nullptr;
               return hws_text_encode(e, "abc", 3, &out);
             }),
      engine("gradients with no step pending", HWS_FAILED_PRECONDITION,
             {"between forward_backward and commit"},
             [](hws_engine* e) {
               return tensor_get(e, HWS_TENSOR_GRADIENT, "embedding.token.weight", 61 * 16 * 4);
             }),
      engine("an unknown tensor", HWS_NOT_FOUND, {"no tensor \"head\"", "Hugging Face name"},
             [](hws_engine* e) { return tensor_get(e, HWS_TENSOR_WEIGHT, "head", 4); }),
      engine("tensor kind 9", HWS_INVALID_ARGUMENT, {"`kind` is 9", "[0, 4]"},
             [](hws_engine* e) { return tensor_get(e, 9, "embedding.token.weight", 4); }),
      engine("unknown flags", HWS_INVALID_ARGUMENT, {"`flags`", "0x80"},
             [](hws_engine* e) { return hws_checkpoint_load(e, "x", 0x80); }),
  };
}

std::vector<Case> generations() {
  return {
      generate("an empty prompt", {"`request->prompt_length` is 0", "at least 1"},
               [](hws_generate_request& r) { r.prompt_length = 0; }),
      engine("generating from weights that are not finite", HWS_NUMERIC,
             {"the logits after 2 tokens are not finite (nan", "load an earlier checkpoint"},
             generate_from_nan),
      generate("temperature -1", {"`request->temperature`", "-1", "0 (greedy)"},
               [](hws_generate_request& r) { r.temperature = -1; }),
      generate("temperature NaN", {"`request->temperature`", "nan"},
               [](hws_generate_request& r) { r.temperature = std::nan(""); }),
      generate("top_p 1.5", {"`request->top_p`", "1.5", "(0, 1]"},
               [](hws_generate_request& r) { r.top_p = 1.5; }),
      generate("top_k -3", {"top_k", "-3"}, [](hws_generate_request& r) { r.top_k = -3; }),
      generate("max_tokens -1", {"max_tokens", "-1"}, [](hws_generate_request& r) { r.max_tokens = -1; }),
      generate(
          "a prompt with token 61 of 61", {"61", "vocabulary of 61"},
          [](hws_generate_request& r) { r.prompt_length = 3; }, HWS_DATA_INVALID),
  };
}

std::vector<Case> others() {
  return {
      {"a config format 7",
       HWS_INVALID_ARGUMENT,
       {"`format` is 7", "HWS_FORMAT_JSON"},
       [](Site&) {
         hws_config* config = nullptr;
         return hws_config_parse("{}", 2, 7, &config);
       }},
      {"a comm of 0 ranks",
       HWS_INVALID_ARGUMENT,
       {"hws_comm_create_local", "`ranks` is 0", "[1, 4096]"},
       [](Site&) {
         hws_comm* comm = nullptr;
         return hws_comm_create_local(0, &comm);
       }},
      {"a comm of 5,000 ranks",
       HWS_INVALID_ARGUMENT,
       {"hws_comm_create_local", "`ranks` is 5000", "[1, 4096]"},
       [](Site&) {
         hws_comm* comm = nullptr;
         return hws_comm_create_local(5000, &comm);
       }},
      {"a comm of 3 ranks for a mesh of 2",
       HWS_CONFIG_INVALID,
       {"/mesh has 2 ranks", "3", "make them equal"},
       [](Site&) {
         hws_comm* comm = nullptr;
         hws_comm_create_local(3, &comm);
         const int32_t status =
             with_config(sound_config(Json::parse(R"({"mesh": {"dp_shard": 2}})")), [&](hws_config* config) {
               hws_engine* engine = nullptr;
               return hws_engine_create_ranks(config, comm, 0, &engine);
             });
         hws_comm_destroy(comm);
         return status;
       }},
      {"rank 5 of 4 at an address",
       HWS_INVALID_ARGUMENT,
       {"rank 5 in a world of 4", "from 0"},
       [](Site&) {
         hws_comm_address address = {};
         address.struct_size = sizeof address;
         address.rank = 5;
         address.world_size = 4;
         address.address = "127.0.0.1:1";
         hws_comm* comm = nullptr;
         return hws_comm_create_address(&address, &comm);
       }},
      {"measuring for -1 seconds",
       HWS_INVALID_ARGUMENT,
       {"`seconds` is -1", "[0, 3600]"},
       [](Site&) {
         hws_buffer* out = nullptr;
         return hws_device_measure(0, -1, &out);
       }},
      {"the peak of int8 products",
       HWS_INVALID_ARGUMENT,
       {"`precision`", "\"int8\"", "\"bf16\""},
       [](Site&) {
         double flops = 0;
         return hws_device_peak(1, "int8", 0.01, &flops);
       }},
      {"proving 0 steps",
       HWS_INVALID_ARGUMENT,
       {"`steps` is 0", "1 to 1000"},
       [](Site&) {
         return with_config(sound_config(), [](hws_config* config) {
           hws_buffer* out = nullptr;
           return hws_config_prove_layout(config, 0, &out);
         });
       }},
      {"proving the layout of one rank",
       HWS_CONFIG_INVALID,
       {"/mesh has one rank", "/mesh/dp_shard"},
       [](Site&) {
         return with_config(sound_config(), [](hws_config* config) {
           hws_buffer* out = nullptr;
           return hws_config_prove_layout(config, 1, &out);
         });
       }},
      {"a pointer that is not UTF-8",
       HWS_INVALID_ARGUMENT,
       {"`pointer` is not UTF-8 at byte 1 (0xff)"},
       [](Site&) {
         return with_config(sound_config(),
                            [](hws_config* config) { return hws_config_set(config, "/\xff", "1"); });
       }},
      {"an empty path",
       HWS_INVALID_ARGUMENT,
       {"`path` is empty"},
       [](Site&) { return hws_checkpoint_verify(""); }},
      {"a path that is not UTF-8, and not there",
       HWS_NOT_FOUND,
       {".../caf?", "No such file"},
       [](Site& site) { return hws_checkpoint_verify(site.path("caf\xe9").c_str()); }},
      {"a path that is not UTF-8, where it becomes part of a config",
       HWS_INVALID_ARGUMENT,
       {"`hf_folder` is not UTF-8 at byte 4 (0xe9)"},
       [](Site&) { return hws_checkpoint_import("/caf\xe9", "/x", nullptr); }},
      {"the last error of a thread that has none",
       HWS_NOT_FOUND,
       {},
       [](Site&) {
         hws_error* error = nullptr;
         return hws_error_take(&error);
       }},
  };
}

/// A row with a comm whose secret is in a file with these permissions.
Case secret(const std::string& what, mode_t mode, std::vector<std::string> words) {
  return {what, HWS_PERMISSION, std::move(words), [=](Site& site) {
            const std::string file = site.write("secret", std::string(32, 'x'));
            chmod(file.c_str(), mode);
            hws_comm_address address = {};
            address.struct_size = sizeof address;
            address.world_size = 1;
            address.address = "127.0.0.1:0";
            address.secret_file = file.c_str();
            hws_comm* comm = nullptr;
            return hws_comm_create_address(&address, &comm);
          }};
}

std::vector<Case> secrets() {
  return {
      secret("a secret that every user may read", 0644, {"every user may read", ".../secret", "chmod 600"}),
      secret("a secret that its group may write", 0660, {"other users may write", "mode 660", "chmod 600"})};
}

/// Returns rows that the mesh does not allow.
std::vector<Case> meshes() {
  return {
      {"the same run on 3 ranks, with 2 rows in a step",
       HWS_CONFIG_INVALID,
       {"3 ranks cannot share the 2 rows", "/batch/global_batch", "use 2 ranks"},
       [](Site&) {
         return with_config(sound_config(), [](hws_config* config) {
           hws_config* out = nullptr;
           return hws_config_fit_ranks(config, 3, &out);
         });
       }},
      {"the same run on 3 ranks, where 2 compute each block together",
       HWS_CONFIG_INVALID,
       {"3 ranks are not a multiple of the 2", "/mesh/tp", "use 2"},
       [](Site&) {
         return with_config(sound_config(Json::parse(R"({"mesh": {"tp": 2}})")), [](hws_config* config) {
           hws_config* out = nullptr;
           return hws_config_fit_ranks(config, 3, &out);
         });
       }},
      {"the same run on 6 ranks, where 2 x 2 divide columns and blocks",
       HWS_CONFIG_INVALID,
       {"6 ranks are not a multiple of the 4", "/mesh/cp x /mesh/tp", "use 4"},
       [](Site&) {
         return with_config(sound_config(Json::parse(R"({"mesh": {"cp": 2, "tp": 2}})")),
                            [](hws_config* config) {
                              hws_config* out = nullptr;
                              return hws_config_fit_ranks(config, 6, &out);
                            });
       }},
  };
}

}  // namespace call_cases

Area call_area() {
  using namespace call_cases;
  Area area = {"Calls",
               "Arguments and orders of calls on a valid engine (one block, 61 tokens, batches of 2 x 16).",
               batches()};
  for (const auto& more : {orders(), generations(), others(), meshes(), secrets()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
