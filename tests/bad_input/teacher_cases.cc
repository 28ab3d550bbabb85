// Teacher cases: configs that contradict themselves, rows that no teacher can give, and calls that do not
// work with a teacher.
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace teacher_cases {

/// One row of 16 tokens with two ids of a teacher at each.
struct Taught {
  std::vector<int32_t> tokens = std::vector<int32_t>(16, 1), targets = tokens, ids;
  std::vector<float> logprobs = std::vector<float>(32, -1.0f);
  int64_t top = 2;
  Taught() {
    for (int32_t i = 0; i < 32; ++i) ids.push_back(i % 2);
  }
  hws_batch batch() const {
    hws_batch b = {};
    b.struct_size = sizeof b;
    b.rows = 1, b.cols = 16;
    b.tokens = tokens.data(), b.targets = targets.data();
    b.teacher_top = top;
    b.teacher_ids = ids.empty() ? nullptr : ids.data();
    b.teacher_logprobs = logprobs.empty() ? nullptr : logprobs.data();
    return b;
  }
};

Json taught_config(int64_t top = 2) {
  return sound_config(
      {{"teacher", {{"top", top}}}, {"batch", {{"micro_batch", 1}, {"grad_accum_steps", 1}}}});
}

Case push(const std::string& what, int32_t status, std::vector<std::string> words,
          const std::function<void(Taught&)>& change, int64_t top = 2) {
  return {"A pushed batch: " + what, status, std::move(words), [=](Site&) {
            return create(taught_config(top), 0, [&](hws_engine* engine) {
              Taught taught;
              change(taught);
              const hws_batch batch = taught.batch();
              return hws_data_push(engine, &batch);
            });
          }};
}

int32_t own_gradients(hws_engine* engine) {
  const Taught taught;
  const hws_batch batch = taught.batch();
  const std::vector<float> gradients(16, 0.5f);
  return hws_engine_backward_with(engine, &batch, gradients.data(), 64, nullptr);
}

int32_t source(hws_engine* engine) {
  return hws_data_set_source(
      engine, [](void*, hws_source_batch*) { return int32_t{0}; }, nullptr, nullptr);
}

int32_t too_many(hws_engine* engine) {
  const Taught taught;
  const hws_batch batch = taught.batch();
  std::vector<int32_t> ids(1);
  std::vector<float> logprobs(1);
  return hws_engine_top_logprobs(engine, &batch, 1 << 20, ids.data(), 4, logprobs.data(), 4);
}

std::vector<Case> configs() {
  return {
      bad(R"({"teacher": {"top": 2000}})", {"/teacher/top", "1024"}),
      bad(R"({"teacher": {"top": 1000}})",
          {"/teacher/top", "1000 different ids", "vocabulary", "use at most"}),
      bad(R"({"teacher": {"top": 2, "temperature": 0}})", {"/teacher/temperature", "not greater than 0"}),
      bad(R"({"teacher": {"top": 2, "weight": 1.5}})", {"/teacher/weight", "1"}),
      bad(R"({"teacher": {"weight": 0.5}})", {"/teacher/weight", "no effect", "teacher.top to 1 or more"}),
      bad(R"({"teacher": {"top": 2}, "objective": {"kind": "dpo"}, "batch": {"micro_batch": 2}})",
          {"/teacher/top", "objective \"dpo\" trains on pairs"}),
      bad(R"({"teacher": {"from": "x"}})", {"/teacher/from", "no data", "hws_data_push"}),
      bad(R"({"teacher": {"from": "x", "top": 0}})", {"/teacher/from", "no effect"}),
      bad(R"({"teacher": {"top": 2}, "device": "cuda"})", {"/device", "not supported on device \"cuda\""}),
  };
}

}  // namespace teacher_cases

Area teacher_area() {
  using namespace teacher_cases;
  Area area{"Teachers", "Distillation (`/teacher`).", configs()};
  for (Case& row : std::vector<Case>{
           push("no rows of the teacher", HWS_INVALID_ARGUMENT,
                {"lacks the rows of the teacher", "top_logprobs"},
                [](Taught& t) { t.ids.clear(), t.logprobs.clear(), t.top = 0; }),
           push("another number of ids", HWS_INVALID_ARGUMENT, {"has 1 ids", "/teacher/top is 2"},
                [](Taught& t) { t.top = 1; }),
           push(
               "teacher rows without /teacher", HWS_INVALID_ARGUMENT, {"/teacher/top is 0", "leave them out"},
               [](Taught&) {}, 0),
           push("an id twice", HWS_DATA_INVALID, {"id 1 twice at row 0, column 3"},
                [](Taught& t) { t.ids[6] = 1; }),
           push("an id outside the vocabulary", HWS_DATA_INVALID, {"id -1 of the teacher at row 0, column 2"},
                [](Taught& t) { t.ids[4] = -1; }),
           push("a log-probability above 0", HWS_DATA_INVALID, {"0.5", "row 0, column 15, id 1", "at most 0"},
                [](Taught& t) { t.logprobs[31] = 0.5f; }),
           push("a log-probability that is not finite", HWS_DATA_INVALID, {"row 0, column 0, id 0", "finite"},
                [](Taught& t) { t.logprobs[0] = -INFINITY; }),
           Case{"A teacher and the program's own gradients",
                HWS_FAILED_PRECONDITION,
                {"/teacher/top 2", "set it to 0"},
                [](Site&) { return create(taught_config(), 0, own_gradients); }},
           Case{"A teacher and a data source",
                HWS_FAILED_PRECONDITION,
                {"/teacher/top 2", "hws_data_push"},
                [](Site&) { return create(taught_config(), 0, source); }},
           Case{"A top above the size of the vocabulary",
                HWS_INVALID_ARGUMENT,
                {"top is 1048576", "vocabulary of"},
                [](Site&) { return create(taught_config(), 0, too_many); }},
       })
    area.cases.push_back(std::move(row));
  return area;
}

}  // namespace hawser::bad_input
