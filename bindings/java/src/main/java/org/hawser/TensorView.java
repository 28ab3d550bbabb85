package org.hawser;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/**
 * A tensor where it lies, without a copy. Its contents change as training goes on, and must not be read beside a step. The
 * memory stays, also after the engine is closed, until the view and its buffers are garbage; so there is nothing to close.
 */
public final class TensorView {
  private final ByteBuffer data;
  private final long[] shape;
  private final boolean bf16;

  /** Takes the view over. */
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

  /** Rows, columns and so on. */
  public long[] shape() {
    return shape.clone();
  }

  /** Whether the elements are bf16, two bytes each, the upper half of a float; else they are floats. */
  public boolean isBf16() {
    return bf16;
  }

  /** The bytes, read-only, in the machine's order. */
  public ByteBuffer bytes() {
    return data.duplicate().order(ByteOrder.nativeOrder());
  }

  /**
   * The elements, read-only.
   *
   * @throws IllegalStateException for bf16
   */
  public FloatBuffer floats() {
    if (bf16) throw new IllegalStateException("the tensor is bf16: copy it with Tensors.read, which gives floats, or use bytes()");
    return bytes().asFloatBuffer();
  }
}
