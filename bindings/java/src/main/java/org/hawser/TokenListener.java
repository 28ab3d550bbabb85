package org.hawser;

/** Hears of each token that {@link Engine#generate} makes, on the calling thread. */
@FunctionalInterface
public interface TokenListener {
  /** Called for each new token. What it throws ends the text and leaves generate as itself.
   *
   * @return false to end the text
   */
  boolean onToken(int token);
}
