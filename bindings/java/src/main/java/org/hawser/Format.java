package org.hawser;

/** Whom a report is for. */
public enum Format {
  /** Programs. */
  JSON(0),
  /** People. */
  TEXT(3);

  final int number;

  Format(int number) {
    this.number = number;
  }
}
