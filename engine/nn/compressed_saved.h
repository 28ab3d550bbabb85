// Compressed saved arrays: between forward and backward, a block may keep some of its activations as E4M3
// records (kernels/include/fp8_records.h), 129 bytes for 128 numbers. Forward computes with the uncompressed
// array in the workspace, and encodes it when that part of the block is done. Backward decodes it into the
// workspace before it reads it. So the loss of a step keeps its bits, and only gradients change, because the
// records are rounded. Every token row begins with a new record, so no division of rows changes a bit.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"

namespace hawser::nn {

/// A saved array[rows, width] of the activation type. `compressed` is a member of Context::compress.
struct SavedRows {
  bool compressed = false;
  int64_t rows = 0, width = 0;

  int64_t bytes(DType type) const {
    return compressed ? rows * dtype_bytes(DType::kE4m3Block, width) : rows * width * dtype_bytes(type);
  }
  void* take(const Context& ctx, Region& region) const { return region.take(bytes(ctx.type)); }

  /// Returns the address of row `begin`; null if nothing is saved.
  void* from(const Context& ctx, void* saved, int64_t begin) const {
    if (saved == nullptr) return nullptr;
    return static_cast<char*>(saved) + SavedRows{compressed, begin, width}.bytes(ctx.type);
  }

  /// Returns where forward computes the array: in the workspace if it is compressed, otherwise in `saved`.
  void* full(const Context& ctx, void* saved) const {
    return compressed && saved != nullptr ? ctx.take(rows * width) : saved;
  }
  /// Encodes the array that forward computed. An evaluation has no backward, so it encodes nothing.
  void encode(const Context& ctx, void* saved, const void* full) const {
    if (!compressed || saved == nullptr || !ctx.training) return;
    ctx.kernels->fp8_encode({saved, DType::kE4m3Block, full, ctx.type, rows, width}, *ctx.stream);
  }
  /// Returns the array for backward, decoded into the workspace if it is compressed.
  void* decode(const Context& ctx, void* saved) const {
    if (!compressed || saved == nullptr) return saved;
    void* const full = ctx.take(rows * width);
    ctx.kernels->fp8_decode({full, ctx.type, saved, DType::kE4m3Block, rows, width}, *ctx.stream);
    return full;
  }
};

}  // namespace hawser::nn
