package org.hawser;

import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/**
 * The likeliest next tokens of each position of a batch, with their log-probabilities: the rows of a teacher. The
 * buffers are direct and have rows x columns x top elements, row-major. The tokens of a position begin with the
 * likeliest; of equally likely tokens, the lower id is first.
 *
 * @param top the number of tokens of each position
 * @param ids token ids
 * @param logprobs log-probabilities in nats, at most 0
 */
public record TopLogprobs(int top, IntBuffer ids, FloatBuffer logprobs) {
  /** Checks that there are ids and log-probabilities. */
  public TopLogprobs {
    if (top < 1) throw new IllegalArgumentException("top is " + top + ", but must be at least 1");
    if (ids == null || logprobs == null) throw new IllegalArgumentException("ids and logprobs must not be null");
  }
}
