package org.hawser.spark;

/** A setup or a listener threw an exception. */
final class SetupException extends RuntimeException {
  private static final long serialVersionUID = 1;

  SetupException(RuntimeException cause) {
    super(cause);
  }
}
