#include "engine/train/ranks/together.h"

#include <fmt/format.h>

#include <new>

#include "engine/base/error.h"
#include "engine/train/ranks/agreed_error.h"

namespace hawser::train {

Together::Answer Together::attempt(const std::function<std::string()>& make) const {
  try {
    return {0, make()};
  } catch (const Error& e) {
    return {static_cast<int64_t>(e.code()), e.message()};
  } catch (const std::bad_alloc&) {
    return {static_cast<int64_t>(Code::kOutOfMemory), "out of memory while a checkpoint was written"};
  } catch (const std::exception& e) {
    return {static_cast<int64_t>(Code::kInternal), e.what()};
  }
}

/// The answers of all members, indexed by member.
std::vector<Together::Answer> Together::exchange(const Answer& mine) const {
  const auto size = static_cast<size_t>(group_->size());
  const int64_t head[2] = {mine.code, static_cast<int64_t>(mine.text.size())};
  std::vector<int64_t> heads(2 * size);
  const comm::GatherPiece piece{heads.data(), head, 2};
  group_->wait(group_->all_gather({&piece, 1}, DType::kI64));
  std::vector<Answer> answers(size);
  for (size_t r = 0; r < size; ++r) {
    answers[r] = static_cast<int32_t>(r) == group_->rank()
                     ? mine
                     : Answer{heads[2 * r], std::string(static_cast<size_t>(heads[2 * r + 1]), ' ')};
    group_->wait(group_->broadcast(answers[r].text.data(), heads[2 * r + 1], static_cast<int32_t>(r)));
  }
  return answers;
}

std::string Together::from_first(const std::function<std::string()>& make) {
  if (group_ == nullptr) return make();
  const bool first = group_->rank() == 0;
  return from_all([&] { return first ? make() : std::string(); }).front();
}

std::vector<std::string> Together::from_all(const std::function<std::string()>& make) {
  if (group_ == nullptr) return {make()};
  std::vector<std::string> texts;
  const std::vector<Answer> answers = exchange(attempt(make));
  for (size_t r = 0; r < answers.size(); ++r) {
    if (answers[r].code != 0)
      throw AgreedError(static_cast<Code>(answers[r].code),
                        fmt::format("rank {}: {}", group_->members()[r], answers[r].text));
    texts.push_back(answers[r].text);
  }
  return texts;
}

}  // namespace hawser::train
