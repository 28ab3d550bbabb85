#include "engine/execute/step_trace.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/comm/gate.h"

namespace hawser::train {
namespace {

/// An UNSHARD gathers f32 and narrower weights in separate calls.
constexpr size_t kMostCalls = 2;
/// A rank records its last 2,048 calls; they are fetched well before that many can accumulate.
constexpr int64_t kTakeEvery = 512;
/// Upper bound of the average number of kernel calls of an instruction: a block's forward makes about 12, its
/// backward 25.
constexpr size_t kMostKernels = 32;

size_t calls_of(const plan::Plan& plan) {
  size_t calls = 0;
  for (const plan::Instruction& n : plan.instructions)
    calls += plan::is_own(n.lane)              ? 0
             : n.is_transfer()                 ? kMostCalls
             : plan::starts_with_collective(n) ? 1
                                               : n.exchanges.size();
  return calls;
}

bool sums_in_chunks(const plan::Plan& plan) {
  return std::any_of(plan.instructions.begin(), plan.instructions.end(),
                     [](const plan::Instruction& n) { return any_hidden(n.exchanges); });
}

}  // namespace

StepTrace::StepTrace(const plan::Plan& plan, comm::RankComm* comm, const parallel::OutsideArena* outside)
    : plan_(plan), comm_(comm), outside_(outside), marks_(plan.instructions.size()) {
  halves_.reserve(2);
  if (!comm) return;
  for (const std::string& name : comm->lane_names())
    lanes_.push_back({name, lanes_.empty(), std::vector<comm::Record>(calls_of(plan) + kTakeEvery)});
  // A transport with a single lane carries the exchanges in lane 0.
  nexts_.resize(lanes_.size());
  block_lane_ = sums_in_chunks(plan) ? find_lane("chunks", 0) : find_lane("block", find_lane("chunks", 0));
  expert_lane_ = find_lane("experts", block_lane_);
}

size_t StepTrace::find_lane(const char* name, size_t otherwise) const {
  for (size_t l = 0; l < lanes_.size(); ++l)
    if (lanes_[l].name == name) return l;
  return otherwise;
}

/// Drops the records of calls that are not part of this step.
void StepTrace::begin_half(size_t first) {
  if (first == 0) halves_.clear();
  half_begin_ = first;
  if (profile_ && first == 0) begin_sums();
  in_flight_ = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    Calls& lane = lanes_[l];
    if (first == 0) lane.recorded = 0;
    lane.half = lane.recorded;
    do {
      lane.recorded = lane.half;
      lane.take(comm_, static_cast<int32_t>(l));
    } while (lane.recorded > lane.half);
  }
}

void StepTrace::turn(size_t index) { marks_[index].ready = steady_seconds(); }
void StepTrace::starts(size_t index) { marks_[index].begin = steady_seconds(); }
void StepTrace::pair_ended(size_t index, double waited) {
  end(index), end(index + 1);
  marks_[index].waited = waited;
  Mark& other = marks_[index + 1];
  other.ready = other.begin = other.end = marks_[index].end;
}

void StepTrace::ended(size_t index, double waited) {
  end(index);
  marks_[index].waited = waited;
}

void StepTrace::end(size_t index) {
  marks_[index].end = steady_seconds();
  count_calls(static_cast<int64_t>(plan_.instructions[index].exchanges.size()));
}

void StepTrace::issued(size_t index, comm::Work work) {
  marks_[index].last = work;
  if (plan::is_move(plan_.instructions[index].op)) return;
  lanes_[static_cast<size_t>(work.lane)].planned = true;
  count_calls(kMostCalls);
}

void StepTrace::count_calls(int64_t calls) {
  in_flight_ += calls;
  if (in_flight_ >= kTakeEvery) take_records();
}

void StepTrace::drains() { halves_.push_back({0, steady_seconds(), 0}); }

void StepTrace::end_half(size_t end) {
  if (profile_) profile_->settle();
  halves_.back().drain_end = steady_seconds();
  halves_.back().end = end;
  take_records();
  if (profile_) add_half();
}

void StepTrace::add_profile(device::Device& device) {
  profile_ = std::make_unique<KernelProfile>(device, kMostKernels * plan_.instructions.size());
}

void StepTrace::begin_sums() {
  profile_->begin_step();
  if (++steps_begun_ != 2) return;
  profile_->clear_sums();
  sums_ = {};
}

void StepTrace::add_half() {
  const Half& half = halves_.back();
  sums_.steps += half_begin_ == 0 ? 1 : 0;
  sums_.seconds += half.drain_end - (half.end > half_begin_ ? marks_[half_begin_].ready : half.drain_begin);
  sums_.waited += half.drain_end - half.drain_begin;
  for (size_t i = half_begin_; i < half.end; ++i) sums_.waited += marks_[i].begin - marks_[i].ready;
  for (const Calls& lane : lanes_) {
    for (size_t i = lane.half; lane.planned && i < lane.recorded; ++i) {
      ++sums_.transfers;
      sums_.sent_bytes += lane.records[i].bytes;
      sums_.communicating += lane.records[i].ended - lane.records[i].begun;
    }
  }
  if (block_lane_ == 0) return;
  add_exchanges(lanes_[block_lane_]);
  if (expert_lane_ != block_lane_) add_exchanges(lanes_[expert_lane_]);
  for (size_t l = 0; l < lanes_.size(); ++l) nexts_[l] = lanes_[l].half;
  for (size_t i = half_begin_; i < half.end; ++i) sums_.beside += exchanged(i, &nexts_).beside;
}

void StepTrace::add_exchanges(const Calls& lane) {
  for (size_t i = lane.half; i < lane.recorded; ++i) {
    ++sums_.exchanges;
    sums_.exchanged_bytes += lane.records[i].bytes;
    sums_.exchanging += lane.records[i].ended - lane.records[i].begun;
  }
}

/// Returns the seconds of an instruction's exchanges, and advances `nexts`, the next record of each lane. All
/// exchanges of a pair are attributed to its first instruction. If the rank computes during exchanges, only
/// the time that it waited for them counts as awaited.
StepTrace::Exchanged StepTrace::exchanged(size_t i, std::vector<size_t>* nexts) const {
  Exchanged all;
  if (i > 0 && plan_.instructions[i - 1].overlaps_next) return all;
  const bool pair = plan_.instructions[i].overlaps_next;
  bool overlaps = false;
  for (size_t half = i; half < i + (pair ? 2 : 1); ++half) {
    bool more = false;  // the exchange before was not awaited, so this one was begun, too
    for (const ExchangeNote& note : plan_.instructions[half].exchanges) {
      const size_t l = hawser::is_of(note, "ep") ? expert_lane_ : block_lane_;
      if ((*nexts)[l] == lanes_[l].recorded) continue;
      const comm::Record& call = lanes_[l].records[(*nexts)[l]++];
      const bool beside = (pair && note.beside) || note.is_hidden() || more;
      more = note.hiding_flops == ExchangeNote::kUntilNext;
      overlaps |= beside;
      (beside ? all.beside : all.awaited) += call.ended - call.begun;
    }
  }
  if (!overlaps) return all;
  all.awaited += marks_[i].waited;
  all.beside = std::max(0.0, all.beside - marks_[i].waited);
  return all;
}

void StepTrace::take_records() {
  in_flight_ = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) lanes_[l].take(comm_, static_cast<int32_t>(l));
}

void StepTrace::Calls::take(comm::RankComm* comm, int32_t lane) {
  const auto room = static_cast<int64_t>(records.size() - recorded);
  recorded += static_cast<size_t>(comm->take_records(lane, records.data() + recorded, room));
}

std::vector<StepTrace::LaneCalls> StepTrace::lanes() const {
  std::vector<LaneCalls> lanes;
  for (const Calls& lane : lanes_)
    lanes.push_back({lane.name, lane.planned, {lane.records.data(), lane.recorded}});
  return lanes;
}

plan::Timeline StepTrace::timeline() const {
  if (halves_.empty() || halves_.back().end == 0)
    fail(Code::kFailedPrecondition,
         "no step was traced: switch the trace on (hws_engine_set_trace) and take a step that succeeds");
  plan::Timeline timeline;
  timeline.times.resize(halves_.back().end);
  for (size_t i = 0; i < timeline.times.size(); ++i) {
    const Mark& m = marks_[i];
    timeline.times[i] = {m.ready, m.begin, m.end, m.begin, plan_.instructions[i].on_host() ? m.end : m.begin};
  }
  add_transfers(&timeline);
  add_moves(&timeline);
  size_t half = 0;
  const auto drain = [&] {
    const Half& h = halves_[half++];
    if (comm_ || (outside_ && outside_->exists()))
      timeline.waits.push_back({h.end, h.drain_begin, h.drain_end});
  };
  for (size_t i = 0; i < timeline.times.size(); ++i) {
    if (i == halves_[half].end) drain();
    const plan::Instruction& n = plan_.instructions[i];
    const bool meets = plan::starts_with_collective(n);
    if (n.waits_for.newest() < 0 && !meets) continue;
    timeline.waits.push_back({i, marks_[i].ready, meets ? timeline.times[i].begin : marks_[i].begin});
  }
  while (half < halves_.size()) drain();
  return timeline;
}

void StepTrace::add_moves(plan::Timeline* timeline) const {
  for (size_t i = 0; i < timeline->times.size(); ++i) {
    const plan::Instruction& n = plan_.instructions[i];
    if (!plan::is_move(n.op)) continue;
    const parallel::OffloadStore::Span span =
        outside_->store(n.lane)->span(parallel::OffloadStore::way_of(n.lane), marks_[i].last.ticket);
    plan::Times& t = timeline->times[i];
    t.begin = t.sent_begin = span.begin, t.end = t.sent_end = span.end;
  }
}

/// Calls of a lane finish in the order in which they were issued, so one walk over the plan and its lanes
/// finds each call's instruction. Instructions that start with a collective make it in the main lane.
void StepTrace::add_transfers(plan::Timeline* timeline) const {
  std::vector<size_t> nexts(lanes_.size());
  for (size_t i = 0; i < timeline->times.size() && comm_; ++i) {
    const plan::Instruction& n = plan_.instructions[i];
    const bool transfer = n.is_transfer();
    plan::Times& t = timeline->times[i];
    const Exchanged exchanges = exchanged(i, &nexts);
    t.exchanging = exchanges.awaited, t.beside = exchanges.beside;
    if ((!transfer && !plan::starts_with_collective(n)) || plan::is_own(n.lane)) continue;
    const comm::Work last = transfer ? marks_[i].last : comm::Work{};
    const Calls& lane = lanes_[static_cast<size_t>(last.lane)];
    size_t& next = nexts[static_cast<size_t>(last.lane)];
    const size_t first = next;
    if (transfer)
      while (next < lane.recorded && lane.records[next].ticket <= last.ticket) ++next;
    else
      next = std::min(next + 1, lane.recorded);
    if (next == first) continue;
    t.sent_begin = lane.records[first].begun, t.sent_end = lane.records[next - 1].ended;
    if (transfer)
      t.begin = t.sent_begin, t.end = t.sent_end;
    else
      t.begin = std::min(t.sent_end, t.end);
  }
}

}  // namespace hawser::train
