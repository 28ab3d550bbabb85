package org.hawser;

import java.nio.IntBuffer;

/**
 * A data source and the buffers that it fills. They are Java's own and are copied from after each call, so that a source
 * which keeps them cannot write into memory that the library has given back.
 */
final class SourceCalls {
  private static final int FILLED = 0;
  private static final int END = 1;
  private static final int FILLED_WITH_DOCUMENTS = 2;

  private final DataSource source;
  private IntBuffer tokens = Buffers.ints(0);
  private IntBuffer targets = Buffers.ints(0);
  private IntBuffer documents = Buffers.ints(0);

  SourceCalls(DataSource source) {
    this.source = source;
  }

  /** Fills the library's arrays and returns one of the answers above. */
  int fill(IntBuffer toTokens, IntBuffer toTargets, IntBuffer toDocuments, long step, long samples, int rows,
      int columns) {
    tokens = copied(toTokens, tokens);
    targets = copied(toTargets, targets);
    documents = copied(toDocuments, documents);
    SourceBatch batch = new SourceBatch(
        step, samples, rows, columns, tokens.duplicate(), targets.duplicate(), documents.duplicate());
    if (!source.fill(batch)) return END;
    toTokens.put(tokens.duplicate());
    toTargets.put(targets.duplicate());
    if (!batch.hasDocuments()) return FILLED;
    toDocuments.put(documents.duplicate());
    return FILLED_WITH_DOCUMENTS;
  }

  /** The library's array as it is on entry, in `buffer` or a larger one. */
  private static IntBuffer copied(IntBuffer from, IntBuffer buffer) {
    IntBuffer to = buffer.capacity() == from.capacity() ? buffer : Buffers.ints(from.capacity());
    to.clear().put(from.duplicate());
    return to.clear();
  }
}
