#include "engine/config/embedded_texts.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/config/problems.h"
#include "engine/config/suggest.h"

namespace hawser::config {

std::vector<std::string> EmbeddedTexts::names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < count_; ++i) names.emplace_back(texts_[i].name);
  return names;
}

std::string_view EmbeddedTexts::find(std::string_view name) const {
  for (size_t i = 0; i < count_; ++i)
    if (name == texts_[i].name) return texts_[i].text;
  return {};
}

std::string_view EmbeddedTexts::at(std::string_view name) const {
  if (const std::string_view text = find(name); !text.empty()) return text;
  const std::string near = nearest_name(name, names());
  fail(Code::kNotFound, "there is no {} {}; {}", what_, quote(name),
       near.empty() ? fmt::format("there are: {}", fmt::join(names(), ", "))
                    : fmt::format("did you mean \"{}\"?", near));
}

}  // namespace hawser::config
