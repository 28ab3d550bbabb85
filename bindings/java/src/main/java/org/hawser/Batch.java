package org.hawser;

import java.nio.Buffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/**
 * Tokens and targets, row-major [rows, columns]. The buffers are direct (see {@link Buffers}) and are read in
 * place. A call copies the elements that it needs, so the buffers may be refilled afterwards.
 *
 * @param rows the number of rows
 * @param columns the number of columns
 * @param tokens token ids, rows x columns from position to limit
 * @param targets the token that each position predicts (the program shifts the tokens), or -100 for none;
 * null if the call
 *     needs no targets
 * @param documentBegin the column where the document of each position starts; null: each row is one document
 * @param weights the weight of each target's loss, finite and at least 0; null: all 1. The divisor of the
 * loss remains the
 *     number of unmasked targets
 * @param references one number per row, for an objective with a reference model ({@code /objective}): the sum
 * of the
 *     reference model's {@link Engine#logprobs} over the row's targets; null for other objectives. Only
 *     {@link Engine#push} reads it
 * @param teacher the rows of a teacher ({@code /teacher/top}), as {@link Engine#topLogprobs} of the teacher
 *     gives them; null without a teacher. Only {@link Engine#push} reads it
 */
public record Batch(
    int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer documentBegin, FloatBuffer weights,
    FloatBuffer references, TopLogprobs teacher) {
  /** Checks the sizes of the buffers. */
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
    if (teacher != null) {
      check("teacher.ids", teacher.ids(), rows * teacher.top(), columns);
      check("teacher.logprobs", teacher.logprobs(), rows * teacher.top(), columns);
    }
  }

  /** Makes a batch whose rows are one document each. */
  public Batch(int rows, int columns, IntBuffer tokens, IntBuffer targets) {
    this(rows, columns, tokens, targets, null, null, null, null);
  }

  /** Makes a batch whose targets have equal weights. */
  public Batch(int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer documentBegin) {
    this(rows, columns, tokens, targets, documentBegin, null, null, null);
  }

  /** Makes a batch whose targets have weights. */
  public Batch(
      int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer documentBegin, FloatBuffer weights) {
    this(rows, columns, tokens, targets, documentBegin, weights, null, null);
  }

  /** Makes a batch for an objective with a reference model. */
  public Batch(
      int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer documentBegin, FloatBuffer weights,
      FloatBuffer references) {
    this(rows, columns, tokens, targets, documentBegin, weights, references, null);
  }

  /** Returns this batch with references, for an objective with a reference model. */
  public Batch withReferences(FloatBuffer ofRows) {
    return new Batch(rows, columns, tokens, targets, documentBegin, weights, ofRows, teacher);
  }

  /** Returns this batch with the rows of a teacher. */
  public Batch withTeacher(TopLogprobs rowsOfTeacher) {
    return new Batch(rows, columns, tokens, targets, documentBegin, weights, references, rowsOfTeacher);
  }

  private static void check(String name, Buffer buffer, int rows, int columns) {
    if (buffer == null || buffer.remaining() == (long) rows * columns) return;
    throw new IllegalArgumentException(
        name + " has " + buffer.remaining() + " elements from position to limit, and " + rows + " x " + columns
            + " are needed: set position and limit (flip() after filling), or change rows and columns");
  }
}
