package org.hawser;

/** Where training batches come from, instead of the config's data. See {@link Engine#source}. */
@FunctionalInterface
public interface DataSource {
  /**
   * Fills the batch of one step. Called once before each step, on the thread that trains. It is asked by position
   * ({@link SourceBatch#samples}): after a load, a rewind or a step that failed, an earlier position comes again. What it
   * throws leaves the training call as itself; the step has then changed nothing.
   *
   * @return false at the end of the data; the run then ends as if its listener had ended it
   */
  boolean fill(SourceBatch batch);
}
