package org.hawser;

/** The format of a report. */
public enum Format {
  /** JSON, for programs. */
  JSON(0),
  /** Plain text, for people. */
  TEXT(3);

  final int number;

  Format(int number) {
    this.number = number;
  }
}
