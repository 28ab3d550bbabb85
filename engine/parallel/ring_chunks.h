// Chunks: the keys and values that ring_attention.cc passes around its ranks, with their gradients in
// backward. A chunk is what one rank's columns need: keys and values, or a narrower source of them
// (nn::KeySource, such as the compressed rows of latent attention), from which each rank computes them again.
#pragma once

#include "engine/parallel/ring_attention.h"

namespace hawser::parallel {

/// The arguments of one call of the ring.
struct RingAttention::Call {
  const nn::Context& ctx;
  const kernels::AttentionShape& s;
  const nn::AttentionInputs& in;
  const nn::AttentionGradients* gradients;  ///< null in forward
  BlockWire& wire;
};

/// Holds one chunk of ctx.rows() rows at a time, at first that of this rank. Takes its memory from the call's
/// workspace.
class RingAttention::Chunks {
 public:
  virtual ~Chunks() = default;
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  /// Keys, then values of the current chunk: [rows, K (D + V)].
  virtual const void* keys() const = 0;
  /// Sends the current chunk to the next rank and receives the previous rank's. In backward, the gradients
  /// that other ranks have computed follow their chunk.
  void pass_on();

  // In backward:
  /// The f32 gradients of keys(), laid out as keys() is.
  virtual float* gradients() const = 0;
  /// True if gradients() holds other ranks' parts already, to which this rank adds its own.
  virtual bool adds() const = 0;
  /// To be called when gradients() has the parts of all local queries.
  virtual void finish() {}
  /// To be called after the last hop: completes and stores the gradients of this rank's chunk.
  void return_gradients();

 protected:
  /// `own`: this rank's chunk, rows of `width` elements. `d_own`: its f32 gradients; null: in the workspace.
  Chunks(const Call& call, void* own, int64_t width, float* d_own);

  /// Called when the next chunk has arrived.
  virtual void arrived() {}
  /// Called when the gradients of this rank's chunk are complete.
  virtual void store(const float* /*d_own*/) {}

  bool is_own() const { return hop_ == 0; }
  /// True if other ranks have computed gradients of the current chunk.
  bool is_begun() const { return hop_ > 1; }
  void* here() const { return kv_.here; }
  float* d_here() const { return is_own() ? d_own_ : static_cast<float*>(d_kv_.here); }

  const Call& call_;

 private:
  /// An array that travels, and the memory into which the next one arrives.
  struct Travelling {
    void *here = nullptr, *next = nullptr;
    void shift(BlockWire& wire, DType type, int64_t elements);
  };

  int64_t elements_, hop_ = 0;
  Travelling kv_, d_kv_;
  float* d_own_ = nullptr;
};

/// Keys and values travel around the ring.
class RingAttention::PlainChunks final : public Chunks {
 public:
  explicit PlainChunks(const Call& call)
      : Chunks(call, pack(call.ctx, call.s, call.in), kv_width(call.s), nullptr) {}

  const void* keys() const override { return here(); }
  float* gradients() const override { return d_here(); }
  bool adds() const override { return is_begun(); }

 private:
  void store(const float* d_own) override { unpack(call_.ctx, call_.s, d_own, *call_.gradients); }
};

/// A source of keys and values travels around the ring; each rank computes them from it.
class RingAttention::SourceChunks final : public Chunks {
 public:
  explicit SourceChunks(const Call& call);

  const void* keys() const override { return made_; }
  float* gradients() const override { return d_made_; }
  bool adds() const override { return false; }
  void finish() override;

 private:
  void arrived() override;

  void* made_;
  float* d_made_ = nullptr;
};

}  // namespace hawser::parallel
