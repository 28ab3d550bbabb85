// Records of optimizer state (kernels/include/state_records.h) on the host: numbers from records and back,
// for checkpoints, tensors and proofs.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/execute/state_array.h"

namespace hawser::train {

/// Encodes n numbers, from the first of a record on; a last record with fewer than 64 is filled with zeros.
/// Second moments must not be negative.
void encode_state(DType type, const float* x, int64_t n, uint8_t* records);
/// Decodes the first n numbers of records.
void decode_state(DType type, const uint8_t* records, int64_t n, float* y);

/// Decodes n numbers of an array. read(array, to, bytes) copies bytes of it, from a whole record on.
void read_records(StateArray from, float* out, int64_t n,
                  const std::function<void(StateArray, void*, int64_t)>& read);
/// As write_values.
void write_records(const device::HostLink& link, StateArray to, const float* values, int64_t n);

}  // namespace hawser::train
