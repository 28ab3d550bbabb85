// Compressed saved arrays: between forward and backward, a block may keep some of its activations as E4M3
// records (kernels/include/fp8_records.h), 129 bytes for 128 numbers. Forward computes with the uncompressed
// array in the workspace, and encodes it when that part of the block is done. Backward decodes it into the
// workspace before it reads it. So the loss of a step keeps its bits, and only gradients change, because the
// records are rounded. Every token row begins with a new record, so no division of rows changes a bit.
//
// Under precision fp8, arrays that only products read are kept as the codes that these products read: in
// records with the scale of the products' operand. Decoded numbers are rounded to themselves, so gradients
// keep their bits, too. That needs a scale that is known before the operand is (Fp8Operands::keeps_codes).
#pragma once

#include <cstdint>

#include "engine/nn/context.h"

namespace hawser::nn {

/// A saved array[rows, width] of the activation type. `compressed` is a member of Context::compress, or true
/// for the codes of an operand.
struct SavedRows {
  bool compressed = false;
  int64_t rows = 0, width = 0;
  int64_t operand = -1;  ///< in the arrays of Fp8Operands; -1: each record has a scale of its own

  /// Returns rows that only the products of an operand read. Narrow rows are smaller without records.
  static SavedRows of_operand(const Context& ctx, int64_t rows, int64_t width, int64_t operand) {
    const bool smaller = dtype_bytes(DType::kE4m3Block, width) < width * dtype_bytes(ctx.type);
    return {ctx.fp8.keeps_codes() && smaller, rows, width, operand};
  }

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
    kernels::Fp8Encode e{saved, DType::kE4m3Block, full, ctx.type, rows, width};
    if (operand >= 0 && ctx.fp8.maxima != nullptr)  // null in a dry run
      e.maximum = ctx.fp8.maxima + operand, e.margin = ctx.fp8.margin;
    ctx.kernels->fp8_encode(e, *ctx.stream);
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
