#include "engine/parallel/ring_chunks.h"

#include <utility>

namespace hawser::parallel {

void RingAttention::Chunks::Travelling::shift(BlockWire& wire, DType type, int64_t elements) {
  wire.shift(next, here, type, elements);
  std::swap(here, next);
}

RingAttention::Chunks::Chunks(const Call& call, void* own, int64_t width, float* d_own)
    : call_(call), elements_(call.ctx.rows() * width), kv_{own, call.ctx.take(elements_)} {
  if (call.gradients == nullptr) return;
  nn::Region& workspace = *call.ctx.workspace;
  d_own_ = d_own == nullptr ? workspace.take_as<float>(elements_) : d_own;
  d_kv_ = {workspace.take_as<float>(elements_), workspace.take_as<float>(elements_)};
}

void RingAttention::Chunks::pass_on() {
  ++hop_;
  kv_.shift(call_.wire, call_.s.type, elements_);
  arrived();
  if (call_.gradients != nullptr && is_begun()) d_kv_.shift(call_.wire, DType::kF32, elements_);
}

void RingAttention::Chunks::return_gradients() {
  d_kv_.shift(call_.wire, DType::kF32, elements_);
  call_.ctx.kernels->add({d_own_, static_cast<float*>(d_kv_.here), d_own_, elements_}, *call_.ctx.stream);
  store(d_own_);
}

RingAttention::SourceChunks::SourceChunks(const Call& call)
    : Chunks(call, call.in.source, call.in.maker->width(),
             call.gradients == nullptr ? nullptr : call.gradients->d_source),
      made_(pack(call.ctx, call.s, call.in)) {
  if (call.gradients != nullptr)
    d_made_ = call.ctx.workspace->take_as<float>(call.ctx.rows() * kv_width(call.s));
}

void RingAttention::SourceChunks::arrived() {
  call_.in.maker->make(call_.ctx, made_, here(), call_.ctx.rows());
}

void RingAttention::SourceChunks::finish() {
  call_.in.maker->backward(call_.ctx, d_here(), here(), d_made_, call_.ctx.rows(), is_begun(), is_own());
}

}  // namespace hawser::parallel
