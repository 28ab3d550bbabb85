// Text cases: rows of text, chat templates, tokenizers and Parquet files that cannot be used.
#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace text_cases {

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A row that prepares a file of rows with a valid tokenizer.
Case file(const std::string& what, const std::string& name, const std::string& bytes,
          std::vector<std::string> words, const Json& patch = Json::object()) {
  return {what, HWS_DATA_INVALID, std::move(words), [=](Site& site) {
            site.write("model/tokenizer.json", tokenizer_json("llama3"));
            Json request = {{"files", {site.write(name, bytes)}}};
            request.update(patch);
            return prepare(site, request);
          }};
}

/// A row whose third line of rows.jsonl is `json`.
Case row(const std::string& what, const std::string& json, std::vector<std::string> words) {
  words.push_back("rows.jsonl:3");
  return file(what, "rows.jsonl", "{\"text\": \"fine\"}\n\n" + json + "\n", std::move(words));
}

/// Makes a row of chat messages.
Case chat(const std::string& what, const std::string& messages, std::vector<std::string> words) {
  return row(what, "{\"messages\": " + messages + "}", std::move(words));
}

std::vector<Case> json_rows() {
  return {
      row("a row without a colon", R"({"text" "x"})", {"rows.jsonl:3:11", "expected ':'"}),
      row("a row that ends within a text", R"({"text": "x)", {"rows.jsonl:3:1", "missing closing quote"}),
      row("a row that ends within its object", R"({"text": "x")", {"rows.jsonl:3:13", "expected"}),
      row("two rows on a line", R"({"text": "x"} {"text": "y"})", {"rows.jsonl:3:15", "end of input"}),
      row("a number that no double holds", R"({"text": 1e999})",
          {"fit a double: number overflow parsing '1e999'"}),
      row("values nested in 70 levels", std::string(70, '[') + std::string(70, ']'),
          {"rows.jsonl:3:65", "more than 64 levels"}),
      row("a key twice", R"({"text": "x", "text": "y"})",
          {"rows.jsonl:3:15", "the key \"text\" appears twice in an object", "remove one"}),
      row("byte 0xff in a row", "{\"text\": \"a\xff\"}",
          {"rows.jsonl:3:12", "byte 0xff at offset 29", "iconv"}),
      file("byte 0xff in a text", "a.txt", "fine\nand \xff", {"a.txt:2:5", "byte 0xff at offset 9", "iconv"}),
      file("an array that does not end", "a.json", R"([{"text": "x"})", {"a.json:1:15", "expected ]"}),
      file("an array with a number", "a.json", R"([{"text": "x"}, 3])",
           {"a.json:1:17", "an object in braces"}),
      file("an array whose third line is no JSON", "a.json", "[{\"text\": \"x\"},\n {\"text\":\n 1 2}]",
           {"a.json:3:4"}),
      file("a compressed file of rows", "rows.jsonl.gz", "\x1f\x8b\x08 and more",
           {"rows.jsonl.gz is compressed (gzip)", "gunzip -k"}),
      file("a file of empty lines", "rows.jsonl", "\n\n",
           {".../rows.jsonl is empty", "give a file with rows"}),
  };
}

std::vector<Case> forms() {
  return {
      row("a row that is a text", R"("hello")", {"the row is \"hello\"", "a row is an object"}),
      row("a row of unknown keys", R"({"words": "x"})", {"known sets of keys", "\"messages\"", "\"text\""}),
      row("a text that is a number", R"({"text": 3})", {"text is 3;", "must be a string"}),
      row("a completion that is a number", R"({"prompt": "2 + 2 = ", "completion": 4})",
          {"completion is 4;"}),
      row("tools that are no JSON", R"({"messages": [{"role": "user", "content": "x"}], "tools": "{"})",
          {"tools is a string that is not JSON"}),
      chat("messages that are a text", R"("hello")", {"messages is \"hello\"", "an array of messages"}),
      chat("no messages", "[]", {"messages is empty"}),
      chat("a message without a role", R"([{"content": "x"}])", {"messages/0", "has no \"role\""}),
      chat("an unknown role", R"([{"role": "user", "content": "x"}, {"role": "wizard", "content": "y"}])",
           {"messages/1/role", "wizard", "known roles"}),
      chat("a message that is a text", R"(["hello"])", {"messages/0", "a message is an object"}),
      chat("content that is a number", R"([{"role": "user", "content": 3}])",
           {"messages/0/content is 3;", "a string or an array of parts"}),
      chat("a question without content", R"([{"role": "user"}])", {"messages/0", "has no \"content\""}),
      chat("a call without a name",
           R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}])",
           {"messages/0/tool_calls", "a call without a name"}),
      chat("`train` that is a number", R"([{"role": "assistant", "content": "x", "train": 1}])",
           {"\"train\" of a message is 1;", "true or false"}),
      chat("a negative weight", R"([{"role": "assistant", "content": "x", "weight": -1}])",
           {"\"weight\"", "-1", "at least 0"}),
      file("chats without an answer", "rows.jsonl", R"({"messages": [{"role": "user", "content": "x"}]})",
           {"no row is left", "1 have no target", "give rows with answers"}),
      {"a row that begins with `<s>`, for a tokenizer that adds it",
       HWS_DATA_INVALID,
       {"rows.jsonl:1", "begins with <s> twice", "remove it"},
       [](Site& site) {
         site.write("model/tokenizer.json", tokenizer_json("llama2"));
         site.write("model/tokenizer_config.json", R"({"bos_token": "<s>"})");
         site.write("rows.jsonl", R"({"text": "<s> hello"})");
         return prepare(site);
       }},
  };
}

std::string repeated(const std::string& part, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += part;
  return all;
}

/// A row that renders a chat of two answers with this template file.
Case with_template(const std::string& what, const std::string& source, std::vector<std::string> words) {
  return {what, HWS_DATA_INVALID, std::move(words), [=](Site& site) {
            site.write("model/tokenizer.json", tokenizer_json("llama3"));
            site.write("rows.jsonl", R"({"messages": [{"role": "user", "content": "One?"},
{"role": "assistant", "content": "1"}, {"role": "user", "content": "Two?"},
{"role": "assistant", "content": "2"}]})");
            std::string one_line = site.read("rows.jsonl");
            std::erase(one_line, '\n');
            site.write("rows.jsonl", one_line);
            return prepare(site, {{"template", site.write("own.jinja", source)}});
          }};
}

std::vector<Case> templates() {
  return {
      with_template("a template that refuses", "{{ raise_exception('Roles must alternate!') }}",
                    {"rows.jsonl:1", "own.jinja", "line 1", "Roles must alternate!"}),
      with_template(
          "a template that loops without end",
          "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = b %}{% endfor %}{% endfor %}",
          {"rows.jsonl:1", "own.jinja", "line 1", "does not end", "may take 4194304 steps"}),
      with_template("a template that nests without end", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
                    {"rows.jsonl:1", "own.jinja", "line 1", "in more than 200 levels"}),
      with_template("a template with an unknown filter", "{{ messages | shout }}", {"own.jinja", "shout"}),
      with_template("a template that is cut off", "line\n{% for m in messages %}", {"own.jinja", "line 2"}),
      with_template("a template with a tag of 5,000 tokens", "{{ 1" + repeated("+1", 2500) + " }}",
                    {"own.jinja", "line 1", "at most 4096 tokens"}),
      with_template("a template that makes a text of a gigabyte", "{{ 'a' * 1000000000 }}",
                    {"rows.jsonl:1", "own.jinja", "line 1", "its text is too long"}),
      with_template("a template whose values nest without end",
                    "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}",
                    {"rows.jsonl:1", "own.jinja", "line 1", "nested in more than 200 levels"}),
      with_template("a template that reads another one", "{% include 'other' %}",
                    {"own.jinja", "line 1", "no other templates"}),
      with_template("a template that does not print answers",
                    "{% for m in messages %}{% if m.role == 'user' %}{% generation %}{{ m.content }}"
                    "{% endgeneration %}{% endif %}{% endfor %}",
                    {"rows.jsonl:1", "does not print messages/1/content", "--unprinted drop"}),
      file("tool calls for a template of contents", "rows.jsonl",
           R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", )"
           R"("tool_calls": [{"function": {"name": "f"}}]}]})",
           {"rows.jsonl:1", "does not print messages/1/tool_calls", "remove it", "--unprinted drop"},
           {{"template", "plain"}}),
      file("50,000 answers in one row", "rows.jsonl",
           R"({"messages": [{"role": "user", "content": "x"})" +
               repeated(R"(, {"role": "assistant", "content": "y"})", 50000) + "]}",
           {"rows.jsonl:1", "50000 answers", "split", "{% generation %}"}, {{"template", "plain"}}),
      with_template("`{% generation %}` without an end", "{% generation %}x", {"no {% endgeneration %}"}),
      with_template("a template that writes earlier turns anew",
                    "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}",
                    {"rows.jsonl:1", "renders earlier turns differently", "--template chatml",
                     "{% generation %}", "\"train\": false"}),
      file("a chat for a model without a template", "rows.jsonl",
           R"({"messages": [{"role": "assistant", "content": "x"}]})",
           {"rows.jsonl:1", "has no chat template", "plain, chatml"}, {{"template", nullptr}}),
      file("a built-in template whose tokens the model lacks", "rows.jsonl", R"({"text": "x"})",
           {"chatml", "<|im_start|>", "does not have"}, {{"template", "chatml"}}),
      {"a template that is neither file nor name",
       HWS_NOT_FOUND,
       {"mine", "no built-in template", "plain"},
       [](Site& site) {
         site.write("model/tokenizer.json", tokenizer_json("llama3"));
         return prepare(site, {{"template", "mine"}});
       }},
  };
}

/// A row that opens a tokenizer.json with these bytes.
Case tokenizer(const std::string& what, const std::string& bytes, std::vector<std::string> words) {
  return {what, HWS_DATA_INVALID, std::move(words), [=](Site& site) {
            hws_tokenizer* opened = nullptr;
            const int32_t status = hws_tokenizer_open(site.write("tokenizer.json", bytes).c_str(), &opened);
            hws_tokenizer_destroy(opened);
            return status;
          }};
}

/// A row with a valid tokenizer.json in which one thing is changed.
Case damaged(const std::string& what, const Json& patch, std::vector<std::string> words) {
  Json json = Json::parse(tokenizer_json("llama3"));
  json.merge_patch(patch);
  return tokenizer(what, json.dump(), std::move(words));
}

/// A row that makes a call with a valid tokenizer of a folder.
Case with_tokenizer(const std::string& what, int32_t status, std::vector<std::string> words,
                    const std::function<int32_t(const hws_tokenizer*, hws_buffer**)>& call) {
  return {what, status, std::move(words), [=](Site& site) {
            site.write("model/tokenizer.json", tokenizer_json("llama3"));
            site.write("model/chat_template.jinja", "{{ raise_exception('Only tools here') }}");
            hws_tokenizer* opened = nullptr;
            hws_buffer* out = nullptr;
            int32_t result = hws_tokenizer_open(site.path("model").c_str(), &opened);
            if (result == HWS_OK) result = call(opened, &out);
            hws_buffer_destroy(out);
            hws_tokenizer_destroy(opened);
            return result;
          }};
}

std::vector<Case> tokenizers() {
  const Json weird = {{"type", "Weird"}};
  Json merges = Json::parse(tokenizer_json("llama3"))["model"]["merges"];
  merges.insert(merges.begin(), Json::array({"no such", "token"}));
  const Json parts = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "BertPreTokenizer"}}, weird}}};
  return {
      tokenizer("a tokenizer of SentencePiece", std::string("\x0a\x0e\x0a\x05<unk>\x15\0\0", 12),
                {".../tokenizer.json", "not JSON", "save_pretrained"}),
      tokenizer("a tokenizer.json that is cut off", tokenizer_json("llama3").substr(0, 9000),
                {".../tokenizer.json", "ends too early", "line 501"}),
      tokenizer("a vocab.json as tokenizer.json", R"({"a": 0, "b": 1})", {"not a tokenizer", "\"model\""}),
      tokenizer("a tokenizer.json that is not UTF-8", "{\"version\": \"\xff\"}",
                {"not UTF-8 at byte 13 (0xff)"}),
      damaged("a model of unknown type", {{"model", weird}}, {"its model, of type \"Weird\""}),
      damaged("an unknown normalizer", {{"normalizer", weird}}, {"its normalizer, of type \"Weird\""}),
      damaged("an unknown pre_tokenizer in a sequence", {{"pre_tokenizer", parts}},
              {"its pre_tokenizer/pretokenizers/1, of type \"Weird\"", "unknown"}),
      damaged("an unknown post_processor", {{"post_processor", weird}},
              {"its post_processor, of type \"Weird\""}),
      damaged("an unknown decoder", {{"decoder", weird}}, {"its decoder, of type \"Weird\""}),
      damaged("an expression that does not end",
              {{"pre_tokenizer",
                {{"type", "Split"},
                 {"pattern", {{"Regex", "(("}}},
                 {"behavior", "Isolated"},
                 {"invert", false}}}},
              {"its pre_tokenizer, of type \"Split\"", "parenthesis"}),
      damaged("a token with id -1", {{"model", {{"vocab", {{"a", -1}}}}}},
              {"its model, of type \"BPE\"", "integer `-1`"}),
      damaged("a merge of unknown tokens", {{"model", {{"merges", merges}}}}, {"its model", "no such"}),
      damaged("an added token without text", {{"added_tokens", {{{"id", 5}}}}},
              {"tokenizer.json", "content"}),
      with_tokenizer("a text that is not UTF-8", HWS_DATA_INVALID, {"not UTF-8 at byte 3 (0xff)"},
                     [](const hws_tokenizer* tokenizer, hws_buffer** out) {
                       return hws_tokenizer_encode(tokenizer, "abc\xff", 4, 0, out);
                     }),
      with_tokenizer("token -1 to decode", HWS_INVALID_ARGUMENT, {"`tokens` has -1 at index 1"},
                     [](const hws_tokenizer* tokenizer, hws_buffer** out) {
                       const int32_t ids[] = {1, -1};
                       return hws_tokenizer_decode(tokenizer, ids, 2, 0, out);
                     }),
      with_tokenizer("a chat that the template refuses", HWS_DATA_INVALID,
                     {".../model/chat_template.jinja", "line 1", "Only tools here"},
                     [](const hws_tokenizer* tokenizer, hws_buffer** out) {
                       return hws_tokenizer_render(
                           tokenizer, R"({"messages": [{"role": "user", "content": "x"}]})", out);
                     }),
      {"a folder without a tokenizer.json",
       HWS_NOT_FOUND,
       {".../model", "has no tokenizer.json", "save_pretrained"},
       [](Site& site) {
         site.write("rows.jsonl", R"({"text": "x"})");
         site.hugging_face();
         return prepare(site);
       }},
  };
}

/// Returns tokenizers that would make a text far longer.
std::vector<Case> growing_tokenizers() {
  return {
      damaged("a normalizer that makes a text far longer",
              {{"normalizer",
                {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}}}},
              {"tokenizer.json", "its normalizer can make a text 1000 times as long", "at most 64 times"}),
      damaged("a normalizer that adds a megabyte",
              {{"normalizer", {{"type", "Prepend"}, {"prepend", std::string(1 << 20, 'a')}}}},
              {"tokenizer.json", "its normalizer", "adds 1048576 bytes", "at most"}),
  };
}

/// Returns rows with valid files that do not fit a model of 61 tokens.
std::vector<Case> vocabularies() {
  return {
      {"rows for a model of 61 embeddings, with a larger tokenizer",
       HWS_DATA_INVALID,
       {"ids up to 608", "61 embeddings", "belongs to another model"},
       [](Site& site) {
         site.hugging_face();
         site.write("model/tokenizer.json", tokenizer_json("llama3"));
         site.write("rows.jsonl", R"({"text": "x"})");
         return prepare(site);
       }},
      {"a model of 61 embeddings with a larger tokenizer",
       HWS_DATA_INVALID,
       {".../model/tokenizer.json", "has 609 tokens", "61 rows"},
       [](Site& site) {
         const std::string model = site.hugging_face();
         site.write("model/tokenizer.json", tokenizer_json("llama3"));
         site.write("a.txt", std::string(500, 'x'));
         return create(
             {{"init", {{"from", model}}}, {"data", {{"format", "text"}, {"path", site.path("a.txt")}}}});
       }},
      {"prepared rows with ids beyond a model of 61 tokens",
       HWS_DATA_INVALID,
       {".../out", "61"},
       [](Site& site) {
         site.write("model/tokenizer.json", tokenizer_json("llama3"));
         site.write("rows.jsonl", R"({"text": "some words"})");
         if (const int32_t status = prepare(site, {{"sequence", 16}}); status != HWS_OK) return status;
         return create(sound_config(
             {{"data", {{"format", "prepared"}, {"path", site.path("out")}, {"validation_fraction", 0}}}}));
       }},
  };
}

/// Makes a row with a Parquet file of tests/text/parquet, or its first bytes.
Case parquet(const std::string& what, const std::string& name, std::vector<std::string> words,
             size_t most = std::string::npos) {
  const std::string bytes = read_bytes(std::string(HAWSER_PARQUET) + "/" + name + ".parquet");
  return file(what, name + ".parquet", bytes.substr(0, most), std::move(words));
}

std::vector<Case> parquet_files() {
  return {
      parquet("a Parquet column of numbers", "numbers", {"numbers.parquet, row 1", "text is 1;"}),
      parquet("a Parquet column of bytes that are no text", "bytes",
              {"bytes.parquet, row 1", "text is {\"bytes\":2}"}),
      parquet("a Parquet column of texts where messages should be", "joined",
              {"joined.parquet, row 1", "messages is \"user: One?\"", "an array of messages"}),
      parquet("a Parquet file that is cut off", "chats", {".../chats.parquet", "Parquet"}, 700),
  };
}

/// Calls hws_tokenizer_open of a library other than this program's.
int32_t open_tokenizer_with(Site& site, const std::string& library, const std::string& path) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) throw std::runtime_error(::dlerror());
  const auto function = [&](auto* of, const char* name) {
    return reinterpret_cast<decltype(of)>(::dlsym(opened, name));
  };
  hws_tokenizer* tokenizer = nullptr;
  hws_error* error = nullptr;
  const int32_t status = function(&hws_tokenizer_open, "hws_tokenizer_open")(path.c_str(), &tokenizer);
  function(&hws_error_take, "hws_error_take")(&error);
  site.say(function(&hws_error_message, "hws_error_message")(error));
  function(&hws_error_destroy, "hws_error_destroy")(error);
  return status;
}

/// A row that opens a tokenizer with a copy of the library that has this module next to it, or none.
Case library_with(const std::string& what, int32_t status, std::vector<std::string> words,
                  const char* module) {
  return {what, status, std::move(words),
          [=](Site& site) {
            namespace fs = std::filesystem;
            fs::create_directory(site.path("hawser-0"));
            fs::copy(HAWSER_LIBRARY, site.path("libhawser.so"));
            if (module != nullptr) fs::copy(module, site.path("hawser-0/libhawser_text.so"));
            return open_tokenizer_with(site, site.path("libhawser.so"),
                                       site.write("tokenizer.json", tokenizer_json("llama3")));
          },
          /*varies=*/true};
}

std::vector<Case> modules() {
  return {library_with("a text module of another version", HWS_ABI_MISMATCH,
                       {".../hawser-0/libhawser_text.so is of another build (\"0.0.0 some other compiler\"",
                        "install both from one release"},
                       HAWSER_OTHER_TEXT),
          library_with("no text module", HWS_UNAVAILABLE,
                       {"tokenizers, chat templates and Parquet need", ".../hawser-0/libhawser_text.so",
                        "bash packaging/text_module.sh", "libhawser-text0", "libhawser-text (conda)",
                        "pip install --no-index --find-links dist 'hawser-train[text]'"},
                       nullptr)};
}

}  // namespace text_cases

Area text_area() {
  using namespace text_cases;
  Area area = {
      "Text, chats and tokenizers",
      "Files of rows given to `hws_data_prepare`, and what reads them: the tokenizer, the chat template "
      "and the text module. The rows of `rows.jsonl` are its third line, where nothing else is said.",
      json_rows()};
  for (const auto& more :
       {forms(), templates(), tokenizers(), growing_tokenizers(), vocabularies(), parquet_files(), modules()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
