package org.hawser;

import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/**
 * The global batch of one step, for a {@link DataSource} to fill. The buffers are [rows, columns]. On entry
 * all tokens are 0 and all targets -100, so rows that are not filled do not count. The buffers are reused for
 * the next batch.
 */
public final class SourceBatch {
  private final long step;
  private final long samples;
  private final int rows;
  private final int columns;
  private final IntBuffer tokens;
  private final IntBuffer targets;
  private final IntBuffer documentBegin;
  private final FloatBuffer weights;
  private boolean hasDocuments;
  private boolean hasWeights;

  SourceBatch(long step, long samples, int rows, int columns, IntBuffer tokens, IntBuffer targets, IntBuffer begin,
      FloatBuffer weights) {
    this.step = step;
    this.samples = samples;
    this.rows = rows;
    this.columns = columns;
    this.tokens = tokens;
    this.targets = targets;
    this.documentBegin = begin;
    this.weights = weights;
  }

  /** Returns the number of the step that this batch is for, from 1. */
  public long step() {
    return step;
  }

  /** Returns the rows consumed before this batch, which is the position in the data. */
  public long samples() {
    return samples;
  }

  /** Returns the number of rows. */
  public int rows() {
    return rows;
  }

  /** Returns the number of columns. */
  public int columns() {
    return columns;
  }

  /** Returns the buffer for tokens. */
  public IntBuffer tokens() {
    return tokens;
  }

  /** Returns the buffer for targets: the token that each position predicts, or -100 for none. */
  public IntBuffer targets() {
    return targets;
  }

  /**
   * Returns the buffer for documents: the column where the document of each position starts. Positions count
   * from that column, and attention does not reach before it. Calling this method declares that the batch has
   * documents.
   */
  public IntBuffer documentBegin() {
    hasDocuments = true;
    return documentBegin;
  }

  /**
   * Returns the buffer for the weight of each target's loss, all 1 on entry. Calling this method declares
   * that the batch has weights.
   */
  public FloatBuffer weights() {
    hasWeights = true;
    return weights;
  }

  boolean hasDocuments() {
    return hasDocuments;
  }

  boolean hasWeights() {
    return hasWeights;
  }
}
