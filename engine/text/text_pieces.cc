#include "engine/text/text_pieces.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/utf8.h"

namespace hawser::text {
namespace {

bool is_visible(char c) { return c > ' ' && c < 0x7F; }

/// Returns the end of the last line that may end a piece; 0 if there is none.
size_t end_of_line(std::string_view text) {
  for (size_t at = text.size(); at > 2; --at)
    if (text[at - 2] == '\n' && is_visible(text[at - 3]) && is_visible(text[at - 1])) return at - 1;
  return 0;
}

}  // namespace

std::optional<std::string_view> TextPieces::next() {
  const int64_t left = file_.size() - at_;
  if (left == 0) return std::nullopt;
  size_t end = 0;
  piece_.clear();
  for (int64_t bytes = usual_; end == 0; bytes *= 2) {
    const int64_t before = static_cast<int64_t>(piece_.size());
    bytes = std::min({bytes, most_, left});
    piece_.resize(static_cast<size_t>(bytes));
    file_.read_at(at_ + before, piece_.data() + before, bytes - before);
    end = bytes == left ? piece_.size() : end_of_line(piece_);
    if (end == 0 && bytes == most_) end = cut_between_characters(piece_, piece_.size() - 1).size();
  }
  check_utf8(end);
  at_ += static_cast<int64_t>(end);
  return std::string_view(piece_).substr(0, end);
}

void TextPieces::check_utf8(size_t bytes) const {
  for (size_t at = 0; at < bytes;) {
    const auto offset = at_ + static_cast<int64_t>(at);
    if (next_code_point(piece_.data(), bytes, &at) != kInvalidCodePoint) continue;
    throw Error(Code::kDataInvalid,
                fmt::format("{}: byte 0x{:02x} at offset {} is not valid UTF-8; convert the text to UTF-8",
                            file_.path(), static_cast<uint8_t>(piece_[at]), offset));
  }
}

}  // namespace hawser::text
