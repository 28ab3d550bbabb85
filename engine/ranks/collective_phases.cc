#include "engine/ranks/collective_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "engine/base/error.h"
#include "engine/execute/agreed_error.h"

namespace hawser::train {

CollectivePhases::Reply CollectivePhases::attempt(const std::function<std::string()>& make) const {
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

/// Returns the answers of all members, indexed by member. All members wait for each other in each collective,
/// so few collectives are better: texts of about the same length are gathered in one, padded to the longest.
/// If padding would more than double the bytes, each text that is not empty is broadcast instead.
std::vector<CollectivePhases::Reply> CollectivePhases::exchange(const Reply& mine) const {
  const auto size = static_cast<size_t>(group_->size());
  const int64_t head[2] = {mine.code, static_cast<int64_t>(mine.text.size())};
  std::vector<int64_t> heads(2 * size);
  const comm::GatherPiece piece{heads.data(), head, 2};
  group_->wait(group_->all_gather({&piece, 1}, DType::kI64));
  std::vector<Reply> answers(size);
  int64_t total = 0, longest = 0;
  for (size_t r = 0; r < size; ++r) {
    const int64_t length = heads[2 * r + 1];
    answers[r] = {heads[2 * r], std::string(static_cast<size_t>(length), ' ')};
    total += length, longest = std::max(longest, length);
  }
  if (longest * group_->size() <= 2 * total) {
    gather_texts(mine, longest, &answers);
    return answers;
  }
  answers[static_cast<size_t>(group_->rank())] = mine;
  for (size_t r = 0; r < size; ++r) {
    std::string& text = answers[r].text;
    if (text.empty()) continue;
    group_->wait(group_->broadcast(text.data(), std::ssize(text), static_cast<int32_t>(r)));
  }
  return answers;
}

/// Fills the texts of the answers, whose lengths are already set.
void CollectivePhases::gather_texts(const Reply& mine, int64_t longest, std::vector<Reply>* answers) const {
  if (longest == 0) return;
  std::string padded = mine.text, all(answers->size() * static_cast<size_t>(longest), ' ');
  padded.resize(static_cast<size_t>(longest));
  const comm::GatherPiece piece{all.data(), padded.data(), longest};
  group_->wait(group_->all_gather({&piece, 1}, DType::kU8));
  for (size_t r = 0; r < answers->size(); ++r) {
    std::string& text = (*answers)[r].text;
    text.assign(all, r * static_cast<size_t>(longest), text.size());
  }
}

std::string CollectivePhases::from_first(const std::function<std::string()>& make) {
  if (group_ == nullptr) return make();
  const bool first = group_->rank() == 0;
  return from_all([&] { return first ? make() : std::string(); }).front();
}

std::vector<std::string> CollectivePhases::from_all(const std::function<std::string()>& make) {
  if (group_ == nullptr) return {make()};
  std::vector<std::string> texts;
  const std::vector<Reply> answers = exchange(attempt(make));
  for (size_t r = 0; r < answers.size(); ++r) {
    if (answers[r].code != 0)
      throw AgreedError(static_cast<Code>(answers[r].code),
                        fmt::format("rank {}: {}", group_->members()[r], answers[r].text));
    texts.push_back(answers[r].text);
  }
  return texts;
}

}  // namespace hawser::train
