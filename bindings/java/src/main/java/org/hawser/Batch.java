package org.hawser;

import java.nio.Buffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/**
 * Tokens and targets, row-major [rows, columns]. The buffers are direct (see {@link Buffers}) and are read where they are;
 * a call copies what it needs, so they may be filled anew afterwards.
 *
 * @param rows rows
 * @param columns columns
 * @param tokens token ids, rows x columns from position to limit
 * @param targets the token that each position predicts (the host shifts), or -100 for none; null where none are needed
 * @param documentBegin the column where the document of each position starts; null: each row is one document
 * @param weights the weight of each target's loss, finite and at least 0; null: all 1. The divisor of the loss stays the
 *     number of unmasked targets
 * @param references one number a row, for an objective with a reference ({@code /objective}): the sum of
 *     {@link Engine#logprobs} over the row's targets under it; null for all others. Only {@link Engine#push} reads it
 */
public record Batch(
    int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer documentBegin, FloatBuffer weights,
    FloatBuffer references) {
  /** Checks the sizes. */
  public Batch {
    if (rows < 1 || columns < 1) {
      throw new IllegalArgumentException("a batch has at least one row and one column, not " + rows + " x " + columns);
    }
    if (tokens == null) throw new IllegalArgumentException("a batch needs tokens; they are null");
    check("tokens", tokens, rows, columns);
    check("targets", targets, rows, columns);
    check("documentBegin", documentBegin, rows, columns);
    check("weights", weights, rows, columns);
    check("references", references, rows, 1);
  }

  /** A batch whose rows are one document each. */
  public Batch(int rows, int columns, IntBuffer tokens, IntBuffer targets) {
    this(rows, columns, tokens, targets, null, null, null);
  }

  /** A batch whose targets weigh the same. */
  public Batch(int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer documentBegin) {
    this(rows, columns, tokens, targets, documentBegin, null, null);
  }

  /** A batch whose targets have weights. */
  public Batch(
      int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer documentBegin, FloatBuffer weights) {
    this(rows, columns, tokens, targets, documentBegin, weights, null);
  }

  /** The same batch for an objective with a reference. */
  public Batch withReferences(FloatBuffer ofRows) {
    return new Batch(rows, columns, tokens, targets, documentBegin, weights, ofRows);
  }

  private static void check(String name, Buffer buffer, int rows, int columns) {
    if (buffer == null || buffer.remaining() == (long) rows * columns) return;
    throw new IllegalArgumentException(
        name + " has " + buffer.remaining() + " elements from position to limit, and " + rows + " x " + columns
            + " are needed: set position and limit (flip() after filling), or change rows and columns");
  }
}
