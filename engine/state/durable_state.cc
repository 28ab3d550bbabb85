#include "engine/state/durable_state.h"

#include <string>

#include "engine/checkpoint/hf/number_format.h"
#include "engine/execute/state_records.h"
#include "engine/ranks/collective_phases.h"
#include "engine/state/finite_weights.h"
#include "engine/state/nf4_weights.h"

namespace hawser::train {
namespace {

/// Returns a function that copies bytes of an array: of its snapshot, if there is one and the file is written
/// beside steps. Sets whether the function may be called after the next step.
auto reader_of(const device::HostLink& link, StateArray array, bool beside_steps,
               checkpoint::PieceView* piece) {
  const bool snapshot = beside_steps && array.outside != nullptr && array.outside->has_snapshots();
  piece->lasting = snapshot || !beside_steps;
  return [snapshot, &link](StateArray from, void* to, int64_t bytes) {
    if (snapshot) return from.outside->read_snapshot(from.at, to, bytes);
    read_bytes(link, to, from, bytes);
  };
}

void read_outside(const device::HostLink& link, StateArray array, bool beside_steps,
                  checkpoint::PieceView* piece) {
  piece->read = [array, read = reader_of(link, array, beside_steps, piece)](int64_t first, void* to,
                                                                            int64_t bytes) {
    StateArray from = array;
    from.at += first;
    read(from, to, bytes);
  };
}

/// Records are decoded as they are written: pieces have numbers of f32.
void decode_records(const device::HostLink& link, StateArray array, bool beside_steps,
                    checkpoint::PieceView* piece) {
  piece->dtype = optim::saved_type(array.type), piece->data = nullptr;
  piece->read = [array, read = reader_of(link, array, beside_steps, piece)](int64_t first, void* to,
                                                                            int64_t bytes) {
    constexpr int64_t kElement = dtype_bytes(DType::kF32);
    read_records(array.from(first / kElement), static_cast<float*>(to), bytes / kElement, read);
  };
}

/// Reads elements [begin, end) of a tensor as f32, widening stored bf16.
void read_as_f32(const checkpoint::Reader& reader, const std::string& name, int64_t begin, int64_t end,
                 float* values) {
  const DType stored = reader.tensors().at(name).dtype;
  const int64_t bytes = (end - begin) * dtype_bytes(stored);
  if (stored == DType::kF32) return reader.read_range(name, begin, end, values, bytes);
  std::vector<char> narrow(static_cast<size_t>(bytes));
  reader.read_range(name, begin, end, narrow.data(), bytes);
  checkpoint::hf::widen(stored, narrow.data(), end - begin, values);
}

}  // namespace

std::vector<checkpoint::PieceView> pieces_of(const Rank& rank, const nn::ParameterTable& table,
                                             bool beside_steps) {
  std::vector<checkpoint::PieceView> pieces;
  for (size_t i = 0; i < table.all().size(); ++i) {
    const nn::Parameter& p = table.all()[i];
    const GroupState& s = rank.executor().state(p.group);
    const int64_t columns = p.shape.size() == 2 ? p.shape[1] : 1;
    for (const auto& [run, rows] : mesh::joined_rows(rank.layout().to_write(p, i), columns)) {
      // The captures rename `run` and `rows`, because clang 14 cannot capture structured bindings.
      const auto piece = [&, &at = run, count = rows](const std::string& name, StateArray array) {
        array = array.from(at.at);
        pieces.push_back({name, array.type, p.shape, at.begin, at.end, array.data, count});
        if (is_state_block(array.type))
          decode_records(rank.link(), array, beside_steps, &pieces.back());
        else if (array.outside != nullptr)
          read_outside(rank.link(), array, beside_steps, &pieces.back());
      };
      piece(p.name, s.weights);
      for (size_t i = 0; i < plan::kStateCount; ++i)
        if (s.states[i]) piece(plan::kStates[i].prefix + p.name, s.states[i]);
    }
  }
  return pieces;
}

void verify_together(const Ranks& ranks, const checkpoint::Reader& reader) {
  if (ranks.world() == 1) return reader.verify();
  ranks.on_each([&](Rank& rank, int32_t) {
    CollectivePhases(rank.groups().dp.get()).from_all([&] {
      reader.verify(rank.number(), ranks.world());
      return std::string();
    });
  });
}

bool may_lack(const checkpoint::Reader& reader, const nn::Parameter& p) {
  if (reader.tensors().count(p.name) != 0) return false;
  return p.adapter || p.name == nn::kScoreWeight || reader.description().base_json != "{}";
}

namespace {

/// Loads the weights that this engine stores in NF4. Each rank reads complete tensors.
void load_nf4(const Rank& rank, const nn::ParameterTable& table, const checkpoint::Reader& reader) {
  for (const nn::Parameter& p : table.all()) {
    if (p.read != nn::Read::kNf4 || may_lack(reader, p) || !rank.layout().group(p.group).here) continue;
    std::vector<float> numbers(static_cast<size_t>(p.size));
    read_as_f32(reader, p.name, 0, p.size, numbers.data());
    require_finite(reader.path(), p, 0, numbers.data(), p.size);
    write_nf4(rank, p, quantise(p, numbers.data(), reader.tensors().at(p.name).dtype));
  }
}

/// Loads the states that a rank keeps in records. Each record is encoded once, with all its numbers, which
/// may belong to several parameters.
void load_records(const Rank& rank, const nn::ParameterTable& table, const checkpoint::Reader& reader) {
  constexpr int64_t kPiece = int64_t{4} << 20;  // elements
  static_assert(kPiece % kStateBlock == 0);
  std::vector<float> values;
  const auto fill = [&](int32_t g, const char* prefix, int64_t first) {
    const int64_t last = first + static_cast<int64_t>(values.size());
    std::fill(values.begin(), values.end(), 0.0f);
    for (const nn::Parameter& p : table.all()) {
      if (p.group != g) continue;
      for (const mesh::ElementRun& run : rank.layout().state_of(p, rank.number())) {
        const int64_t from = std::max(first, run.at), to = std::min(last, run.at + run.size());
        if (from < to && !may_lack(reader, p))
          read_as_f32(reader, prefix + p.name, run.begin + from - run.at, run.begin + to - run.at,
                      values.data() + from - first);
      }
    }
  };
  for (size_t g = 0; g < table.groups().size(); ++g) {
    const GroupState& state = rank.executor().state(static_cast<int32_t>(g));
    for (size_t i = 0; i < plan::kStateCount; ++i) {
      if (!state.states[i] || !is_state_block(state.states[i].type)) continue;
      for (int64_t first = 0; first < state.range.size(); first += kPiece) {
        values.resize(static_cast<size_t>(std::min(kPiece, state.range.size() - first)));
        fill(static_cast<int32_t>(g), plan::kStates[i].prefix, first);
        write_values(rank.link(), state.states[i].from(first), values.data(),
                     static_cast<int64_t>(values.size()));
      }
    }
  }
}

}  // namespace

void load_tensors(const Ranks& ranks, const checkpoint::Reader& reader, Take take) {
  const auto has = [&](const std::string& name) { return reader.tensors().count(name) != 0; };
  ranks.set_changing(nullptr);
  ranks.on_each([&](Rank& rank, int32_t) {
    ranks.set_changing("the last hws_checkpoint_load");
    each_part(rank, ranks.table(),
              [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                if (may_lack(reader, p) || p.read == nn::Read::kNf4) return;
                const auto read = [&](const std::string& name, StateArray to) {
                  produce_values(rank.link(), to.from(at), end - begin,
                                 [&](float* values, int64_t first, int64_t n) {
                                   read_as_f32(reader, name, begin + first, begin + first + n, values);
                                   if (take != Take::kState)
                                     require_finite(reader.path(), p, begin + first, values, n);
                                 });
                };
                const std::string average = plan::kStates[plan::kAverageOfWeights].prefix + p.name;
                read(take == Take::kAverages && has(average) ? average : p.name, s.weights);
                for (size_t i = 0; take == Take::kState && i < plan::kStateCount; ++i) {
                  if (!s.states[i] || is_state_block(s.states[i].type)) continue;  // load_records
                  const std::string name = plan::kStates[i].prefix + p.name;
                  read(i == plan::kAverageOfWeights && !has(name) ? p.name : name, s.states[i]);
                }
              });
    load_nf4(rank, ranks.table(), reader);
    if (take == Take::kState) load_records(rank, ranks.table(), reader);
    rank.publish_weights();
  });
  ranks.set_changing(nullptr);
}

void begin_averages(const Rank& rank, const nn::ParameterTable& table) {
  each_part(rank, table,
            [&](const nn::Parameter&, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
              if (const StateArray& average = s.states[plan::kAverageOfWeights])
                copy_values(rank.link(), average.from(at), s.weights.from(at), end - begin);
            });
}

}  // namespace hawser::train
