package org.hawser;

/** The outcome of a step. */
public enum Outcome {
  /** The weights were updated. */
  ACCEPTED,
  /** The loss or the gradient norm was not finite; only the data cursor moved. */
  SKIPPED_NON_FINITE,
  /**
   * The loss or the gradient norm was an outlier (section guard of the config); only the data cursor moved.
   */
  SKIPPED_OUTLIER,
  /** The step was dropped by {@link Engine#discard}. */
  DISCARDED,
  /** The step is pending after {@link Engine#forwardBackward}, until commit or discard. */
  PENDING,
  /**
   * Precision fp16: the loss or the gradient norm was not finite; only the data cursor moved, and the loss scale
   * follows the section loss_scale of the config.
   */
  SKIPPED_OVERFLOW,
  /**
   * The loss or the gradient norm was an outlier (section guard of the config); the engine holds the newest
   * checkpoint of the run again, and its data cursor is behind this step's rows.
   */
  REWOUND,
  /** This version does not define the outcome. */
  UNKNOWN;

  private static final Outcome[] ALL = values();

  static Outcome of(int number) {
    return number >= 0 && number < ALL.length ? ALL[number] : UNKNOWN;
  }
}
