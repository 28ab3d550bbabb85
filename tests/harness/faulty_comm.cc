#include "tests/harness/faulty_comm.h"

namespace hawser::testing {
namespace {

using comm::Operation, comm::Work;

class FaultyGroup final : public comm::ProcessGroup {
 public:
  FaultyGroup(const FaultyComm& comm, int32_t world_rank, std::unique_ptr<comm::ProcessGroup> inner)
      : ProcessGroup(inner->rank(), inner->members(), inner->name()),
        comm_(comm),
        world_rank_(world_rank),
        inner_(std::move(inner)) {}

  Work all_gather(std::span<const comm::GatherPiece> pieces, DType type) override {
    return at(Operation::kAllGather).all_gather(pieces, comm_.type_for(world_rank_, type));
  }
  Work reduce_scatter(std::span<const comm::ReducePiece> pieces, const comm::Reduction& r) override {
    return at(Operation::kReduceScatter).reduce_scatter(pieces, r);
  }
  Work all_reduce(std::span<const comm::AllReducePiece> pieces, const comm::Reduction& r) override {
    return at(Operation::kAllReduce).all_reduce(pieces, r);
  }
  Work all_reduce_i64(int64_t* data, int64_t count) override {
    return at(Operation::kAllReduceI64).all_reduce_i64(data, count);
  }
  Work all_to_all(void* out, const void* in, int64_t bytes) override {
    return at(Operation::kAllToAll).all_to_all(out, in, bytes);
  }
  Work all_to_all_v(void* out, std::span<const int64_t> out_bytes, const void* in,
                    std::span<const int64_t> in_bytes) override {
    return at(Operation::kAllToAll).all_to_all_v(out, out_bytes, in, in_bytes);
  }
  Work broadcast(void* data, int64_t bytes, int32_t root) override {
    return at(Operation::kBroadcast).broadcast(data, bytes, root);
  }
  Work send(const void* data, int64_t bytes, int32_t to) override {
    return at(Operation::kSend).send(data, bytes, to);
  }
  Work recv(void* data, int64_t bytes, int32_t from) override {
    return at(Operation::kRecv).recv(data, bytes, from);
  }
  Work barrier() override { return at(Operation::kBarrier).barrier(); }
  void wait(Work work) override { inner_->wait(work); }
  void follow(Work work) override { inner_->follow(work); }
  bool done(Work work) const override { return inner_->done(work); }
  comm::Traffic traffic() const override { return inner_->traffic(); }

 private:
  comm::ProcessGroup& at(Operation operation) {
    comm_.meet(world_rank_, operation);
    return *inner_;
  }

  const FaultyComm& comm_;
  const int32_t world_rank_;
  const std::unique_ptr<comm::ProcessGroup> inner_;
};

class FaultyDevices final : public comm::DeviceComm {
 public:
  FaultyDevices(const FaultyComm& comm, int32_t world_rank, std::unique_ptr<comm::DeviceComm> inner)
      : comm_(comm), world_rank_(world_rank), inner_(std::move(inner)) {}
  std::unique_ptr<comm::ProcessGroup> make_group(std::vector<int32_t> members, std::string name) override {
    return std::make_unique<FaultyGroup>(comm_, world_rank_,
                                         inner_->make_group(std::move(members), std::move(name)));
  }
  const comm::RegisteredLinks& registered() const override { return inner_->registered(); }
  const comm::CallTrail& trail() const override { return inner_->trail(); }
  void wait() override { inner_->wait(); }
  void drain() noexcept override { inner_->drain(); }
  void begin_capture() override { inner_->begin_capture(); }
  comm::CallsOfGraph end_capture() override { return inner_->end_capture(); }
  void launches(const comm::CapturedCalls& calls) override { inner_->launches(calls); }
  void launched(const comm::CapturedCalls& calls) override { inner_->launched(calls); }

 private:
  const FaultyComm& comm_;
  const int32_t world_rank_;
  const std::unique_ptr<comm::DeviceComm> inner_;
};

class FaultyRank final : public comm::RankComm {
 public:
  FaultyRank(const FaultyComm& comm, std::unique_ptr<comm::RankComm> inner)
      : comm_(comm), inner_(std::move(inner)) {}
  int32_t rank() const override { return inner_->rank(); }
  int32_t world_size() const override { return inner_->world_size(); }
  std::unique_ptr<comm::ProcessGroup> make_group(std::vector<int32_t> members, std::string name,
                                                 const comm::Lane& lane, comm::LinkTopology pairs) override {
    return std::make_unique<FaultyGroup>(
        comm_, rank(), inner_->make_group(std::move(members), std::move(name), lane, pairs));
  }
  bool has_lanes() const override { return inner_->has_lanes(); }
  std::unique_ptr<comm::DeviceComm> on_device(const comm::DeviceUse& use) override {
    comm::DeviceUse ours = use;
    ours.timeout_seconds = comm_.timeout_seconds();
    return std::make_unique<FaultyDevices>(comm_, rank(), inner_->on_device(ours));
  }
  std::unique_ptr<comm::ProcessGroup> make_staged_group(std::vector<int32_t> members, std::string name,
                                                        const comm::Lane& lane,
                                                        const comm::HostStaging& staging) override {
    return std::make_unique<FaultyGroup>(
        comm_, rank(), inner_->make_staged_group(std::move(members), std::move(name), lane, staging));
  }
  bool abort(const Error& error) noexcept override { return inner_->abort(error); }
  int64_t transport_bytes() const override { return inner_->transport_bytes(); }
  comm::Connections connections() const override { return inner_->connections(); }
  std::vector<std::string> lane_names() const override { return inner_->lane_names(); }
  int64_t take_records(int32_t lane, comm::Record* out, int64_t most) override {
    return inner_->take_records(lane, out, most);
  }
  int64_t recall(comm::Record* out, int64_t most) const override { return inner_->recall(out, most); }
  std::vector<comm::GroupName> group_names() const override { return inner_->group_names(); }

 private:
  const FaultyComm& comm_;
  const std::unique_ptr<comm::RankComm> inner_;
};

}  // namespace

FaultyComm::FaultyComm(int32_t ranks, int32_t victim, double timeout_seconds, Mishap mishap)
    : inner_(comm::make_local(ranks)),
      victim_(victim),
      timeout_seconds_(timeout_seconds),
      mishap_(std::move(mishap)) {}

DType FaultyComm::type_for(int32_t rank, DType type) const {
  if (!mistakes_ || rank != victim_) return type;
  if (type == DType::kF32 || type == DType::kI32) return type == DType::kF32 ? DType::kI32 : DType::kF32;
  return DType::kF16;
}

std::unique_ptr<comm::RankComm> FaultyComm::connect(int32_t rank, const comm::CommOptions& options) {
  meet(rank, kConnect);
  comm::CommOptions ours = options;
  ours.timeout_seconds = timeout_seconds_;
  return std::make_unique<FaultyRank>(*this, inner_->connect(rank, ours));
}

}  // namespace hawser::testing
