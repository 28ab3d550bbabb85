package org.hawser;

/** Receives a record of each step of a run, on the thread that trains. */
@FunctionalInterface
public interface TrainListener {
  /**
   * Called after each step. It may evaluate, generate, save, and push the batch of the next step. If it
   * throws, the run ends after this step and {@link Engine#train} throws the same exception.
   *
   * @return false to end the run after this step
   */
  boolean onStep(TrainRecord record);
}
