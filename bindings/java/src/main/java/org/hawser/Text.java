package org.hawser;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.charset.StandardCharsets;

/** Text as the library has it, UTF-8. */
final class Text {
  private Text() {}

  /** UTF-8, or null for null. A character 0 would end the text early in C, so it is refused. */
  static byte[] utf8(String text) {
    if (text == null) return null;
    int zero = text.indexOf('\0');
    if (zero >= 0) {
      throw new IllegalArgumentException("the text has a character 0 at index " + zero + ": leave it out");
    }
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** The tokens that the library has written. */
  static int[] tokens(byte[] bytes) {
    IntBuffer tokens = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()).asIntBuffer();
    int[] copy = new int[tokens.remaining()];
    tokens.get(copy);
    return copy;
  }

  static String of(byte[] utf8) {
    return utf8 == null ? null : new String(utf8, StandardCharsets.UTF_8);
  }
}
