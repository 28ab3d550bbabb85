package org.hawser;

/** Hears of each step of a run, on the thread that trains. */
@FunctionalInterface
public interface TrainListener {
  /**
   * Called after each step. It may evaluate, generate, save, and push the batch of the next step. What it throws ends the
   * run after this step and leaves {@link Engine#train} as itself.
   *
   * @return false to end the run after this step
   */
  boolean onStep(TrainRecord record);
}
