#include "engine/base/error.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "engine/base/utf8.h"

namespace hawser {
namespace {

struct Texts {
  Texts(std::string m, std::string d) : message(std::move(m)), details(std::move(d)) {}
  std::string message, details;
};

}  // namespace

Error::Error(Code code, std::string message, std::string details) : code_(code) {
  const auto texts = std::make_shared<const Texts>(as_utf8(std::move(message)), std::move(details));
  message_ = texts->message.c_str();
  details_ = texts->details.c_str();
  owner_ = texts;
}

Error Error::out_of_memory() noexcept {
  return fixed(Code::kOutOfMemory,
               "the host has no memory left for this call; free some or choose a smaller model or batch");
}

Error Error::caught(int32_t rank) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return out_of_memory().on_rank(rank);
  } catch (const std::exception& foreign) {
    Error error(Kept(), Code::kInternal, foreign.what());
    error.foreign_ = std::current_exception();
    return error.on_rank(rank);
  } catch (...) {
    return fixed(Code::kInternal, "an exception of unknown type was thrown").on_rank(rank);
  }
}

Error Error::on_rank(int32_t rank) const noexcept {
  Error error = *this;
  error.rank_ = rank;
  return error;
}

std::string Error::message() const {
  std::string text = foreign_ ? as_utf8(message_) : message_;
  return rank_ < 0 ? text : fmt::format("rank {}: {}", rank_, text);
}

void Error::copy_message(char* out, size_t size) const noexcept {
  const size_t most = size - 1;
  char* end = out;
  if (rank_ >= 0) end += std::min(most, fmt::format_to_n(out, most, "rank {}: ", rank_).size);
  const std::string_view text = cut_between_characters(message_, most - static_cast<size_t>(end - out));
  *std::copy(text.begin(), text.end(), end) = 0;
}

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "HWS_OK";
    case Code::kCancelled:
      return "HWS_CANCELLED";
    case Code::kUnknown:
      return "HWS_UNKNOWN";
    case Code::kInvalidArgument:
      return "HWS_INVALID_ARGUMENT";
    case Code::kTimeout:
      return "HWS_TIMEOUT";
    case Code::kNotFound:
      return "HWS_NOT_FOUND";
    case Code::kAlreadyExists:
      return "HWS_ALREADY_EXISTS";
    case Code::kPermission:
      return "HWS_PERMISSION";
    case Code::kOutOfMemory:
      return "HWS_OUT_OF_MEMORY";
    case Code::kFailedPrecondition:
      return "HWS_FAILED_PRECONDITION";
    case Code::kAborted:
      return "HWS_ABORTED";
    case Code::kOutOfRange:
      return "HWS_OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "HWS_UNIMPLEMENTED";
    case Code::kInternal:
      return "HWS_INTERNAL";
    case Code::kUnavailable:
      return "HWS_UNAVAILABLE";
    case Code::kDataLoss:
      return "HWS_DATA_LOSS";
    case Code::kIo:
      return "HWS_IO";
    case Code::kConfigParse:
      return "HWS_CONFIG_PARSE";
    case Code::kConfigInvalid:
      return "HWS_CONFIG_INVALID";
    case Code::kDeviceUnavailable:
      return "HWS_DEVICE_UNAVAILABLE";
    case Code::kCheckpointCorrupt:
      return "HWS_CHECKPOINT_CORRUPT";
    case Code::kCheckpointIncompatible:
      return "HWS_CHECKPOINT_INCOMPATIBLE";
    case Code::kNumeric:
      return "HWS_NUMERIC";
    case Code::kDataInvalid:
      return "HWS_DATA_INVALID";
    case Code::kBusy:
      return "HWS_BUSY";
    case Code::kForked:
      return "HWS_FORKED";
    case Code::kBadHandle:
      return "HWS_BAD_HANDLE";
    case Code::kAbiMismatch:
      return "HWS_ABI_MISMATCH";
    case Code::kCallback:
      return "HWS_CALLBACK";
  }
  return "HWS_UNKNOWN";
}

}  // namespace hawser
