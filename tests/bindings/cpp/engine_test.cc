// Tests engines: losses equal to the C API's, steps, data, checkpoints, tensors, reports.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/bindings/cpp/tiny.h"

namespace engine_test {

using hawser::Engine;
using hawser::StepResult;
using tiny::Tokens;

/// Returns the losses of `steps` steps, computed with only the C API.
std::vector<double> losses_of_c(std::uint32_t steps) {
  hws_config* config = nullptr;
  hws_engine* engine = nullptr;
  EXPECT_EQ(hws_config_parse(tiny::kConfig, std::strlen(tiny::kConfig), HWS_FORMAT_JSON, &config), HWS_OK);
  EXPECT_EQ(hws_engine_create(config, 0, &engine), HWS_OK);
  std::vector<double> losses;
  for (std::uint32_t step = 1; step <= steps; ++step) {
    const Tokens tokens(step);
    const hws_batch batch = {sizeof batch,
                             0,
                             tiny::kRows,
                             tiny::kCols,
                             tokens.tokens.data(),
                             tokens.targets.data(),
                             nullptr,
                             nullptr,
                             nullptr,
                             0,
                             nullptr,
                             nullptr};
    hws_step_result result = {};
    result.struct_size = sizeof result;
    EXPECT_EQ(hws_data_push(engine, &batch), HWS_OK);
    EXPECT_EQ(hws_engine_train_step(engine, &result), HWS_OK);
    losses.push_back(result.loss);
  }
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  return losses;
}

/// A source that returns batches of Tokens by position.
bool give(hawser::SourceBatch& batch) {
  Tokens(static_cast<std::uint32_t>(batch.samples / tiny::kRows + 1)).copy_to(batch);
  return true;
}

TEST(CppEngine, LossesAreThoseOfTheCApiBitForBit) {
  const std::vector<double> expected = losses_of_c(6);
  std::vector<double> pushed, ranged, trained, halves;
  Engine by_push(tiny::config()), by_range(tiny::config()), by_train(tiny::config()),
      in_halves(tiny::config());
  for (std::uint32_t step = 1; step <= 6; ++step) {
    by_push.push(Tokens(step).batch());
    pushed.push_back(by_push.train_step().loss);
  }
  by_range.set_source(give);
  for (const StepResult& step : by_range.steps(6)) ranged.push_back(step.loss);
  by_train.set_source(give);
  by_train.train(6, [&](const hawser::TrainRecord& record) { trained.push_back(record.loss); });
  in_halves.set_source(give);
  for (int step = 0; step < 6; ++step) {
    in_halves.forward_backward();
    in_halves.discard(true);  // the next step uses the same batch again
    in_halves.forward_backward();
    halves.push_back(in_halves.commit().loss);
  }
  EXPECT_EQ(pushed, expected);
  EXPECT_EQ(ranged, expected);
  EXPECT_EQ(trained, expected);
  EXPECT_EQ(halves, expected);
}

/// The gradient of the mean negative log-probability is -1/n by each log-probability.
TEST(CppEngine, TakesTheGradientsOfAnObjective) {
  Engine engine(tiny::config());
  const Tokens tokens(1);
  engine.push(tokens.batch());
  const StepResult known = engine.forward_backward();
  engine.discard(true);
  std::vector<float> gradients = engine.logprobs(tokens.batch());
  for (float& gradient : gradients)
    gradient = gradient == 0 ? 0 : -static_cast<float>(1.0 / static_cast<double>(known.tokens));
  const StepResult own = engine.backward_with(tokens.batch(), gradients);
  EXPECT_EQ(own.grad_norm, known.grad_norm);
  EXPECT_NEAR(own.loss, known.loss, 1e-6);
  EXPECT_EQ(engine.commit().step, 1);
  EXPECT_THROW(engine.backward_with(tokens.batch(), std::span(gradients).first(3)), hawser::InvalidArgument);
}

TEST(CppEngine, ATeacherEqualToTheModelChangesNothing) {
  hawser::Config config = tiny::config();
  config.set("/teacher/top", std::to_string(tiny::kVocab));
  Engine engine(config);
  const tiny::Tokens tokens(0);
  hawser::Batch batch = tokens.batch();
  EXPECT_THROW(engine.push(batch), hawser::InvalidArgument);
  const hawser::TopLogprobs top = engine.top_logprobs(batch, tiny::kVocab);
  batch.teacher_top = tiny::kVocab, batch.teacher_ids = top.ids, batch.teacher_logprobs = top.logprobs;
  engine.push(batch);
  EXPECT_NEAR(engine.forward_backward().loss, 0, 1e-5);
  engine.discard(true);
  batch.teacher_ids = batch.teacher_ids.first(3);
  EXPECT_THROW(engine.push(batch), hawser::InvalidArgument);
}

TEST(CppEngine, ARangeOfStepsEndsWithTheConfigTheDataOrTheLoop) {
  Engine engine(tiny::config());
  engine.set_source(give);
  std::int64_t steps = 0;
  for (auto& step : engine.steps()) {
    EXPECT_EQ(step.step, ++steps);
    if (steps == 3) break;
  }
  EXPECT_EQ(steps, 3);
  for (const StepResult& step : engine.steps()) steps = step.step;
  EXPECT_EQ(steps, 8) << "train.steps of the config";
  for (const StepResult& step : engine.steps()) steps = -step.step;
  EXPECT_EQ(steps, 8) << "there is nothing left to do";
  engine.set_source([](hawser::SourceBatch& batch) { return batch.step <= 10 && give(batch); });
  for (const StepResult& step : engine.steps(100)) steps = step.step;
  EXPECT_EQ(steps, 10) << "the end of the data";
  EXPECT_THROW(engine.train_step(), hawser::OutOfRange);
  engine.set_source(nullptr);
  EXPECT_THROW(engine.train_step(), hawser::FailedPrecondition);
}

TEST(CppEngine, TrainsValidatesAndSavesAsTheConfigSays) {
  const tiny::Folder folder;
  hawser::Config config = tiny::text_config(folder);
  config.set("/checkpoint", R"({"path": ")" + folder.file("run") + R"(", "every": 4})");
  Engine engine(config);
  int validations = 0, saves = 0;
  engine.train([&](const hawser::TrainRecord& record) {
    validations += record.validation_loss == record.validation_loss ? 1 : 0;
    saves += record.saved;
    const hawser::Progress progress = engine.progress();
    EXPECT_EQ(progress.phase, HWS_PHASE_TRAIN);
    EXPECT_EQ(progress.step, record.step);
    EXPECT_EQ(progress.total_steps, 8);
    return record.step < 6;
  });
  EXPECT_EQ(engine.progress().step, 6);
  EXPECT_EQ(validations, 1);
  EXPECT_EQ(saves, 1);
  const std::string newest = hawser::checkpoint_latest(folder.file("run"));
  EXPECT_NE(newest.find("step-6"), std::string::npos);
  engine.train(9);
  EXPECT_NE(engine.load_latest(folder.file("run")).find("step-9"), std::string::npos);
  engine.load(newest);
  EXPECT_EQ(engine.progress().step, 6);
  EXPECT_GT(engine.learning_rate(), 0);
  EXPECT_NE(engine.data_info().find("validation_tokens"), std::string::npos);
}

TEST(CppEngine, CheckpointsAndHuggingFaceFolders) {
  const tiny::Folder folder;
  Engine engine(tiny::config());
  engine.push(Tokens(1).batch());
  engine.train_step();
  const hawser::Operation save = engine.save_async(folder.file("beside"));
  EXPECT_TRUE(save.wait());
  EXPECT_TRUE(save.ended());
  EXPECT_EQ(save.progress().done, save.progress().total);
  save.cancel();
  engine.save(folder.file("now"));
  EXPECT_THROW(engine.save(folder.file("now")), hawser::AlreadyExists);
  hawser::checkpoint_verify(folder.file("now"));
  const std::string paths = "[\"" + folder.file("now") + "\",\"" + folder.file("now") + "\"]";
  hawser::checkpoint_average(paths, "[1, 2]", folder.file("mean"));
  hawser::checkpoint_verify(folder.file("mean"));
  EXPECT_NE(hawser::checkpoint_inspect(folder.file("now")).find("\"step\""), std::string::npos);
  engine.export_to(folder.file("hf"), "f32");
  hawser::checkpoint_export(folder.file("beside"), folder.file("hf_too"), "f32");
  hawser::checkpoint_import(folder.file("hf"), folder.file("imported"));
  Engine again(hawser::Config::from_model(folder.file("imported")), hawser::Mode::kInference);
  std::vector<float> ours(32), theirs(32);
  engine.get_tensor("final_norm.weight", ours);
  again.get_tensor("final_norm.weight", theirs);
  EXPECT_EQ(ours, theirs);
}

TEST(CppEngine, AdaptersStandOnOneBase) {
  const tiny::Folder folder;
  Engine(tiny::config()).export_to(folder.file("base"), "f32");
  hawser::Config config = tiny::config();
  config.set("/init", R"({"from": ")" + folder.file("base") + "\"}");
  const Engine base(config, hawser::Mode::kInference);
  config.set("/adapter", R"({"rank": 2})");
  const auto loss = [](Engine engine) {
    for (std::uint32_t seed = 1; seed < 3; ++seed) engine.push(Tokens(seed).batch()), engine.train_step();
    return engine.eval(Tokens(3).batch()).loss;
  };
  EXPECT_EQ(loss(Engine::on(base, config)), loss(Engine(config)));
  EXPECT_THROW(Engine::on(Engine(config), config), hawser::FailedPrecondition);
}

TEST(CppEngine, LooksAtTheModel) {
  const tiny::Folder folder;
  Engine engine(tiny::text_config(folder));
  const std::vector<std::int32_t> prompt = engine.encode("line 1");
  EXPECT_EQ(engine.decode(prompt), "line 1");
  const hawser::Batch batch{1, static_cast<std::int64_t>(prompt.size()), prompt, prompt, {}};
  const hawser::Evaluation one = engine.eval(batch), all = engine.eval(1);
  EXPECT_EQ(one.tokens, 6);
  EXPECT_GT(all.tokens, one.tokens);
  EXPECT_GT(all.loss, 0);
  EXPECT_EQ(engine.forward(batch).size(), 6u * 256u);
  double sum = 0;
  for (const float logprob : engine.logprobs(batch)) sum -= logprob;
  EXPECT_NEAR(sum / 6, one.loss, 1e-6);
  EXPECT_EQ(engine.sizes().vocab_size, 256);
  const hawser::TopLogprobs top = engine.top_logprobs(batch, 3);
  EXPECT_EQ(top.ids.size(), 6u * 3u);
  EXPECT_LE(top.logprobs[1], top.logprobs[0]);
  EXPECT_THROW(engine.top_logprobs(batch, 0), hawser::InvalidArgument);
  hawser::GenerateRequest request{prompt};
  request.max_tokens = 5;
  request.temperature = 0;
  const std::vector<std::int32_t> tokens = engine.generate(request);
  EXPECT_EQ(tokens.size(), 5u);
  std::vector<std::int32_t> two;
  engine.generate(request, [&](std::int32_t token) { return two.push_back(token), two.size() < 2; });
  EXPECT_EQ(two, std::vector<std::int32_t>(tokens.begin(), tokens.begin() + 2));
  const std::vector<std::int32_t> stops = {999, tokens[0]};
  request.stop_tokens = stops;
  EXPECT_EQ(engine.generate(request).size(), 1u);
}

TEST(CppEngine, ItsTokenizerIsThatOfItsModel) {
  const tiny::Folder folder;
  const Engine engine(tiny::text_config(folder));
  try {
    const hawser::Tokenizer tokenizer = engine.tokenizer();
    EXPECT_EQ(tokenizer.encode("a\xc3\xa9"), engine.encode("a\xc3\xa9"));
    EXPECT_EQ(tokenizer.decode(engine.encode("a\xc3"), false, true), "a");
    EXPECT_NE(tokenizer.info().find("\"vocab_size\":256"), std::string::npos);
    EXPECT_THROW(static_cast<void>(tokenizer.render("{}")), hawser::FailedPrecondition);
    EXPECT_THROW(static_cast<void>(hawser::Tokenizer::open("/no/such/folder")), hawser::NotFound);
    EXPECT_THROW(hawser::Tokenizer::train("[\"/no/such/file\"]", 300, "/no/such/folder/out.json"),
                 hawser::NotFound);
  } catch (const hawser::Unavailable& missing) {
    GTEST_SKIP() << missing.what();
  }
}

TEST(CppEngine, WeightsScaleTheLossOfTheirTargets) {
  hawser::Engine engine(tiny::config());
  const tiny::Tokens tokens(1);
  const std::vector<float> halves(tokens.tokens.size(), 0.5f), few(3, 1.0f);
  hawser::Batch batch = tokens.batch();
  const double loss = engine.eval(batch).loss;
  batch.weights = halves;
  EXPECT_EQ(engine.eval(batch).loss, loss / 2);
  engine.push(batch);
  EXPECT_EQ(engine.forward_backward().loss, loss / 2);
  engine.discard(true);
  engine.set_source([&](hawser::SourceBatch& to) {
    tokens.copy_to(to);
    std::copy(halves.begin(), halves.end(), to.weights);
    to.has_weights = 1;
    return true;
  });
  EXPECT_EQ(engine.forward_backward().loss, loss / 2);
  engine.discard(true);
  batch.weights = few;
  EXPECT_THROW(engine.push(batch), hawser::InvalidArgument);
}

TEST(CppEngine, Tensors) {
  std::vector<float> copy(tiny::kVocab * 32), other(copy.size());
  const std::string name = "embedding.tokens.weight";
  std::optional<Engine> engine(tiny::config());
  hawser::TensorView view = engine->view(name);
  EXPECT_EQ(view.shape()[0], tiny::kVocab);
  engine->push(Tokens(1).batch());
  engine->forward_backward();
  EXPECT_NE(engine->tensor_statistics().find(name), std::string::npos);
  engine->get_tensor(name, other, hawser::TensorKind::kGradient);
  engine->commit();
  engine->get_tensor(name, copy);
  engine.reset();
  ASSERT_EQ(view.f32().size(), copy.size());
  EXPECT_EQ(std::memcmp(view.f32().data(), copy.data(), copy.size() * sizeof(float)), 0);
  Engine next(tiny::config());
  next.set_tensor(name, copy);
  next.get_tensor(name, other);
  EXPECT_EQ(copy, other);
  EXPECT_NE(next.tensors().find(name), std::string::npos);
  EXPECT_THROW(next.view("nonsense"), hawser::NotFound);
  hawser::TensorView moved = std::move(view);
  EXPECT_EQ(moved.size(), copy.size());
  EXPECT_THROW(view.size(), hawser::BadHandle);
  view = next.view(name);
  EXPECT_TRUE(view.is_f32());
}

TEST(CppEngine, ReportsAndTraces) {
  Engine engine(tiny::config());
  std::string pushed;
  engine.set_metrics([&](std::string_view json) { pushed = json; });
  engine.set_trace(hawser::Trace::kKernels);
  engine.set_source(give);
  engine.train(2);
  EXPECT_EQ(pushed, engine.metrics());
  EXPECT_NE(engine.trace().find("traceEvents"), std::string::npos);
  EXPECT_NE(engine.profile().find("matmul"), std::string::npos);
  EXPECT_NE(engine.flight().find("ranks"), std::string::npos);
  EXPECT_NE(engine.info().find("\"parameters\""), std::string::npos);
  engine.set_metrics(nullptr);
  pushed.clear();
  engine.train_step();
  EXPECT_EQ(pushed, "");
}

TEST(CppEngine, CancelEndsARunFromAnotherThread) {
  Engine engine(tiny::config());
  engine.set_source(give);
  std::thread watcher([&] {
    while (engine.progress().step < 3) std::this_thread::yield();
    engine.cancel();
  });
  EXPECT_THROW(engine.train(1000000000), hawser::Cancelled);
  watcher.join();
  engine.cancel();  // has no effect, because nothing runs
  const std::int64_t step = engine.progress().step;
  engine.train(step + 1);
  EXPECT_EQ(engine.progress().step, step + 1);
}

}  // namespace engine_test
