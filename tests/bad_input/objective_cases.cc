// Objective cases: fields without effect, rows that are not pairs, and calls that compute another objective.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace objective_cases {

/// One pair of 16 tokens that differ in one token, and the log-probabilities under its reference.
struct Pair {
  std::vector<int32_t> tokens = std::vector<int32_t>(32, 1), targets = tokens;
  std::vector<float> weights, references = {-20, -30};
  Pair() { tokens[20] = 2; }
  int32_t push(hws_engine* engine) const {
    hws_batch batch = {};
    batch.struct_size = sizeof batch;
    batch.rows = 2, batch.cols = 16;
    batch.tokens = tokens.data(), batch.targets = targets.data();
    batch.weights = weights.empty() ? nullptr : weights.data();
    batch.references = references.empty() ? nullptr : references.data();
    return hws_data_push(engine, &batch);
  }
};

Json config_of(const std::string& kind) {
  return sound_config({{"objective", {{"kind", kind}}}, {"batch", {{"micro_batch", 2}}}});
}

Case push(const std::string& what, int32_t status, std::vector<std::string> words,
          const std::function<void(Pair&)>& change, const std::string& kind = "dpo") {
  return {"`" + kind + "`: " + what, status, std::move(words), [=](Site&) {
            return create(config_of(kind), 0, [&](hws_engine* engine) {
              Pair pair;
              change(pair);
              const int32_t pushed = pair.push(engine);
              return pushed == HWS_OK ? hws_engine_train_step(engine, nullptr) : pushed;
            });
          }};
}

int32_t own_gradients(hws_engine* engine) {
  const Pair pair;
  hws_batch batch = {};
  batch.struct_size = sizeof batch;
  batch.rows = 2, batch.cols = 16;
  batch.tokens = pair.tokens.data(), batch.targets = pair.targets.data();
  const std::vector<float> gradients(32, 0.5f);
  return hws_engine_backward_with(engine, &batch, gradients.data(), 128, nullptr);
}

int32_t generate(hws_engine* engine) {
  const int32_t prompt = 1;
  hws_generate_request request = {};
  request.struct_size = sizeof request;
  request.prompt = &prompt, request.prompt_length = 1, request.max_tokens = 1, request.top_p = 1;
  return hws_engine_generate(
      engine, &request, [](void*, int32_t) { return int32_t{0}; }, nullptr, nullptr);
}

int32_t logprobs(hws_engine* engine) {
  const Pair pair;
  hws_batch batch = {};
  batch.struct_size = sizeof batch;
  batch.rows = 2, batch.cols = 16;
  batch.tokens = pair.tokens.data(), batch.targets = pair.targets.data();
  std::vector<float> out(32);
  return hws_engine_logprobs(engine, &batch, out.data(), 128);
}

std::vector<Case> configs() {
  return {
      bad(R"({"objective": {"kind": "ppo"}})", {"/objective/kind", "ppo"}),
      bad(R"({"objective": {"kind": "dpo", "beta": 0}, "batch": {"micro_batch": 2}})",
          {"/objective/beta", "not greater than 0"}),
      bad(R"({"objective": {"kind": "dpo", "gamma": 1}, "batch": {"micro_batch": 2}})",
          {"/objective/gamma", "no effect", "\"simpo\""}),
      bad(R"({"objective": {"kind": "simpo", "sft_weight": 2}, "batch": {"micro_batch": 2}})",
          {"/objective/sft_weight", "no effect", "\"dpo_sft\""}),
      bad(R"({"objective": {"kind": "ipo", "label_smoothing": 0.1}, "batch": {"micro_batch": 2}})",
          {"/objective/label_smoothing", "no effect", "\"dpo\""}),
      bad(R"({"objective": {"beta": 0.2}})", {"/objective/beta", "no effect", "cross_entropy"}),
      bad(R"({"objective": {"kind": "dpo"}, "batch": {"micro_batch": 3}})",
          {"/batch/micro_batch", "one micro-batch", "3 is odd", "4"}),
      bad(R"({"objective": {"kind": "dpo"}, "batch": {"micro_batch": 2}, "data": {"path": "x", "vocabulary": "bytes"}})",
          {"/objective/kind", "pairs of answers", "format \"text\"", "prepare"}),
      bad(R"({"objective": {"kind": "dpo"}, "batch": {"micro_batch": 2}, "data": {"packing": true}})",
          {"/data/packing", "its own row", "leave packing out"}),
      bad(R"({"objective": {"kind": "simpo", "reference": "x"}, "batch": {"micro_batch": 2}})",
          {"/objective/reference", "no effect", "\"dpo\""}),
      bad(R"({"objective": {"kind": "reward", "reference": "x"}, "batch": {"micro_batch": 2}})",
          {"/objective/reference", "no effect", "\"dpo\""}),
      bad(R"({"objective": {"kind": "reward"}, "model": {"head": "language"}, "batch": {"micro_batch": 2}})",
          {"/objective/kind", "\"reward\"", "\"score\""}),
      bad(R"({"objective": {"kind": "dpo"}, "model": {"head": "score"}, "batch": {"micro_batch": 2}})",
          {"/objective/kind", "\"dpo\"", "\"reward\""}),
      bad(R"({"model": {"head": "score", "tied_head": true}, "batch": {"micro_batch": 2}})",
          {"/model/tied_head", "a row per token", "use false"}),
      bad(R"({"model": {"head": "score", "logit_softcap": 30}, "batch": {"micro_batch": 2}})",
          {"/model/logit_softcap", "no effect", "\"language\""}),
  };
}

}  // namespace objective_cases

Area objective_area() {
  using namespace objective_cases;
  Area area{"Objectives", "Pairs of answers (`/objective`).", configs()};
  for (Case& row : std::vector<Case>{
           push("answers that are equal", HWS_DATA_INVALID, {"rows 0 and 1", "equal"},
                [](Pair& p) { p.tokens[20] = 1; }),
           push("an answer without a target", HWS_DATA_INVALID, {"rejected answer", "no target"},
                [](Pair& p) { std::fill(p.targets.begin() + 16, p.targets.end(), -100); }),
           push("no reference", HWS_INVALID_ARGUMENT,
                {"lacks the log-probabilities of the reference", "logprobs"},
                [](Pair& p) { p.references.clear(); }),
           push("a reference that is not finite", HWS_DATA_INVALID, {"nan", "at row 1", "must be finite"},
                [](Pair& p) { p.references[1] = std::nanf(""); }),
           push("a reference above 0", HWS_DATA_INVALID, {"0.5", "at row 0", "at most 0"},
                [](Pair& p) { p.references[0] = 0.5f; }),
           push(
               "a reference", HWS_INVALID_ARGUMENT, {"reference", "/objective/kind uses none"}, [](Pair&) {},
               "simpo"),
           push("weights", HWS_INVALID_ARGUMENT, {"weights", "leave them out"},
                [](Pair& p) { p.weights.assign(32, 1.0f); }),
           push(
               "a last target whose token is not in the row", HWS_DATA_INVALID,
               {"row 0, column 15", "must be in the row"}, [](Pair& p) { p.references.clear(); }, "reward"),
           Case{"`reward`: three rows of a micro-batch",
                HWS_CONFIG_INVALID,
                {"/batch/micro_batch", "3 is odd"},
                [](Site&) {
                  return create(
                      sound_config({{"model", {{"head", "score"}}}, {"batch", {{"micro_batch", 3}}}}), 0,
                      [](hws_engine*) { return HWS_OK; });
                }},
           Case{"`reward`: a text of it",
                HWS_FAILED_PRECONDITION,
                {"has a score head", "hws_engine_forward"},
                [](Site&) { return create(config_of("reward"), 0, generate); }},
           Case{"`reward`: log-probabilities",
                HWS_FAILED_PRECONDITION,
                {"has a score head", "logprobs"},
                [](Site&) { return create(config_of("reward"), 0, logprobs); }},
           Case{"`dpo`: gradients of the program's own",
                HWS_FAILED_PRECONDITION,
                {"/objective/kind", "cross_entropy"},
                [](Site&) { return create(config_of("dpo"), 0, own_gradients); }},
       })
    area.cases.push_back(std::move(row));
  return area;
}

}  // namespace hawser::bad_input
