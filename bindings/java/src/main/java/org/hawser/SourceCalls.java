package org.hawser;

import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/**
 * A data source and the buffers that it fills. Java owns the buffers, and their contents are copied after
 * each call, so that a source that keeps a buffer cannot write to memory that the library has freed.
 */
final class SourceCalls {
  private static final int END = -1;
  private static final int DOCUMENTS = 1; // otherwise flags for the optional buffers that were filled
  private static final int WEIGHTS = 2;

  private final DataSource source;
  private IntBuffer tokens = Buffers.ints(0);
  private IntBuffer targets = Buffers.ints(0);
  private IntBuffer documents = Buffers.ints(0);
  private FloatBuffer weights = Buffers.floats(0);

  SourceCalls(DataSource source) {
    this.source = source;
  }

  /** Fills the library's arrays and returns one of the values above. */
  int fill(IntBuffer toTokens, IntBuffer toTargets, IntBuffer toDocuments, FloatBuffer toWeights, long step,
      long samples, int rows, int columns) {
    tokens = copied(toTokens, tokens);
    targets = copied(toTargets, targets);
    documents = copied(toDocuments, documents);
    weights = copied(toWeights, weights);
    SourceBatch batch = new SourceBatch(step, samples, rows, columns, tokens.duplicate(), targets.duplicate(),
        documents.duplicate(), weights.duplicate());
    if (!source.fill(batch)) return END;
    toTokens.put(tokens.duplicate());
    toTargets.put(targets.duplicate());
    if (batch.hasDocuments()) toDocuments.put(documents.duplicate());
    if (batch.hasWeights()) toWeights.put(weights.duplicate());
    return (batch.hasDocuments() ? DOCUMENTS : 0) + (batch.hasWeights() ? WEIGHTS : 0);
  }

  /**
   * Copies the library's array, as it is on entry, to `buffer` or to a larger buffer, and returns that
   * buffer.
   */
  private static IntBuffer copied(IntBuffer from, IntBuffer buffer) {
    IntBuffer to = buffer.capacity() == from.capacity() ? buffer : Buffers.ints(from.capacity());
    to.clear().put(from.duplicate());
    return to.clear();
  }

  private static FloatBuffer copied(FloatBuffer from, FloatBuffer buffer) {
    FloatBuffer to = buffer.capacity() == from.capacity() ? buffer : Buffers.floats(from.capacity());
    to.clear().put(from.duplicate());
    return to.clear();
  }
}
