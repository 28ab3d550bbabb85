package org.hawser;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/**
 * A view of a tensor in the engine's memory, without a copy. Its contents change during training, and must
 * not be read during a step. The memory stays valid, even after the engine is closed, until the view and its
 * buffers are collected, so a view need not be closed.
 */
public final class TensorView {
  private final ByteBuffer data;
  private final long[] shape;
  private final boolean bf16;

  /** Takes ownership of the view. */
  TensorView(long handle, String name) {
    ByteBuffer memory = null;
    try {
      memory = (ByteBuffer) NativeJNI.view_data(handle);
      shape = NativeJNI.view_shape(handle);
      bf16 = NativeJNI.view_is_bf16(handle);
    } finally {
      if (memory == null) NativeJNI.view_destroy(handle);
    }
    if (memory == null) {
      throw new HawserException.Unimplemented(
          "tensor '" + name + "' has more than 2 GiB, which no Java buffer holds: copy it with read()", "{}");
    }
    whenUnreachable(memory, handle);
    data = memory.asReadOnlyBuffer();
  }

  private static void whenUnreachable(ByteBuffer memory, long handle) {
    NativeObject.whenUnreachable(memory, () -> NativeJNI.view_destroy(handle));
  }

  /** Returns the shape: rows, columns and so on. */
  public long[] shape() {
    return shape.clone();
  }

  /**
   * Returns true if the elements are bf16 (two bytes, the upper 16 bits of a float), false if they are
   * floats.
   */
  public boolean isBf16() {
    return bf16;
  }

  /** Returns the bytes, read-only, in the machine's order. */
  public ByteBuffer bytes() {
    return data.duplicate().order(ByteOrder.nativeOrder());
  }

  /**
   * Returns the elements, read-only.
   *
   * @throws IllegalStateException for bf16
   */
  public FloatBuffer floats() {
    if (bf16) throw new IllegalStateException("the tensor is bf16: copy it with Tensors.read, which gives floats, or use bytes()");
    return bytes().asFloatBuffer();
  }
}
