package org.hawser;

/** The exact schedule and memory of a config, computed without allocating a tensor. Any thread may use it. */
public final class Plan extends NativeObject implements AutoCloseable {
  Plan(long handle) {
    super(handle, "the plan", Native::hws_plan_destroy, false);
  }

  /**
   * Returns instructions, "memory" by category, "total_bytes", "parameters", "flops_per_token", "fits" and
   * more, as JSON.
   */
  public String toJson() {
    return Text.of(Native.hws_plan_report(this, 0));
  }

  /** Returns the list of instructions and the memory by category, as text for people. */
  public String toText() {
    return Text.of(Native.hws_plan_report(this, 3));
  }

  /**
   * Returns the predicted step of a plan for a cluster, in the forms of {@link Engine#trace}.
   *
   * @throws HawserException.FailedPrecondition if the plan predicts no step
   */
  public String trace(Format format) {
    return Text.of(Native.hws_plan_trace(this, format.number));
  }

  /** Frees the plan's memory now. */
  @Override
  public void close() {
    end();
  }
}
