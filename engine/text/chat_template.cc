#include "engine/text/chat_template.h"

#include <utility>

#include "engine/text/open_text_module.h"
#include "engine/text/text_call.h"

namespace hawser::text {

ChatTemplate::ChatTemplate(std::string_view source, std::string name, const std::string& module_folder)
    : source_(source), name_(std::move(name)), module_(&open_text_module(module_folder)) {
  int32_t has_generation = 0;
  const TextCall call(name_);
  call.check(module_->template_open(source.data(), source.size(), &template_, &has_generation, call.error()));
  has_generation_ = has_generation != 0;
}

ChatTemplate::~ChatTemplate() { module_->template_close(template_); }

RenderedChat ChatTemplate::render(const std::string& variables, int64_t now) const {
  RenderedChat chat;
  std::vector<uint64_t> ends;
  const TextCall call(name_);
  const Collector<std::string> text(&chat.text);
  const Collector<std::vector<uint64_t>> learned(&ends);
  const int32_t status = module_->template_render(template_, variables.data(), variables.size(), now,
                                                  &kHostPoll, text.sink(), learned.sink(), call.error());
  call.check(status);
  text.rethrow();
  learned.rethrow();
  TextCall::check_stopped(status);
  for (size_t i = 0; i < ends.size(); i += 2) chat.learned.push_back({ends[i], ends[i + 1]});
  return chat;
}

}  // namespace hawser::text
