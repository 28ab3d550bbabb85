package org.hawser;

/** What became of a step. */
public enum Outcome {
  /** The weights were updated. */
  ACCEPTED,
  /** The loss or the gradient norm was not finite; only the data cursor moved. */
  SKIPPED_NON_FINITE,
  /** The loss or the gradient norm was far off (section guard of the config); only the data cursor moved. */
  SKIPPED_OUTLIER,
  /** Dropped by {@link Engine#discard}. */
  DISCARDED,
  /** After {@link Engine#forwardBackward}: commit or discard comes next. */
  PENDING,
  /** One that this version does not know. */
  UNKNOWN;

  private static final Outcome[] ALL = values();

  static Outcome of(int number) {
    return number >= 0 && number < ALL.length ? ALL[number] : UNKNOWN;
  }
}
