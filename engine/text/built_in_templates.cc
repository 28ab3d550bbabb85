#include "engine/text/built_in_templates.h"

#include <array>

namespace hawser::text {
namespace {

/// Writes roles as words, for a tokenizer without tokens for turns. Only the end of an answer has a token.
constexpr std::string_view kPlain =
    R"({{ bos_token if bos_token is defined and bos_token else '' }}{% for message in messages %})"
    R"({{ message.role | capitalize + ': ' + message.content }})"
    R"({% if message.role == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }})"
    R"({% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %})";

/// OpenAI's ChatML.
constexpr std::string_view kChatMl =
    R"({% for message in messages %})"
    R"({{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }})"
    R"({% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

/// The system's text is inside the first turn of the user; each user turn and its answer form one sequence.
constexpr std::string_view kLlama2 =
    R"({% set system = namespace(text='') %}{% for message in messages %})"
    R"({% if message.role == 'system' %})"
    R"({% set system.text = '<<SYS>>\n' + message.content + '\n<</SYS>>\n\n' %})"
    R"({% elif message.role == 'user' %})"
    R"({{ bos_token + '[INST] ' + system.text + message.content + ' [/INST]' }}{% set system.text = '' %})"
    R"({% elif message.role == 'assistant' %}{{ ' ' + message.content + ' ' + eos_token }})"
    R"({% else %}{{ raise_exception('the llama2 format has no role ' + message.role) }}{% endif %})"
    R"({% endfor %})";

constexpr std::string_view kLlama3 =
    R"({{ '<|begin_of_text|>' }}{% for message in messages %})"
    R"({{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content + '<|eot_id|>' }})"
    R"({% endfor %}{% if add_generation_prompt %})"
    R"({{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";

constexpr std::array kTemplates = {
    BuiltInTemplate{"plain", kPlain, ""},
    BuiltInTemplate{"chatml", kChatMl, "<|im_start|> <|im_end|>"},
    BuiltInTemplate{"llama2", kLlama2, "<s> </s>"},
    BuiltInTemplate{"llama3", kLlama3, "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|>"},
};

}  // namespace

std::span<const BuiltInTemplate> built_in_templates() { return kTemplates; }

const BuiltInTemplate* find_built_in_template(std::string_view name) {
  for (const BuiltInTemplate& known : kTemplates)
    if (known.name == name) return &known;
  return nullptr;
}

}  // namespace hawser::text
