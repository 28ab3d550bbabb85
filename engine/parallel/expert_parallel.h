// Expert parallelism (GShard, arXiv:2006.16668): ranks divide the experts of a layer, and send each other the
// rows that choose them. `other` rows of C elements leave a rank, of a bytes each:
//
//   counts     each rank tells the others how many rows it has for each expert          (e-1) 4E
//   dispatch   rows and their weights go to the ranks of their experts                  other (C a + 4)
//   experts    compute the rows of each source by themselves, as that rank would
//   combine    results go back, rounded to the activation type, and are added up        other C a
//
// Backward is the mirror: gradients of results go out, those of rows and of weights come back: other (2 C a +
// 4).
//
// A round carries at most a given number of rows from one rank to another, so that memory does not depend on
// the load of experts. The number of rounds follows from the counts, so members agree on it. Forward goes
// from the last round to the first, whose rows stay in the saved buffers; backward sends those of the others
// again, C a + 4 bytes each.
//
// A weight gradient is a sum over rounds, and within a round a sum over sources in ascending order; the part
// of each source is computed by itself. With one round, its bits are those of ranks that each have all
// experts and add up their gradients. Rows that stay on their rank take the same path as rows that are sent.
// A backward in two passes (input and weight) has room for every load and receives all rows in one round,
// because its weight pass would have to send the rows again. It sums the same pieces, so its gradients have
// the bits of a backward in one pass.
//
// The host gives out all this, so it must know the counts. Forward waits for them once, beside what the wire
// itself waits for; on a device the host keeps them in pinned memory until the backward (ExpertHost). What
// kernels need of them, the offsets of rows that came, goes back and is saved. A later round waits until
// those of the one before have been read. RECOMPUTE is a forward, and waits as one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/nn/moe/expert_exchange.h"
#include "engine/parallel/block_wire.h"

namespace hawser::parallel {

/// The same on all members.
struct ExpertRound {
  int64_t rows = 1;  ///< the most from one rank to another
  /// No micro-batch needs a second round. Gradients of weights then wait for the weight half of a backward.
  bool single = false;
  /// Maximum rows of one source that weight gradients sum before they continue with the next source.
  int64_t summed = 1;

  /// For micro-batches of `rows` own rows. `single` holds the most that can come.
  static ExpertRound of(int64_t rows, int64_t top_k, int64_t experts, int64_t ranks, double factor,
                        bool single);
};

/// The host's side where it does not reach the device's memory: pinned, and of planned size.
struct ExpertHost {
  device::HostLink* link = nullptr;  ///< null for dry runs
  int32_t* ends = nullptr;           ///< [calls, ranks, E] of ExpertsSaved; null: the host reads the device's
  int32_t* offsets = nullptr;        ///< [ranks, E / ranks + 1], on their way to the device; null with `ends`

  /// At `memory`, which has bytes(...) bytes.
  static ExpertHost at(device::HostLink* link, char* memory, int64_t calls, int64_t ranks, int64_t experts);
  /// A multiple of 64: what follows is aligned, too.
  static int64_t bytes(int64_t calls, int64_t ranks, int64_t experts);
};

/// Rows go beside what the other half of a pair computes, if the plan has pairs
/// (BlockWire::finish_overlapped). One thread at a time, as its wire. Calls allocate nothing; they throw the
/// errors of wire and device.
class ExpertParallel final : public nn::ExpertExchange {
 public:
  /// `wire`, and what `host` points to, must outlive the exchange.
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
  struct Call;   // the arguments of one of these
  struct Piece;  // rows of one source in a buffer of rows that came

  void share_counts(const Call& c) const;
  int32_t* ends(const Call& c) const;
  int64_t first_place(const Call& c, int64_t to, int64_t round) const;
  int64_t most_total(const Call& c) const;
  int64_t rounds(const Call& c) const;
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
  void bring(const Call& c, int64_t round, const void* x) const;
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
  /// Of one call, by member.
  struct CallSizes {
    std::vector<int64_t> out, in;
  };
  /// Each half of a pair has at most two calls under way.
  mutable std::array<CallSizes, 4> sizes_;
  mutable size_t calls_ = 0;
};

/// The exchange of ranks that divide experts. `wire`, and what `host` points to, must outlive it.
std::unique_ptr<nn::ExpertExchange> make_expert_exchange(BlockWire* wire, const ExpertRound& round,
                                                         const ExpertHost& host = {});

}  // namespace hawser::parallel
