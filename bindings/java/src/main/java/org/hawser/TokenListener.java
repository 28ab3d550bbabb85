package org.hawser;

/** Receives each token that {@link Engine#generate} makes, on the calling thread. */
@FunctionalInterface
public interface TokenListener {
  /** Called for each new token. If it throws, the text ends and generate throws the same exception.
   *
   * @return false to end the text
   */
  boolean onToken(int token);
}
