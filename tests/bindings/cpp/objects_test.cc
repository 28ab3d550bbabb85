// Tests objects: configs, plans, comms, errors by code, and the lifetime of handles.
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/bindings/cpp/tiny.h"

namespace objects_test {

using hawser::Config;
using hawser::Engine;

TEST(CppErrors, EveryCodeHasItsClass) {
  int classes = 0;
  for (hws_status code = 1; code < 100; ++code) {
    if (hawser::status_name(code) == "HWS_UNKNOWN" && code != HWS_UNKNOWN) continue;
    ++classes;
    try {
      hawser::detail::check(code);
      ADD_FAILURE() << code;
    } catch (const hawser::Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(typeid(error), typeid(hawser::Error)) << hawser::status_name(code);
      EXPECT_EQ(error.what(), hawser::status_name(code)) << "no older error's words";
    }
  }
  EXPECT_EQ(classes, 28);
  try {
    hawser::detail::check(99);
  } catch (const hawser::Error& error) {
    EXPECT_EQ(typeid(error), typeid(hawser::Error)) << "a code of a newer library";
  }
}

TEST(CppErrors, SayWhatAndWhere) {
  try {
    Config::parse(R"({"model": {"nonsense": 1}})");
    ADD_FAILURE();
  } catch (const hawser::ConfigInvalid& error) {
    EXPECT_EQ(error.code(), HWS_CONFIG_INVALID);
    EXPECT_NE(std::string(error.what()).find("nonsense"), std::string::npos);
    EXPECT_NE(error.details().find("/model/nonsense"), std::string::npos);
  }
  EXPECT_THROW(Config::parse("{"), hawser::ConfigParse);
  EXPECT_THROW(Config::preset("nonsense"), hawser::NotFound);
  EXPECT_THROW(Config::preset(std::string("gpt2-124m\0x", 11)), hawser::InvalidArgument) << "a NUL inside";
  Engine engine(tiny::config());
  const std::vector<std::int32_t> few(7);
  EXPECT_THROW(engine.push({4, 16, few, few, {}}), hawser::InvalidArgument) << "fewer elements than 4 x 16";
  EXPECT_THROW(engine.eval({INT64_MAX, 2, few, few, {}}), hawser::InvalidArgument);
}

TEST(CppConfig, ReadsChangesAndExplains) {
  Config config = tiny::config();
  config.set("/seed", "9").set("/model/layers", "3");
  const Config copy = config.clone();
  EXPECT_EQ(copy.serialize(), config.serialize());
  EXPECT_EQ(Config::parse(config.serialize(hawser::Format::kBinary), hawser::Format::kBinary).serialize(),
            config.serialize());
  EXPECT_EQ(config.validate(), "[]");
  EXPECT_NE(config.explain("/model/layers").find("\"set\""), std::string::npos);
  EXPECT_NE(Config::presets().find("gpt2-124m"), std::string::npos);
  EXPECT_NE(Config::schema().find("$schema"), std::string::npos);
  EXPECT_NE(hawser::Plan(config).report(hawser::Format::kJson).find("total_bytes"), std::string::npos);
  EXPECT_NE(hawser::Plan(config, "h100-80", 1e9).report().find("GPU-hours"), std::string::npos);
  EXPECT_THROW(hawser::Plan(config, "h100"), hawser::NotFound);
  EXPECT_NE(hawser::Plan(config, "h100-80").trace().find("traceEvents"), std::string::npos);
  EXPECT_NE(hawser::Plan::search(config, "h100-80", 1, 2).report().find("layouts were considered"),
            std::string::npos);
  const Config two = config.fit_ranks(2);
  EXPECT_NE(two.prove_layout(1).find(R"("equal":true)"), std::string::npos);
}

TEST(CppLibrary, SaysWhatItIs) {
  EXPECT_EQ(hawser::library_abi(), static_cast<std::uint32_t>(HWS_ABI_VERSION));
  EXPECT_NE(hawser::library_version(), "");
  EXPECT_NE(hawser::library_info().find(hawser::library_version()), std::string::npos);
  EXPECT_NE(hawser::device_list().find("threads"), std::string::npos);
  EXPECT_NE(hawser::device_measure(1, 0.01).find("bandwidth_gbs"), std::string::npos);
  EXPECT_GT(hawser::device_peak("fp32", 1, 0.01), 0);
}

/// A transport between two ranks of one process, through queues.
struct Wire {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::vector<std::byte>> to[2];
};

class Queues : public hawser::Transport {
 public:
  Queues(std::shared_ptr<Wire> wire, int rank) : wire_(std::move(wire)), rank_(rank) {}
  void send(std::int32_t to_rank, std::span<const std::byte> data, double) override {
    const std::lock_guard lock(wire_->mutex);
    wire_->to[to_rank].emplace_back(data.begin(), data.end());
    wire_->arrived.notify_all();
  }
  void receive(std::int32_t, std::span<std::byte> data, double) override {
    std::unique_lock lock(wire_->mutex);
    auto& queue = wire_->to[rank_];
    if (!wire_->arrived.wait_for(lock, std::chrono::seconds(30), [&] { return !queue.empty(); }))
      throw hawser::Timeout("nothing came");
    if (queue.front().size() != data.size()) throw std::runtime_error("another size");
    std::copy(queue.front().begin(), queue.front().end(), data.begin());
    queue.pop_front();
  }

 private:
  std::shared_ptr<Wire> wire_;
  int rank_;
};

Config two_ranks() { return tiny::config().set("/train/steps", "3").fit_ranks(2); }

double loss_of_a_step(const hawser::Comm& comm) {
  Engine engine(two_ranks(), comm);
  engine.push(tiny::Tokens(1).batch());
  return engine.train_step().loss;
}

TEST(CppComm, RanksAsThreadsAndOverATransportOfTheProgram) {
  const hawser::Comm local = hawser::Comm::local(2);
  EXPECT_NE(local.info().find("local"), std::string::npos);
  const double expected = loss_of_a_step(local);
  const auto wire = std::make_shared<Wire>();
  double losses[2] = {0, 0};
  const auto run = [&](int rank) {
    const hawser::Comm comm = hawser::Comm::host(std::make_unique<Queues>(wire, rank), rank, 2);
    losses[rank] = loss_of_a_step(comm);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_EQ(losses[0], expected);
  EXPECT_EQ(losses[1], expected);
  EXPECT_THROW(hawser::Comm::host(std::make_unique<Queues>(wire, 0), 2, 2), hawser::InvalidArgument);
}

TEST(CppComm, AFailureOfATransportHasItsWords) {
  class Broken : public hawser::Transport {
    void send(std::int32_t, std::span<const std::byte>, double) override { throw std::runtime_error("cut"); }
    void receive(std::int32_t, std::span<std::byte>, double) override { throw std::runtime_error("cut"); }
  };
  const hawser::Comm comm = hawser::Comm::host(std::make_unique<Broken>(), 0, 2);
  try {
    loss_of_a_step(comm);
    ADD_FAILURE();
  } catch (const hawser::Unavailable& error) {
    EXPECT_NE(std::string(error.what()).find("cut"), std::string::npos) << error.what();
  }
}

TEST(CppComm, Environment) {
  EXPECT_THROW(hawser::Comm::read_env(), hawser::FailedPrecondition);
  EXPECT_THROW(hawser::Comm::env(), hawser::FailedPrecondition);
}

TEST(CppHandles, WhatWasMovedFromIsRefusedAndTheRestLives) {
  Config config = tiny::config();
  Config moved = std::move(config);
  EXPECT_THROW(config.serialize(), hawser::BadHandle);
  EXPECT_THROW(Engine{config}, hawser::BadHandle);
  config = std::move(moved);
  Engine engine(config), other(config);
  Engine taken = std::move(engine);
  EXPECT_THROW(engine.train_step(), hawser::BadHandle);
  EXPECT_THROW(engine.train(1), hawser::BadHandle);
  EXPECT_THROW(engine.progress(), hawser::BadHandle);
  EXPECT_THROW(engine.steps(), hawser::BadHandle);
  engine.cancel();
  taken.push(tiny::Tokens(1).batch());
  other = std::move(taken);  // destroys the engine that `other` held
  EXPECT_EQ(other.train_step().step, 1);
}

}  // namespace objects_test
