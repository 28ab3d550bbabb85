package org.hawser;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.charset.StandardCharsets;

/** Converts text to and from the library's UTF-8. */
final class Text {
  private Text() {}

  /**
   * Returns the UTF-8 of a text, or null for null. Refuses a character 0, because it would end the text
   * early in C.
   */
  static byte[] utf8(String text) {
    if (text == null) return null;
    int zero = text.indexOf('\0');
    if (zero >= 0) {
      throw new IllegalArgumentException("the text has a character 0 at index " + zero + ": leave it out");
    }
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Returns the tokens in an array that the library wrote. */
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
