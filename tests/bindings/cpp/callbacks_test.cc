// Tests that exceptions of callbacks reach the caller unchanged, and that the engine keeps working.
#include <gtest/gtest.h>

#include "tests/bindings/cpp/tiny.h"

namespace callbacks_test {

using hawser::Engine;

/// An exception of the program that derives from neither hawser::Error nor std::exception.
struct Mine {
  int number;
};

template <typename Fn>
int thrown_by(Fn&& fn) {
  try {
    fn();
  } catch (const Mine& mine) {
    return mine.number;
  }
  return 0;
}

Engine sourced() {
  Engine engine(tiny::config());
  engine.set_source([](hawser::SourceBatch& batch) {
    tiny::Tokens(static_cast<std::uint32_t>(batch.step)).copy_to(batch);
    return true;
  });
  return engine;
}

TEST(CppCallbacks, OfTrain) {
  Engine engine = sourced();
  EXPECT_EQ(thrown_by([&] {
              engine.train(5, [](const hawser::TrainRecord& record) {
                if (record.step == 2) throw Mine{41};
              });
            }),
            41);
  EXPECT_EQ(engine.progress().step, 2);
  engine.train(5);
  EXPECT_EQ(engine.progress().step, 5);
}

TEST(CppCallbacks, OfGenerateAlsoWithinTrain) {
  Engine engine = sourced();
  const std::vector<std::int32_t> prompt = {1, 2};
  hawser::GenerateRequest request{prompt};
  request.max_tokens = 5;
  const auto draw = [&] { engine.generate(request, [](std::int32_t) { throw Mine{42}; }); };
  EXPECT_EQ(thrown_by(draw), 42);
  EXPECT_EQ(thrown_by([&] { engine.train(3, [&](const hawser::TrainRecord&) { draw(); }); }), 42);
  EXPECT_EQ(engine.progress().step, 1);
  engine.train(2, [&](const hawser::TrainRecord&) { EXPECT_EQ(thrown_by(draw), 42) << "and may be caught"; });
  EXPECT_EQ(engine.generate(request).size(), 5u);
}

TEST(CppCallbacks, OfASource) {
  Engine engine = sourced();
  engine.train(2);
  engine.set_source([](hawser::SourceBatch&) -> bool { throw Mine{43}; });
  EXPECT_EQ(thrown_by([&] { engine.train(5); }), 43);
  EXPECT_EQ(thrown_by([&] { engine.train_step(); }), 43);
  EXPECT_EQ(thrown_by([&] { engine.forward_backward(); }), 43);
  EXPECT_EQ(thrown_by([&] {
              for (const hawser::StepResult& step : engine.steps(9)) static_cast<void>(step);
            }),
            43);
  EXPECT_EQ(engine.progress().step, 2);
  engine.set_source(nullptr);
  engine.push(tiny::Tokens(3).batch());
  EXPECT_EQ(engine.train_step().step, 3);
}

TEST(CppCallbacks, OfMetrics) {
  Engine engine = sourced();
  engine.set_metrics([](std::string_view) { throw Mine{44}; });
  EXPECT_EQ(thrown_by([&] { engine.train_step(); }), 44);
  EXPECT_EQ(engine.progress().step, 1) << "the step was taken";
  EXPECT_EQ(thrown_by([&] { engine.train(100); }), 44);
  EXPECT_EQ(engine.progress().step, 2) << "the run ended after it";
  engine.set_metrics(nullptr);
  engine.train(4);
}

TEST(CppCallbacks, OfAnInterruptPoll) {
  const tiny::Folder folder;
  Engine engine = sourced();
  engine.save(folder.file("step-0"));
  hawser::set_thread_interrupt([]() -> bool { throw Mine{45}; });
  EXPECT_EQ(thrown_by([&] { hawser::checkpoint_verify(folder.file("step-0")); }), 45);
  hawser::set_thread_interrupt([]() -> bool { throw Mine{46}; });
  EXPECT_EQ(thrown_by([&] { engine.train(1000000000); }), 46);
  hawser::set_thread_interrupt([] { return true; });
  EXPECT_THROW(hawser::checkpoint_verify(folder.file("step-0")), hawser::Cancelled);
  hawser::set_thread_interrupt(nullptr);
  hawser::checkpoint_verify(folder.file("step-0"));
}

TEST(CppCallbacks, OfTheProgressOfReferences) {
  hawser::Config config = tiny::config();
  config.set("/data", R"({"format":"prepared","path":")" HAWSER_PAIRS R"("})").set("/objective/kind", "dpo");
  std::vector<std::string> seen;
  hawser::set_thread_progress([&](std::string_view json) { return seen.emplace_back(json), true; });
  Engine engine(config);
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen.back(), R"({"phase":"references","done":24,"total":24})");
  hawser::set_thread_progress([](std::string_view) { return false; });
  EXPECT_THROW(Engine{config}, hawser::Cancelled);
  hawser::set_thread_progress([](std::string_view) -> bool { throw Mine{48}; });
  EXPECT_EQ(thrown_by([&] { Engine{config}; }), 48);
  hawser::set_thread_progress(nullptr);
  Engine{config}.train(1);
}

TEST(CppCallbacks, OfASecret) {
  hawser::Address address;
  address.world_size = 1;
  address.address = "127.0.0.1:9";
  address.secret = []() -> std::string { throw Mine{47}; };
  EXPECT_EQ(thrown_by([&] { hawser::Comm::address(address); }), 47);
  address.secret = [] { return std::string(5000, 'x'); };
  EXPECT_THROW(hawser::Comm::address(address), hawser::InvalidArgument);
}

TEST(CppCallbacks, GoWithTheirEngine) {
  const auto alive = std::make_shared<int>(0);
  {
    Engine engine = sourced();
    engine.set_source([alive](hawser::SourceBatch&) { return false; });
    engine.set_metrics([alive](std::string_view) {});
    EXPECT_EQ(alive.use_count(), 3);
    engine.set_metrics(nullptr);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
  Engine moved = sourced();
  Engine engine = std::move(moved);
  EXPECT_THROW(moved.set_source([alive](hawser::SourceBatch&) { return false; }), hawser::BadHandle);
  EXPECT_EQ(alive.use_count(), 1);
}

}  // namespace callbacks_test
