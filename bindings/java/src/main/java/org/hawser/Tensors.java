package org.hawser;

import java.nio.FloatBuffer;

/**
 * The tensors of an engine, by their own names or, in that layout, by their Hugging Face names. See {@link Engine#tensors}.
 * Over several processes, {@link #read}, {@link #write} and {@link #statistics} are collective.
 */
public final class Tensors {
  private final Engine engine;

  Tensors(Engine engine) {
    this.engine = engine;
  }

  /** All parameters with name, shape, count and Hugging Face name, as a JSON array. */
  public String list() {
    return Text.of(Native.hws_tensor_list(engine));
  }

  /**
   * Copies a tensor as floats to {@code to}, which is direct and has exactly its elements from position to limit.
   *
   * @throws HawserException.NotFound if there is no such tensor
   * @throws HawserException.FailedPrecondition for a kind that is not there now
   * @throws HawserException.InvalidArgument for another size; the message says which is needed
   */
  public void read(Tensor kind, String name, FloatBuffer to) {
    Native.hws_tensor_get(engine, kind.ordinal(), name, to);
  }

  /** Sets a weight, with its master copy, or a moment, from floats. Exceptions as for {@link #read}. */
  public void write(Tensor kind, String name, FloatBuffer from) {
    Native.hws_tensor_set(engine, kind.ordinal(), name, from);
  }

  /**
   * A view without a copy, under our name.
   *
   * @throws HawserException.Unimplemented for tensors in shards or in the memory of a GPU
   */
  public TensorView view(Tensor kind, String name) {
    return new TensorView(Native.hws_tensor_view(engine, kind.ordinal(), name), name);
  }

  /** Norm, largest magnitude and number of non-finite elements of each gradient of the pending step, as a JSON array. */
  public String statistics() {
    return Text.of(Native.hws_tensor_statistics(engine));
  }
}
