#include "engine/checkpoint/hf/peft_pattern.h"

#include <vector>

#include "engine/base/utf8.h"
#include "engine/checkpoint/hf/pattern_syntax.h"

namespace hawser::checkpoint::hf {

struct PythonPattern::Program {
  enum class Step { kSet, kSplit, kAssertion, kMatch };
  struct State {
    Step step;
    size_t next = 0, other = 0;  ///< successors; only a split has two
    size_t set = 0;              ///< index into sets
    PatternKind assertion = PatternKind::kStart;
  };
  std::vector<State> states;
  std::vector<CharacterSet> sets;
};

namespace {

bool is_word(const std::vector<uint32_t>& text, size_t at) {
  if (at >= text.size()) return false;
  const uint32_t c = text[at];
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool holds(PatternKind assertion, const std::vector<uint32_t>& text, size_t at) {
  const size_t end = text.size();
  const bool edge = (at > 0 && is_word(text, at - 1)) != is_word(text, at);
  switch (assertion) {
    case PatternKind::kStart:
      return at == 0;
    case PatternKind::kEnd:
      return at == end || (at + 1 == end && text[at] == '\n');
    case PatternKind::kVeryEnd:
      return at == end;
    case PatternKind::kWordEdge:
      return edge;
    default:
      return !edge && end > 0;  // before Python 3.14, \B does not match in an empty text
  }
}

/// Compiles a syntax tree into states. Each part needs the state that follows it, so compilation starts at
/// the end.
template <typename Program>
class PatternCompiler {
 public:
  explicit PatternCompiler(Program* program) : program_(*program) {}

  /// Returns the first state of the node, if `next` is the state after the node.
  size_t make(const PatternNode& node, size_t next) {
    switch (node.kind) {
      case PatternKind::kSet:
        program_.sets.push_back(node.set);
        return add({.step = Step::kSet, .next = next, .set = program_.sets.size() - 1});
      case PatternKind::kSequence:
        for (auto item = node.items.rbegin(); item != node.items.rend(); ++item) next = make(*item, next);
        return next;
      case PatternKind::kAlternation: {
        size_t first = make(node.items.back(), next);
        for (auto item = node.items.rbegin() + 1; item != node.items.rend(); ++item)
          first = split(make(*item, next), first);
        return first;
      }
      case PatternKind::kRepetition:
        return repetition(node, next);
      default:
        return add({.step = Step::kAssertion, .next = next, .assertion = node.kind});
    }
  }

  size_t match() { return add({.step = Step::kMatch}); }

 private:
  using Step = typename Program::Step;
  using State = typename Program::State;

  size_t add(State state) {
    program_.states.push_back(state);
    return program_.states.size() - 1;
  }
  size_t split(size_t next, size_t other) {
    return add({.step = Step::kSplit, .next = next, .other = other});
  }

  size_t repetition(const PatternNode& node, const size_t next) {
    const PatternNode& item = node.items.front();
    size_t first = next;
    if (node.most == kNoMost) {
      const size_t loop = split(0, next);
      const size_t body = make(item, loop);
      program_.states[loop].next = body;
      first = loop;
    } else {
      for (int64_t i = node.least; i < node.most; ++i) first = split(make(item, first), next);
    }
    for (int64_t i = 0; i < node.least; ++i) first = make(item, first);
    return first;
  }

  Program& program_;
};

/// The states in which the automaton can be. Each character visits a state at most once, which bounds the
/// cost of every expression.
template <typename Program>
class StateSet {
 public:
  explicit StateSet(const Program& program) : program_(program), seen_(program.states.size(), 0) {}

  void begin() { ++turn_, list_.clear(); }
  bool empty() const { return list_.empty(); }
  const std::vector<size_t>& list() const { return list_; }

  /// Adds a state, and the states that follow it without a character.
  void add(size_t first, const std::vector<uint32_t>& text, size_t at) {
    stack_.push_back(first);
    while (!stack_.empty()) {
      const size_t index = stack_.back();
      stack_.pop_back();
      if (seen_[index] == turn_) continue;
      seen_[index] = turn_;
      const auto& state = program_.states[index];
      if (state.step == Program::Step::kSplit) {
        stack_.push_back(state.next);
        stack_.push_back(state.other);
      } else if (state.step == Program::Step::kAssertion) {
        if (holds(state.assertion, text, at)) stack_.push_back(state.next);
      } else {
        list_.push_back(index);
      }
    }
  }

 private:
  const Program& program_;
  std::vector<size_t> list_, stack_;
  std::vector<uint64_t> seen_;
  uint64_t turn_ = 0;
};

std::vector<uint32_t> code_points(const std::string& text) {
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) {
    points.push_back(next_code_point(text.data(), text.size(), &at));
    if (points.back() == kInvalidCodePoint) ++at;
  }
  return points;
}

/// True if the program matches the whole text from `begin` to the end.
template <typename Program>
bool matches(const Program& program, const std::vector<uint32_t>& text, size_t begin, StateSet<Program>* now,
             StateSet<Program>* then) {
  now->begin();
  now->add(program.states.size() - 1, text, begin);  // the compiler makes the first state last
  for (size_t at = begin; at < text.size() && !now->empty(); ++at) {
    then->begin();
    for (const size_t index : now->list()) {
      const auto& state = program.states[index];
      if (state.step == Program::Step::kSet && program.sets[state.set].has(text[at]))
        then->add(state.next, text, at + 1);
    }
    std::swap(now, then);
  }
  for (const size_t index : now->list())
    if (program.states[index].step == Program::Step::kMatch) return true;
  return false;
}

}  // namespace

PythonPattern::PythonPattern(const std::string& pattern, const std::string& where) {
  const PatternNode tree = parse_pattern(pattern, where);
  auto program = std::make_unique<Program>();
  PatternCompiler compiler(program.get());
  const size_t first = compiler.make(tree, compiler.match());
  program->states.push_back({.step = Program::Step::kSplit, .next = first, .other = first});
  program_ = std::move(program);
}
PythonPattern::~PythonPattern() = default;
PythonPattern::PythonPattern(PythonPattern&&) noexcept = default;

bool PythonPattern::matches_whole(const std::string& text) const {
  StateSet now(*program_), then(*program_);
  return matches(*program_, code_points(text), 0, &now, &then);
}

bool PythonPattern::matches_path_end(const std::string& path) const {
  StateSet now(*program_), then(*program_);
  const std::vector<uint32_t> text = code_points(path);
  for (size_t begin = 0; begin <= text.size(); ++begin)
    if ((begin == 0 || text[begin - 1] == '.') && matches(*program_, text, begin, &now, &then)) return true;
  return false;
}

int64_t PythonPattern::states() const { return static_cast<int64_t>(program_->states.size()); }

}  // namespace hawser::checkpoint::hf
