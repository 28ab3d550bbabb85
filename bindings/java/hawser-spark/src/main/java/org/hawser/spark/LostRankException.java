package org.hawser.spark;

/** A rank of an attempt was lost. */
final class LostRankException extends Exception {
  private static final long serialVersionUID = 1;

  LostRankException(String message, Throwable cause) {
    super(message, cause);
  }
}
