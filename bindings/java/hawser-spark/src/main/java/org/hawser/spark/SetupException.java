package org.hawser.spark;

/** What a setup or a listener threw. */
final class SetupException extends RuntimeException {
  private static final long serialVersionUID = 1;

  SetupException(RuntimeException cause) {
    super(cause);
  }
}
