package org.hawser;

/** A source of training batches that replaces the config's data. See {@link Engine#source}. */
@FunctionalInterface
public interface DataSource {
  /**
   * Fills the batch of one step. Called once before each step, on the thread that trains. The batch gives its
   * position ({@link SourceBatch#samples}), which repeats an earlier one after a load, a rewind or a failed
   * step. If this method throws, the training call throws the same exception, and the step changes nothing.
   *
   * @return false at the end of the data; the run then ends as if its listener had returned false
   */
  boolean fill(SourceBatch batch);
}
