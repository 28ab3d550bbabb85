package org.hawser;

/** The format of a report or a trace. */
public enum Format {
  /** JSON, for programs. */
  JSON(0),
  /** Plain text, for people. */
  TEXT(3),
  /** An SVG image, of a trace. */
  SVG(4);

  final int number;

  Format(int number) {
    this.number = number;
  }
}
