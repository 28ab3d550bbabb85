// Data cases: token files and texts that cannot be trained on, with valid configs.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace data_cases {

namespace fs = std::filesystem;

Json tokens_config(const Site& site, const Json& patch = Json::object()) {
  Json data = {
      {"format", "tokens"}, {"token_type", "u16"}, {"path", site.path("a.bin")}, {"validation_fraction", 0}};
  data.merge_patch(patch);
  return sound_config({{"data", data}});
}

Json text_config(const Site& site, const char* vocabulary) {
  return sound_config({{"model", {{"vocab_size", nullptr}}},
                       {"data",
                        {{"format", "text"},
                         {"vocabulary", vocabulary},
                         {"path", site.path("a.txt")},
                         {"validation_fraction", 0}}}});
}

/// A row with a file a.bin of u16 tokens that has these bytes.
Case tokens(const std::string& what, const std::string& bytes, std::vector<std::string> words,
            const Json& patch = Json::object()) {
  return {what, HWS_DATA_INVALID, std::move(words), [=](Site& site) {
            site.write("a.bin", bytes);
            return create(tokens_config(site, patch));
          }};
}

Case text(const std::string& what, const std::string& bytes, const char* vocabulary,
          std::vector<std::string> words, int32_t status = HWS_DATA_INVALID) {
  return {what, status, std::move(words), [=](Site& site) {
            site.write("a.txt", bytes);
            return create(text_config(site, vocabulary));
          }};
}

/// Makes a row with something other than a file at a.bin.
Case no_file(const std::string& what, int32_t status, std::vector<std::string> words,
             const std::function<void(const std::string& path)>& make) {
  return {what, status, std::move(words), [=](Site& site) {
            make(site.path("a.bin"));
            return create(tokens_config(site));
          }};
}

std::string u16(std::initializer_list<int> values, size_t zeros = 0) {
  std::string bytes;
  for (const int value : values) bytes += {static_cast<char>(value & 0xff), static_cast<char>(value >> 8)};
  return bytes + std::string(2 * zeros, '\0');
}

void make_socket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::close(fd);
}

std::vector<Case> files() {
  return {
      no_file("a path that is not there", HWS_NOT_FOUND, {".../a.bin", "cannot open", "check the path"},
              [](const std::string&) {}),
      no_file("a path through a file", HWS_NOT_FOUND, {".../a.bin", "check the path"},
              [](const std::string& path) { fs::create_symlink("/dev/null/a", path); }),
      no_file("a directory", HWS_INVALID_ARGUMENT, {".../a.bin", "is a directory", "give a regular file"},
              [](const std::string& path) { fs::create_directory(path); }),
      no_file("a FIFO, which has no writer", HWS_INVALID_ARGUMENT,
              {".../a.bin", "a FIFO", "give a regular file"},
              [](const std::string& path) { ::mkfifo(path.c_str(), 0600); }),
      no_file("a device, through a link", HWS_INVALID_ARGUMENT, {".../a.bin", "a character device"},
              [](const std::string& path) { fs::create_symlink("/dev/zero", path); }),
      no_file("a socket", HWS_INVALID_ARGUMENT, {".../a.bin", "a socket", "give a regular file"},
              make_socket),
      no_file("a link to itself", HWS_IO, {".../a.bin", "cannot open", "symbolic links"},
              [](const std::string& path) { fs::create_symlink("a.bin", path); }),
      {"a second source that is not there",
       HWS_NOT_FOUND,
       {".../b.bin", "cannot open"},
       [](Site& site) {
         site.write("a.bin", u16({1}, 40));
         return create(tokens_config(
             site, {{"path", nullptr},
                    {"sources", {{{"path", site.path("a.bin")}}, {{"path", site.path("b.bin")}}}}}));
       }},
  };
}

std::vector<Case> token_files() {
  return {
      tokens("an empty file", "", {".../a.bin", "holds no tokens", "not empty"}),
      tokens("7 bytes of u16", "1234567",
             {".../a.bin: 7 bytes", "not a multiple of 2", "u16", "data.token_type"}),
      tokens("6 bytes of u32", "123456", {"6 bytes", "not a multiple of 4", "u32"}, {{"token_type", "u32"}}),
      tokens("16 tokens for rows of 16", u16({}, 16),
             {"found 16 tokens", "at least 17", "batch.sequence 16"}),
      tokens("no room for the validation part", u16({}, 100),
             {"found 10 tokens of 100 in the validation part", "validation_fraction 0.1", "raise"},
             {{"validation_fraction", 0.1}}),
      tokens("token 61 of a vocabulary of 61", u16({1, 2, 61}, 40),
             {"token 2 (byte offset 4) is 61", "outside the vocabulary of 61", "model.vocab_size"}),
      tokens("token 65535", u16({65535}, 40), {"token 0 (byte offset 0) is 65535", "check the token type"}),
      tokens("u16 read as u32", u16({1, 1}, 80), {"token 0", "is 65537", "check the token type"},
             {{"token_type", "u32"}}),
      tokens("a NumPy file", "\x93NUMPY" + std::string(74, '\1'), {"NumPy file", "tofile"}),
      tokens("a Megatron index", std::string("MMIDIDX\0\0", 9) + std::string(81, '\0'),
             {"Megatron index", "data.format megatron"}),
      tokens("an old fairseq index", std::string("TNTIDX\0\0", 8) + std::string(80, '\0'),
             {"fairseq", "convert"}),
      tokens("an llm.c file",
             std::string("\x88\xd8\x34\x01\x01\0\0\0\x10\0\0\0", 12) + std::string(1100, '\0'),
             {"llm.c header", "20240520", "tail -c +1025"}),
      {"a file that is cut short before the step that reads it",
       HWS_DATA_INVALID,
       {".../a.bin", "has 2 bytes, but had 82 when", "do not change data"},
       [](Site& site) {
         site.write("a.bin", u16({1}, 40));
         return create(tokens_config(site), 0, [&](hws_engine* engine) {
           fs::resize_file(site.path("a.bin"), 2);
           return hws_engine_train_step(engine, nullptr);
         });
       }},
  };
}

std::vector<Case> texts() {
  return {
      text("an empty text, by characters", "", "characters", {".../a.txt", "no characters"}),
      text("an empty text, by bytes", "", "bytes", {".../a.txt", "holds no tokens"}),
      text("a text shorter than a row", "too short", "bytes",
           {"found 9 tokens", "at least 17", "give more data"}),
      text("byte 0xff in a text by characters", "good text and \xff then more of it", "characters",
           {"byte 0xff at offset 14", "not valid UTF-8", "bytes vocabulary"}),
      text("a character cut off at the end", "thirty characters of good text \xe2\x82", "characters",
           {"byte 0xe2 at offset 31", "convert the text"}),
      text("a surrogate in UTF-8", "\xed\xa0\x80 and thirty characters more", "characters",
           {"byte 0xed at offset 0"}),
      {"a text to encode with a character that the model has never seen",
       HWS_DATA_INVALID,
       {"U+20AC", "at offset 2", "not in the vocabulary of 3"},
       [](Site& site) {
         site.write("a.txt", "abcabcabcabcabcabcabcabcabcabc");
         return create(text_config(site, "characters"), 0, [](hws_engine* engine) {
           hws_buffer* tokens = nullptr;
           return hws_text_encode(engine, "ab\xe2\x82\xac", 5, &tokens);
         });
       }},
      {"a text with 70 characters for a model of 61 tokens",
       HWS_CONFIG_INVALID,
       {"/model/vocab_size", "70", "61"},
       [](Site& site) {
         std::string text;
         for (char c = '0'; text.size() < 70; ++c) text += c;
         site.write("a.txt", text);
         Json config = text_config(site, "characters");
         config["model"]["vocab_size"] = 61;
         return create(config);
       }},
  };
}

/// Returns files that would train a useless model.
std::vector<Case> no_texts() {
  return {
      text("JSON Lines as text", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n", "bytes",
           {".../a.txt: is JSON Lines", "write the text of its records", "data.as_is"}),
      text("a JSON array as text", "[{\"text\": \"one\"}]\n", "bytes",
           {".../a.txt: is a JSON array", "data.as_is"}),
      text("a gzip file as text", "\x1f\x8b\x08 and more", "characters", {"a gzip file", "decompress it"}),
      text("a Parquet file as text", "PAR1 and more", "bytes", {"a Parquet file", "data.as_is"}),
      text("a safetensors file as text", std::string("\x02\0\0\0\0\0\0\0{\"\"}", 12), "bytes",
           {"a safetensors file", "init.from"}),
      text("bytes that are not text", std::string(90, '\0') + "text", "bytes",
           {"binary", "UTF-8", "data.format"}),
      {"a vocabulary of the model's own, without a model",
       HWS_CONFIG_INVALID,
       {"/data/vocabulary", "no model with a tokenizer", "\"bpe\""},
       [](Site& site) {
         site.write("a.txt", std::string(500, 'x'));
         Json config = sound_config();
         config["data"] = {{"format", "text"}, {"vocabulary", "tokenizer"}, {"path", site.path("a.txt")}};
         return create(config);
       }},
      {"text as bytes for a Hugging Face model that has a tokenizer",
       HWS_CONFIG_INVALID,
       {"/data/vocabulary", "tokenizer.json", "not on bytes", "data.as_is"},
       [](Site& site) {
         const std::string model = site.hugging_face();
         site.write("model/tokenizer.json", "{}");
         site.write("a.txt", std::string(500, 'x'));
         Json config = {
             {"init", {{"from", model}}},
             {"data", {{"format", "text"}, {"vocabulary", "bytes"}, {"path", site.path("a.txt")}}}};
         return create(config);
       }},
      {"text for a Hugging Face model whose tokenizer has another form",
       HWS_CONFIG_INVALID,
       {"/data/format", "tokenizer.model", "format \"tokens\"", "data.as_is"},
       [](Site& site) {
         const std::string model = site.hugging_face();
         site.write("model/tokenizer.model", "{}");
         site.write("a.txt", std::string(500, 'x'));
         Json config = {
             {"init", {{"from", model}}},
             {"data", {{"format", "text"}, {"vocabulary", "bytes"}, {"path", site.path("a.txt")}}}};
         return create(config);
       }},
      {"`as_is` of token ids",
       HWS_CONFIG_INVALID,
       {"/data/as_is", "no effect", "\"text\""},
       [](Site& site) {
         return create(tokens_config(site, {{"as_is", true}}));
       }},
  };
}

}  // namespace data_cases

Area data_area() {
  using namespace data_cases;
  Area area = {"Data files",
               "Files named by `data` when an engine is created; ids in files of more than 64 Mi tokens are "
               "checked row by row. The details have `file` and, where there is one, `offset` in bytes.",
               files()};
  for (const auto& more : {token_files(), texts(), no_texts()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
