// BlockExchanges: the exchanges of ranks that compute a block together. It has an object for each seam of nn,
// over wires of its own. If no ranks divide a block, these are the seams of one rank, which move nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/mesh/mesh.h"
#include "engine/nn/column_exchange.h"
#include "engine/nn/exchange.h"
#include "engine/nn/moe/expert_exchange.h"
#include "engine/parallel/block_wire.h"

namespace hawser::parallel {

class BlockExchanges {
 public:
  /// Makes the wire of the ranks along an axis; returns null if there is only one rank.
  using MakeWire = std::function<std::unique_ptr<BlockWire>(mesh::Axis axis)>;

  // Of tensor-parallel ranks; of these in generation, which does not divide rows; of ranks that divide
  // columns; of ranks that divide experts.
  const nn::Exchange& exchange() const { return exchange_ ? *exchange_ : nn::kAlone; }
  const nn::Exchange& cached_exchange() const { return cached_exchange_ ? *cached_exchange_ : nn::kAlone; }
  const nn::ColumnExchange& columns() const { return columns_ ? *columns_ : nn::kAllColumns; }
  const nn::ExpertExchange& experts() const { return experts_ ? *experts_ : nn::kAllExperts; }

  void set_exchange(std::unique_ptr<nn::Exchange> exchange, std::unique_ptr<nn::Exchange> cached) {
    exchange_ = std::move(exchange), cached_exchange_ = std::move(cached);
  }
  void set_columns(std::unique_ptr<nn::ColumnExchange> columns) { columns_ = std::move(columns); }
  void set_experts(std::unique_ptr<nn::ExpertExchange> experts) { experts_ = std::move(experts); }
  /// Keeps the wire of an axis. Returns it.
  BlockWire* add_wire(mesh::Axis axis, std::unique_ptr<BlockWire> wire) {
    return (wires_[static_cast<size_t>(axis)] = std::move(wire)).get();
  }
  /// The wire whose exchanges run while the other half of a pair computes; null if there are no pairs.
  BlockWire* overlapped() const { return overlapped_; }
  void set_overlapped(BlockWire* wire) { overlapped_ = wire; }

  /// As BlockWire::take_waited, for all wires.
  double take_waited() const {
    double seconds = 0;
    for (const auto& wire : wires_)
      if (wire) seconds += wire->take_waited();
    return seconds;
  }
  /// As BlockWire::settle, for all wires.
  void settle() const noexcept {
    for (const auto& wire : wires_)
      if (wire) wire->settle();
  }

  /// The most bytes that one exchange reads and writes, and that it needs for its sum between devices.
  int64_t most_bytes() const { return most(&BlockWire::most_bytes); }
  int64_t most_sum_bytes() const { return most(&BlockWire::most_sum_bytes); }

 private:
  int64_t most(int64_t (BlockWire::*bytes)() const) const {
    int64_t most = 0;
    for (const auto& wire : wires_)
      if (wire && wire->ranks() > 1) most = std::max(most, (wire.get()->*bytes)());
    return most;
  }

  std::array<std::unique_ptr<BlockWire>, mesh::kAxes> wires_;
  BlockWire* overlapped_ = nullptr;
  std::unique_ptr<nn::Exchange> exchange_, cached_exchange_;
  std::unique_ptr<nn::ColumnExchange> columns_;
  std::unique_ptr<nn::ExpertExchange> experts_;
};

}  // namespace hawser::parallel
