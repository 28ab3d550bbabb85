package org.hawser;

import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/**
 * The global batch of one step, for a {@link DataSource} to fill. The buffers are [rows, columns]; on entry all tokens are 0
 * and all targets -100, so rows that are left alone do not count. They are used again for the next batch.
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

  /** The step that this batch is for, from 1. */
  public long step() {
    return step;
  }

  /** Rows consumed before this batch: the position in the data. */
  public long samples() {
    return samples;
  }

  /** Rows of the batch. */
  public int rows() {
    return rows;
  }

  /** Columns of the batch. */
  public int columns() {
    return columns;
  }

  /** Tokens, to be filled. */
  public IntBuffer tokens() {
    return tokens;
  }

  /** Targets, to be filled: the token that each position predicts, or -100 for none. */
  public IntBuffer targets() {
    return targets;
  }

  /**
   * The column where the document of each position starts, to be filled: positions count from there, and nothing before it
   * is seen. Asking for it says that the batch has documents.
   */
  public IntBuffer documentBegin() {
    hasDocuments = true;
    return documentBegin;
  }

  /** The weight of each target's loss, all 1 on entry, to be filled. Asking for it says that the batch has weights. */
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
