package org.hawser;

/**
 * What {@link Engine#generate} continues, and how. {@code Generation.of(prompt).tokens(100).temperature(0.8).topK(40)}.
 *
 * @param prompt token ids, at least one
 * @param tokens new tokens, at most
 * @param temperature 0: the likeliest token each time
 * @param topK sample among the k likeliest tokens; 0: all
 * @param topP sample among the likeliest tokens that sum to this probability; 1: all
 * @param seed of the sampling
 * @param stopTokens any of them ends the text, and is delivered
 */
public record Generation(
    int[] prompt, long tokens, double temperature, long topK, double topP, long seed, int... stopTokens) {
  /** Copies the prompt and the stop tokens. */
  public Generation {
    prompt = prompt.clone();
    stopTokens = stopTokens.clone();
  }

  /** 32 tokens after a prompt, the likeliest each time. */
  public static Generation of(int... prompt) {
    return new Generation(prompt, 32, 0, 0, 1, 0);
  }

  /** The prompt, as a copy. */
  @Override
  public int[] prompt() {
    return prompt.clone();
  }

  /** The same with at most {@code tokens} new tokens. */
  public Generation tokens(long tokens) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** The same with another temperature. */
  public Generation temperature(double temperature) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** The same among the k likeliest tokens. */
  public Generation topK(long topK) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** The same among the likeliest tokens that sum to this probability. */
  public Generation topP(double topP) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** The same with another seed. */
  public Generation seed(long seed) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** The tokens that end the text, as a copy. */
  @Override
  public int[] stopTokens() {
    return stopTokens.clone();
  }

  /** The same, ended by any of these tokens. */
  public Generation stopTokens(int... stopTokens) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }
}
