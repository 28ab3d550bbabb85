// ExpertParallel (GShard, arXiv:2006.16668): ranks divide the experts of a layer, and send each other the
// rows that choose them. The right column has the bytes that a rank sends if `other` rows of C elements of a
// bytes leave it:
//
//   counts     each rank sends its number of rows for each expert to all others       (e-1) 4E
//   dispatch   rows and their gate weights are sent to the ranks of their experts     other (C a + 4)
//   experts    compute the rows of each source separately, as that rank would
//   combine    results are sent back, rounded to the activation type, and added up    other C a
//
// Backward is the mirror image: gradients of results are sent out, and gradients of rows and of gate weights
// are sent back: other (2 C a + 4).
//
// A round carries at most a given number of rows from one rank to another, so that memory does not depend on
// the load of experts. The number of rounds follows from the counts, so it is equal on all members. Forward
// goes from the last round to the first, whose rows stay in the saved buffers; backward sends the rows of the
// other rounds again, C a + 4 bytes each.
//
// A weight gradient is a sum over rounds, and within a round a sum over sources in ascending order; the part
// of each source is computed separately. With one round, it is bit-identical to the sum over ranks that each
// have all experts. Rows that stay on their rank take the same path as rows that are sent. A backward in two
// passes (input and weight) has room for every load and receives all rows in one round, because its weight
// pass would otherwise have to receive the rows again. It sums the same pieces, so its gradients are
// bit-identical to those of a backward in one pass.
//
// The host issues all calls, so it must know the counts. Forward waits for them once, in addition to the
// waits of the wire; on a device the host keeps them in pinned memory until the backward (ExpertHost).
// Kernels need the offsets of received rows, which are sent to the device and saved. A later round waits
// until the device has read those of the previous round. RECOMPUTE is a forward and waits like one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/nn/moe/expert_exchange.h"
#include "engine/parallel/block_wire.h"

namespace hawser::parallel {

/// Limits of a round, equal on all members.
struct ExpertRound {
  int64_t rows = 1;  ///< maximum rows from one rank to another
  /// True if no micro-batch needs a second round. Weight gradients are then computed in the weight pass of a
  /// backward.
  bool single = false;
  /// Maximum rows of one source that weight gradients sum before they continue with the next source.
  int64_t summed = 1;
  int64_t ranks = 1;  ///< ranks that divide the experts

  /// Returns limits for micro-batches of `rows` local rows. With `single`, a round holds every possible load.
  static ExpertRound of(int64_t rows, int64_t top_k, int64_t experts, int64_t ranks, double factor,
                        bool single);
};

/// Host memory for counts if the host cannot access the device's memory: pinned, of planned size.
struct ExpertHost {
  device::HostLink* link = nullptr;  ///< null for dry runs
  int32_t* ends = nullptr;           ///< [calls, ranks, E] of ExpertsSaved; null: host reads device memory
  int32_t* offsets = nullptr;        ///< [ranks, E / ranks + 1], staging for the device; null with `ends`

  /// Returns the arrays at `memory`, which has bytes(...) bytes.
  static ExpertHost at(device::HostLink* link, char* memory, int64_t calls, int64_t ranks, int64_t experts);
  /// Returns a multiple of 64, so that memory after it is aligned, too.
  static int64_t bytes(int64_t calls, int64_t ranks, int64_t experts);
};

/// Exchanges of rows overlap with the computation of the other task, if the plan has overlapped instructions
/// (BlockWire::finish_overlapped). One thread at a time, as for its wire. Calls allocate nothing; they throw
/// the errors of wire and device.
class ExpertParallel final : public nn::ExpertExchange {
 public:
  /// `wire` and the memory of `host` must outlive the exchange.
  ExpertParallel(BlockWire* wire, const ExpertRound& round, const ExpertHost& host);

  nn::ExpertsSaved take_saved(const nn::Context& ctx, const nn::Dispatcher& dispatcher,
                              const nn::Experts& experts, nn::Region& region,
                              nn::Region& kept) const override;
  int64_t forward(const nn::Context& ctx, const nn::RoutedRows& rows, const nn::ExpertsSaved& saved, float* y,
                  const void* x, bool accumulate) const override;
  void take_weight_pass_inputs(const nn::Context& ctx, const nn::Dispatcher& dispatcher,
                               const nn::Experts& experts, nn::Region& region,
                               nn::ExpertsMade* made) const override;
  void take_activation(const nn::Context& ctx, const nn::Dispatcher& dispatcher, const nn::Experts& experts,
                       nn::Region& region, nn::ExpertsMade* made) const override;
  void backward_input(const nn::Context& ctx, const nn::RoutedRows& rows, const nn::ExpertsSaved& saved,
                      const nn::ExpertsMade& made, float* dx, float* dweights, const void* dy, DType dy_type,
                      bool accumulate) const override;
  void backward_down_weight(const nn::Context& ctx, const nn::RoutedRows& rows, const nn::ExpertsSaved& saved,
                            const nn::ExpertsMade& made, const void* dy, DType dy_type) const override;
  void backward_up_weight(const nn::Context& ctx, const nn::RoutedRows& rows, const nn::ExpertsSaved& saved,
                          const nn::ExpertsMade& made, const void* x) const override;

 private:
  struct Call;   // the arguments of one call
  struct Piece;  // rows of one source in a buffer of received rows

  void share_counts(const Call& c) const;
  int32_t* ends(const Call& c) const;
  int64_t first_place(const Call& c, int64_t to, int64_t round) const;
  int64_t most_total(const Call& c) const;
  int64_t rounds(const Call& c) const;
  int64_t assumed(const Call& c, int64_t to) const;
  int64_t total(const Call& c, int64_t from, int64_t to) const;
  int64_t sent(const Call& c, int64_t from, int64_t to, int64_t round) const;
  struct CallSizes;
  const CallSizes& sizes_of(const Call& c, int64_t round, int64_t row_bytes) const;
  template <class Use>
  void each_source(const Call& c, int64_t round, Use use) const;
  template <class Use>
  void each_summed(const Call& c, int64_t round, Use use) const;
  template <class Sum>
  void in_rounds(const Call& c, Sum sum) const;

  void begin_to_send(const Call& c, int64_t round, void* to, const void* from, DType type,
                     const int32_t* order, int64_t top_k, int64_t width) const;
  void begin_to_send_rows(const Call& c, int64_t round, void* to, const void* rows, DType type) const;
  const void* bring(const Call& c, int64_t round, const void* x) const;
  void send_offsets(const Call& c, int64_t round, int64_t rows_of_round) const;
  void remake(const Call& c, int64_t round) const;
  const void* begin_to_send_back(const Call& c, int64_t round, const float* rows, DType type,
                                 int64_t width) const;
  void put_by_place(const Call& c, int64_t round, float* by_place, const void* came, DType type,
                    int64_t width) const;
  void down_weight(const Call& c, int64_t round, const nn::ExpertsMade& made) const;
  void up_weight(const Call& c, int64_t round, const nn::ExpertsMade& made) const;
  int64_t room() const { return wire_.ranks() * round_.rows; }
  int64_t most_sent(const Call& c) const;

  BlockWire& wire_;
  ExpertRound round_;
  ExpertHost host_;
  /// Bytes of one call, by member.
  struct CallSizes {
    std::vector<int64_t> out, in;
  };
  /// Each of two overlapped tasks has at most two calls in progress.
  mutable std::array<CallSizes, 4> sizes_;
  mutable size_t calls_ = 0;
};

/// Creates the exchange of expert-parallel ranks. `wire` and the memory of `host` must outlive it.
std::unique_ptr<nn::ExpertExchange> make_expert_exchange(BlockWire* wire, const ExpertRound& round,
                                                         const ExpertHost& host = {});

}  // namespace hawser::parallel
