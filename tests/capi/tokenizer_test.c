/* Tokenizers through the C API: ids and texts are those of Hugging Face's tokenizers, a stream of tokens
 * shows whole characters, a chat is the template's, a learned vocabulary is the same each time.
 *   tokenizer_test GOLDEN_FOLDER   (exit 77: there is no text module) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tiny.h"

static char g_path[1024];
static const char* kTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char* kSpecials = "[\"<|endoftext|>\", \"<|im_start|>\", \"<|im_end|>\"]";

static char* contents(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  char* text = calloc(1, 1 << 20);
  if (text == NULL) exit(3);
  const size_t size = fread(text, 1, (1 << 20) - 1, file);
  fclose(file);
  text[size] = '\0';
  return text;
}

static void write_file(const char* path, const char* text) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) exit(3);
  fputs(text, file);
  fclose(file);
}

static hws_tokenizer* golden(const char* folder, const char* family) {
  hws_tokenizer* tokenizer = NULL;
  snprintf(g_path, sizeof g_path, "%s/%s/tokenizer.json", folder, family);
  CHECK_OK(hws_tokenizer_open(g_path, &tokenizer));
  return tokenizer;
}

/* One of the texts of tests/golden/tokenizers; added tokens begin and end with spaces there. */
static void ids_are_the_reference(const char* folder) {
  static const struct {
    const char* family;
    int32_t ids[16];
    size_t count;
    int special; /* begins with one */
  } kCases[] = {
      {"gpt2", {28, 87, 402, 30, 83, 221, 28, 87, 402, 30, 261, 28, 87, 402, 30}, 15, 0},
      {"llama3", {27, 86, 405, 29, 82, 220, 605, 260, 27, 86, 405, 29}, 12, 1},
      {"qwen2", {27, 86, 405, 29, 82, 220, 603, 260, 27, 86, 405, 29}, 12, 0},
      {"llama2", {348, 282, 340, 509, 284, 336, 348, 282, 340, 509, 284, 353, 282, 340, 509, 284}, 16, 1},
      {"mistral", {348, 282, 340, 509, 284, 336, 348, 702, 353, 282, 340, 509, 284}, 13, 1},
      {"gemma", {282, 340, 509, 284, 336, 348, 282, 340, 509, 284, 353, 282, 340, 509, 284}, 15, 1},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    hws_tokenizer* tokenizer = golden(folder, kCases[i].family);
    hws_buffer *plain = NULL, *special = NULL, *text = NULL;
    const char* words = "<word>s <word> s<word>";
    CHECK_OK(hws_tokenizer_encode(tokenizer, words, strlen(words), 0, &plain));
    CHECK(hws_buffer_size(plain) == kCases[i].count * sizeof(int32_t));
    CHECK(memcmp(hws_buffer_data(plain), kCases[i].ids, hws_buffer_size(plain)) == 0);
    CHECK_OK(hws_tokenizer_encode(tokenizer, words, strlen(words), HWS_TEXT_ADD_SPECIAL, &special));
    CHECK((hws_buffer_size(special) > hws_buffer_size(plain)) == kCases[i].special);
    CHECK_OK(hws_tokenizer_decode(tokenizer, hws_buffer_data(special), hws_buffer_size(special) / 4,
                                  HWS_TEXT_SKIP_SPECIAL, &text));
    CHECK(strcmp(check_text(text), words) == 0);
    hws_buffer_destroy(plain);
    hws_buffer_destroy(special);
    hws_tokenizer_destroy(tokenizer);
  }
}

/* Tokens that are decoded as they arrive give the text, in complete characters. */
static void streams_show_whole_characters(const char* folder) {
  hws_tokenizer* tokenizer = golden(folder, "llama3");
  const char* words = "na\xc3\xafve \xf0\x9f\x98\x80 \xe6\xbc\xa2\xe5\xad\x97!";
  hws_buffer* ids = NULL;
  CHECK_OK(hws_tokenizer_encode(tokenizer, words, strlen(words), 0, &ids));
  const size_t count = hws_buffer_size(ids) / sizeof(int32_t);
  size_t shown = 0, held_back = 0;
  for (size_t n = 1; n <= count; ++n) {
    hws_buffer *whole = NULL, *all = NULL;
    CHECK_OK(hws_tokenizer_decode(tokenizer, hws_buffer_data(ids), n, HWS_TEXT_WHOLE, &whole));
    CHECK_OK(hws_tokenizer_decode(tokenizer, hws_buffer_data(ids), n, 0, &all));
    const size_t size = hws_buffer_size(whole);
    held_back += size < hws_buffer_size(all);
    CHECK(size >= shown);
    CHECK(memcmp(check_text(whole), words, size) == 0); /* never a mark for an unknown byte */
    hws_buffer_destroy(all);
    shown = size;
  }
  CHECK(shown == strlen(words));
  CHECK(held_back > 3);
  hws_buffer_destroy(ids);
  hws_tokenizer_destroy(tokenizer);
}

static void a_learned_vocabulary_is_the_same_each_time(void) {
  char files[2048], first[1024], second[1024];
  hws_buffer *ids = NULL, *text = NULL;
  hws_tokenizer* tokenizer = NULL;
  const char* data = check_path("learn.txt");
  write_file(data, "the cat and the hat and the bat sat on the mat\nthe caf\xc3\xa9 and the cat\n");
  snprintf(files, sizeof files, "[\"%s\"]", data);
  snprintf(first, sizeof first, "%s", check_path("first.json"));
  snprintf(second, sizeof second, "%s", check_path("second.json"));
  CHECK_OK(hws_tokenizer_train(files, 280, kSpecials, first));
  CHECK_OK(hws_tokenizer_train(files, 280, kSpecials, second));
  char *a = contents(first), *b = contents(second);
  CHECK(a != NULL && b != NULL && strcmp(a, b) == 0 && strlen(a) > 1000);
  free(a);
  free(b);
  CHECK_ERROR(hws_tokenizer_train(files, 280, kSpecials, first), HWS_ALREADY_EXISTS, "first.json");
  CHECK_ERROR(hws_tokenizer_train(files, 258, kSpecials, check_path("small.json")), HWS_DATA_INVALID,
              "give 259");
  CHECK_ERROR(hws_tokenizer_train("[\"/no/such/file\"]", 280, NULL, check_path("none.json")), HWS_NOT_FOUND,
              "/no/such/file");
  write_file(data,
             "good\nba\xff"
             "d\n");
  CHECK_ERROR(hws_tokenizer_train(files, 280, NULL, check_path("bad.json")), HWS_DATA_INVALID,
              "byte 0xff at offset 7");
  CHECK(contents(check_path("bad.json")) == NULL);

  CHECK_OK(hws_tokenizer_open(first, &tokenizer));
  const char* words = "the hat and <|im_end|> \xe6\xbc\xa2";
  CHECK_OK(hws_tokenizer_encode(tokenizer, words, strlen(words), 0, &ids));
  CHECK(hws_buffer_size(ids) / sizeof(int32_t) < strlen(words) / 2);
  CHECK_OK(hws_tokenizer_decode(tokenizer, hws_buffer_data(ids), hws_buffer_size(ids) / 4, 0, &text));
  CHECK(strcmp(check_text(text), words) == 0);
  hws_buffer_destroy(ids);
  hws_tokenizer_destroy(tokenizer);
}

/* Tests a folder with a chat template: chats, names, the tokens that end an answer, and errors. */
static void a_folder_says_how_to_chat(void) {
  char files[2048], folder[1024], path[2048];
  hws_tokenizer* tokenizer = NULL;
  hws_buffer* out = NULL;
  const char* data = check_path("chat.txt");
  write_file(data, "some words and more words\n");
  snprintf(files, sizeof files, "[\"%s\"]", data);
  snprintf(folder, sizeof folder, "%s", check_path("alive"));
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_OK(hws_engine_export(engine, folder, NULL));
  hws_engine_destroy(engine);
  hws_config_destroy(config);
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  remove(path);
  CHECK_ERROR(hws_tokenizer_open(folder, &tokenizer), HWS_NOT_FOUND, "has no tokenizer.json");
  CHECK_OK(hws_tokenizer_train(files, 270, kSpecials, path));
  CHECK_OK(hws_tokenizer_open(folder, &tokenizer));
  CHECK_ERROR(hws_tokenizer_render(tokenizer, "{}", &out), HWS_FAILED_PRECONDITION, "chat_template.jinja");
  hws_tokenizer_destroy(tokenizer);

  snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
  write_file(path, kTemplate);
  CHECK_OK(hws_tokenizer_open(folder, &tokenizer));
  const char* chat =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}";
  CHECK_OK(hws_tokenizer_render(tokenizer, chat, &out));
  CHECK(strcmp(check_text(out), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n") == 0);
  CHECK_OK(hws_tokenizer_info(tokenizer, &out));
  const char* info = check_text(out);
  CHECK(strstr(info, "\"vocab_size\":270") != NULL);
  CHECK(strstr(info, "\"end_tokens\":[2]") != NULL); /* <|im_end|> */
  CHECK(strstr(info, "\"chat_template\":true") != NULL);
  CHECK_ERROR(hws_tokenizer_render(tokenizer, "[1]", &out), HWS_DATA_INVALID, "the chat");
  CHECK_ERROR(hws_tokenizer_render(tokenizer, "{}", &out), HWS_DATA_INVALID, "\"messages\"");
  CHECK_ERROR(
      hws_tokenizer_render(tokenizer, "{\"messages\": [{\"role\": \"boss\", \"content\": \"\"}]}", &out),
      HWS_DATA_INVALID, "messages/0/role is \"boss\"");
  const int32_t negative = -1, beyond = 5000;
  CHECK_ERROR(hws_tokenizer_decode(tokenizer, &negative, 1, 0, &out), HWS_INVALID_ARGUMENT, "index 0");
  CHECK_OK(hws_tokenizer_decode(tokenizer, &beyond, 1, 0, &out));
  CHECK(hws_buffer_size(out) == 0);
  hws_buffer_destroy(out);
  CHECK_ERROR(hws_tokenizer_encode(tokenizer, "ab\xff", 3, 0, &out), HWS_DATA_INVALID, "byte 2");
  hws_tokenizer_destroy(tokenizer);

  write_file(path, "{% for %}");
  CHECK_ERROR(hws_tokenizer_open(folder, &tokenizer), HWS_DATA_INVALID, "chat_template.jinja");
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  write_file(path, "{\"model\": {\"type\": \"Magic\"}}");
  CHECK_ERROR(hws_tokenizer_open(folder, &tokenizer), HWS_DATA_INVALID, path);
  CHECK_ERROR(hws_tokenizer_open(check_path("nothing"), &tokenizer), HWS_NOT_FOUND, "nothing");
}

/* A model of bytes has the tokenizer of its export. */
static void bytes_are_a_tokenizer_too(void) {
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  hws_tokenizer* tokenizer = NULL;
  hws_buffer* ids = NULL;
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_OK(hws_engine_tokenizer(engine, &tokenizer));
  hws_engine_destroy(engine);
  CHECK_OK(hws_tokenizer_encode(tokenizer, "a\xc3\xa9z", 4, 0, &ids));
  const int32_t expected[] = {'a', 0xc3, 0xa9, 'z'};
  CHECK(hws_buffer_size(ids) == sizeof expected &&
        memcmp(hws_buffer_data(ids), expected, sizeof expected) == 0);
  hws_buffer_destroy(ids);
  hws_tokenizer_destroy(tokenizer);
  hws_config_destroy(config);
  engine = tiny_engine(0); /* of token ids */
  CHECK_ERROR(hws_engine_tokenizer(engine, &tokenizer), HWS_FAILED_PRECONDITION, "no tokenizer");
  hws_engine_destroy(engine);
}

/* A run on the tokens of one tokenizer does not continue with those of another. */
static void a_checkpoint_knows_its_tokenizer(void) {
  hws_config* config = text_config();
  hws_engine* engine = NULL;
  char folder[1024], saved[1024], path[2048];
  snprintf(folder, sizeof folder, "%s", check_path("model"));
  snprintf(saved, sizeof saved, "%s", check_path("saved"));
  CHECK_OK(hws_config_set(config, "/data/vocabulary", "bpe"));
  CHECK_OK(hws_config_set(config, "/data/vocab_size", "280"));
  CHECK_OK(hws_config_set(config, "/model/vocab_size", "280"));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_OK(hws_engine_train_step(engine, NULL));
  CHECK_OK(hws_engine_export(engine, folder, NULL));
  CHECK_OK(hws_checkpoint_save(engine, saved));
  hws_engine_destroy(engine);

  /* The same tokenizer in a file with other bytes counts as another tokenizer. */
  hws_config_destroy(config);
  config = text_config();
  CHECK_OK(hws_config_set(config, "/model/vocab_size", "280"));
  CHECK_OK(hws_config_set(config, "/init/from", folder));
  CHECK_OK(hws_config_set(config, "/data/vocabulary", "tokenizer"));
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_OK(hws_checkpoint_load(engine, saved, 0));
  hws_engine_destroy(engine);
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  char* tokenizer = contents(path);
  CHECK(tokenizer != NULL);
  if (tokenizer == NULL) return;
  strcat(tokenizer, "\n");
  write_file(path, tokenizer);
  free(tokenizer);
  CHECK_OK(hws_engine_create(config, 0, &engine));
  CHECK_ERROR(hws_checkpoint_load(engine, saved, 0), HWS_CHECKPOINT_INCOMPATIBLE, "/tokenizer: \"xxh3-128:");
  CHECK_ERROR(hws_checkpoint_load(engine, saved, HWS_LOAD_OTHER_DATA), HWS_CHECKPOINT_INCOMPATIBLE,
              "another tokenizer");
  hws_engine_destroy(engine);
  hws_config_destroy(config);
}

int main(int argc, char** argv) {
  if (argc != 2) return 3;
  check_begin();
  snprintf(g_path, sizeof g_path, "%s/gpt2/tokenizer.json", argv[1]);
  hws_tokenizer* tokenizer = NULL;
  const int32_t status = hws_tokenizer_open(g_path, &tokenizer);
  hws_tokenizer_destroy(tokenizer);
  if (status == HWS_UNAVAILABLE) {
    check_note("skipped: no text module");
    return check_end() == 0 ? 77 : 1;
  }
  ids_are_the_reference(argv[1]);
  streams_show_whole_characters(argv[1]);
  a_learned_vocabulary_is_the_same_each_time();
  a_folder_says_how_to_chat();
  bytes_are_a_tokenizer_too();
  a_checkpoint_knows_its_tokenizer();
  return check_end();
}
