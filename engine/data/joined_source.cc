// Joined source: presents several sources as one stream, so that packed rows can hold many short text files.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/data/token_source.h"

namespace hawser::data {
namespace {

class JoinedSource final : public TokenSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<TokenSource>> parts)
      : parts_(std::move(parts)), starts_{0} {
    HWS_CHECK(!parts_.empty());
    for (const auto& part : parts_) starts_.push_back(starts_.back() + part->size());
    name_ = parts_.front()->name();
    if (parts_.size() > 1) name_ = fmt::format("{} and {} more", name_, parts_.size() - 1);
  }

  int64_t size() const override { return starts_.back(); }
  void copy(int64_t first, int64_t count, int32_t* out) const override {
    for (size_t part = part_of(first); count > 0; ++part) {
      const int64_t n = std::min(count, starts_[part + 1] - first);
      parts_[part]->copy(first - starts_[part], n, out);
      first += n;
      out += n;
      count -= n;
    }
  }
  int64_t document_end(int64_t at, int64_t limit) const override {
    const size_t part = part_of(at);
    const int64_t start = starts_[part], end = std::min(limit, starts_[part + 1]);
    return start + parts_[part]->document_end(at - start, end - start);
  }
  TokenLocation locate(int64_t index) const override {
    const size_t part = part_of(index);
    return parts_[part]->locate(index - starts_[part]);
  }
  const std::string& name() const override { return name_; }
  std::vector<const InputFile*> files() const override {
    std::vector<const InputFile*> result;
    for (const auto& part : parts_) {
      for (const InputFile* file : part->files()) result.push_back(file);
    }
    return result;
  }

 private:
  /// Returns the part that holds token `at`. Empty parts hold no token.
  size_t part_of(int64_t at) const {
    return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), at) - starts_.begin()) - 1;
  }

  std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<int64_t> starts_;  // first token of each part, and the end
  std::string name_;
};

}  // namespace

std::unique_ptr<TokenSource> join_sources(std::vector<std::unique_ptr<TokenSource>> parts) {
  return std::make_unique<JoinedSource>(std::move(parts));
}

}  // namespace hawser::data
