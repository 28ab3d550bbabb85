package org.hawser;

/**
 * A request for {@link Engine#generate}: {@code Generation.of(prompt).tokens(100).temperature(0.8).topK(40)}.
 *
 * @param prompt token ids, at least one
 * @param tokens the largest number of new tokens
 * @param temperature the sampling temperature; 0 always takes the most likely token
 * @param topK sample among the k most likely tokens; 0: all
 * @param topP sample among the most likely tokens whose probabilities sum to this; 1: all
 * @param seed the seed of the sampling
 * @param stopTokens each of these tokens ends the text; it is delivered too
 */
public record Generation(
    int[] prompt, long tokens, double temperature, long topK, double topP, long seed, int... stopTokens) {
  /** Copies the prompt and the stop tokens. */
  public Generation {
    prompt = prompt.clone();
    stopTokens = stopTokens.clone();
  }

  /** Makes a request for 32 tokens after a prompt, always the most likely token. */
  public static Generation of(int... prompt) {
    return new Generation(prompt, 32, 0, 0, 1, 0);
  }

  /** Returns a copy of the prompt. */
  @Override
  public int[] prompt() {
    return prompt.clone();
  }

  /** Returns this request with at most {@code tokens} new tokens. */
  public Generation tokens(long tokens) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** Returns this request with another temperature. */
  public Generation temperature(double temperature) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** Returns this request, limited to the k most likely tokens. */
  public Generation topK(long topK) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** Returns this request, limited to the most likely tokens whose probabilities sum to {@code topP}. */
  public Generation topP(double topP) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** Returns this request with another seed. */
  public Generation seed(long seed) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }

  /** Returns a copy of the tokens that end the text. */
  @Override
  public int[] stopTokens() {
    return stopTokens.clone();
  }

  /** Returns this request with other tokens that end the text. */
  public Generation stopTokens(int... stopTokens) {
    return new Generation(prompt, tokens, temperature, topK, topP, seed, stopTokens);
  }
}
