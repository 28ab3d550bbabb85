package org.hawser;

import java.nio.FloatBuffer;

/**
 * The tensors of an engine, by Hawser's names, or in Hugging Face's layout by their Hugging Face names. See
 * {@link Engine#tensors}. With several processes, {@link #read}, {@link #write} and {@link #statistics} are
 * collective.
 */
public final class Tensors {
  private final Engine engine;

  Tensors(Engine engine) {
    this.engine = engine;
  }

  /** Returns all parameters with name, shape, count and Hugging Face name, as a JSON array. */
  public String list() {
    return Text.of(Native.hws_tensor_list(engine));
  }

  /**
   * Copies a tensor as floats to {@code to}, a direct buffer that has exactly the tensor's elements from
   * position to limit.
   *
   * @throws HawserException.NotFound if the tensor does not exist
   * @throws HawserException.FailedPrecondition for a kind that does not exist now, such as a gradient without
   * a pending step
   * @throws HawserException.InvalidArgument for the wrong size; the message states the right size
   */
  public void read(Tensor kind, String name, FloatBuffer to) {
    Native.hws_tensor_get(engine, kind.ordinal(), name, to);
  }

  /** Sets a moment, or a weight with its master copy, from floats. Throws the exceptions of {@link #read}. */
  public void write(Tensor kind, String name, FloatBuffer from) {
    Native.hws_tensor_set(engine, kind.ordinal(), name, from);
  }

  /**
   * Returns a view of a tensor without a copy. The name must be Hawser's.
   *
   * @throws HawserException.Unimplemented for tensors that are sharded or in the memory of a GPU
   */
  public TensorView view(Tensor kind, String name) {
    return new TensorView(Native.hws_tensor_view(engine, kind.ordinal(), name), name);
  }

  /**
   * Returns norm, largest magnitude and number of non-finite elements of each gradient of the pending step,
   * as a JSON array.
   */
  public String statistics() {
    return Text.of(Native.hws_tensor_statistics(engine));
  }
}
