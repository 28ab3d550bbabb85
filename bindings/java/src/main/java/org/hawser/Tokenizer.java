package org.hawser;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;

/** The tokenizer and the chat template of a model. All methods may run on any thread. */
public final class Tokenizer extends NativeObject implements AutoCloseable {
  private static final int ADD_SPECIAL = 1;
  private static final int SKIP_SPECIAL = 2;
  private static final int WHOLE = 4;

  Tokenizer(long handle) {
    super(handle, "the tokenizer", Native::hws_tokenizer_destroy, false);
  }

  /**
   * Opens a tokenizer.json, or the tokenizer of a Hugging Face folder or of a checkpoint.
   *
   * @throws HawserException.NotFound if there is no tokenizer.json
   * @throws HawserException.DataInvalid for a file that cannot be read
   * @throws HawserException.Unavailable without the text module
   */
  public static Tokenizer open(Path path) {
    return new Tokenizer(Native.hws_tokenizer_open(path.toString()));
  }

  /**
   * Trains a byte-level BPE on UTF-8 files and writes it as a tokenizer.json. Equal files give an identical
   * tokenizer.json.
   *
   * @throws HawserException.AlreadyExists if {@code path} exists
   */
  public static void train(List<Path> files, long vocabularySize, Path path, String... specialTokens) {
    List<String> names = files.stream().map(Path::toString).toList();
    Native.hws_tokenizer_train(
        Json.write(names), vocabularySize, Json.write(List.of(specialTokens)), path.toString());
  }

  /**
   * Returns vocab_size, end_of_text, end_tokens, special_tokens, chat_template, digest and template_digest,
   * as JSON.
   */
  public String info() {
    return Text.of(Native.hws_tokenizer_info(this));
  }

  /** Returns the tokens of a text that already contains its special tokens, such as a rendered chat. */
  public int[] encode(String text) {
    return encode(text, false);
  }

  /** Returns the tokens of a text. addSpecial: add the special tokens that begin or end a text. */
  public int[] encode(String text, boolean addSpecial) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    return Text.tokens(Native.hws_tokenizer_encode(this, utf8, addSpecial ? ADD_SPECIAL : 0));
  }

  /** Converts tokens to text. */
  public String decode(int... tokens) {
    return decode(tokens, false, false);
  }

  /**
   * Converts tokens to text. skipSpecial: omit special tokens. whole: omit an incomplete character at the
   * end, so that the text only grows when tokens are appended.
   */
  public String decode(int[] tokens, boolean skipSpecial, boolean whole) {
    int flags = (skipSpecial ? SKIP_SPECIAL : 0) | (whole ? WHOLE : 0);
    return Text.of(Native.hws_tokenizer_decode(this, Buffers.ints(tokens), flags));
  }

  /**
   * Renders a chat as text with the model's template. chat: a JSON object with "messages", and optionally
   * "tools", "add_generation_prompt" and other variables.
   *
   * @throws HawserException.FailedPrecondition for a model without a template
   * @throws HawserException.DataInvalid if the template refuses the chat
   */
  public String render(String chat) {
    return Text.of(Native.hws_tokenizer_render(this, chat));
  }

  /** Frees the tokenizer's memory now. */
  @Override
  public void close() {
    end();
  }
}
