// Records of optimizer state (kernels/include/state_records.h) on the host: numbers from records and back,
// for checkpoints, tensors and proofs.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/execute/state_array.h"

namespace hawser::train {

/// Encodes n numbers into records, starting a new record. Zeros fill the last record up to 64 numbers.
/// Second moments must not be negative.
void encode_state(DType type, const float* x, int64_t n, uint8_t* records);
/// Decodes the first n numbers of records.
void decode_state(DType type, const uint8_t* records, int64_t n, float* y);

/// Reads n numbers of an array, which may begin inside a record, and decodes them. read(array, to, bytes)
/// copies bytes of the array, from the beginning of a record.
void read_records(StateArray from, float* out, int64_t n,
                  const std::function<void(StateArray, void*, int64_t)>& read);
/// Encodes n numbers and writes them, as write_values (state_array.h) describes.
void write_records(const device::HostLink& link, StateArray to, const float* values, int64_t n);

}  // namespace hawser::train
