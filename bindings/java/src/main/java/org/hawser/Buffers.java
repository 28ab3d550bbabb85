package org.hawser;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/**
 * Makes direct buffers, which the library reads and writes in place.
 *
 * <p>A method that takes a buffer uses its elements from position to limit and moves neither. The buffer must be direct and
 * in the byte order of the machine, like the buffers from this class.
 */
public final class Buffers {
  private Buffers() {}

  /** Returns a direct buffer for {@code count} tokens, all 0. */
  public static IntBuffer ints(int count) {
    return bytes(count).asIntBuffer();
  }

  /** Returns a direct copy of {@code values}. */
  public static IntBuffer ints(int... values) {
    return ints(values.length).put(values).rewind();
  }

  /** Returns a direct buffer for {@code count} numbers, all 0. */
  public static FloatBuffer floats(int count) {
    return bytes(count).asFloatBuffer();
  }

  private static ByteBuffer bytes(int count) {
    if (count < 0 || count > Integer.MAX_VALUE / 4) {
      throw new IllegalArgumentException("a buffer holds 0 to " + Integer.MAX_VALUE / 4 + " elements, not " + count);
    }
    return ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
  }

  /** Returns the elements from position to limit, for the library to read; null for null. */
  static IntBuffer readable(IntBuffer buffer) {
    if (buffer == null) return null;
    check("IntBuffer", "Buffers.ints", buffer, buffer.order());
    return buffer.slice();
  }

  static FloatBuffer readable(FloatBuffer buffer) {
    if (buffer == null) return null;
    check("FloatBuffer", "Buffers.floats", buffer, buffer.order());
    return buffer.slice();
  }

  /** Returns the elements from position to limit, for the library to write. */
  static FloatBuffer writable(FloatBuffer buffer) {
    check("FloatBuffer", "Buffers.floats", buffer, buffer.order());
    if (buffer.isReadOnly()) {
      throw new IllegalArgumentException("the FloatBuffer is read-only, and results are written to it: pass a writable one");
    }
    return buffer.slice();
  }

  static IntBuffer writable(IntBuffer buffer) {
    check("IntBuffer", "Buffers.ints", buffer, buffer.order());
    if (buffer.isReadOnly()) {
      throw new IllegalArgumentException("the IntBuffer is read-only, and results are written to it: pass a writable one");
    }
    return buffer.slice();
  }

  private static void check(String type, String maker, Buffer buffer, ByteOrder order) {
    if (!buffer.isDirect()) {
      throw new IllegalArgumentException(
          "the " + type + " lies on the heap, where the collector moves it: make it with " + maker
              + ", or with ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())");
    }
    if (order != ByteOrder.nativeOrder()) {
      throw new IllegalArgumentException(
          "the " + type + " has byte order " + order + ", this machine " + ByteOrder.nativeOrder()
              + ": call order(ByteOrder.nativeOrder()) on its ByteBuffer before asking for the " + type);
    }
  }
}
