package org.hawser;

import java.util.Iterator;
import java.util.NoSuchElementException;

/** An iterator that takes a step for each element. */
final class StepIterator implements Iterator<StepResult> {
  private final Engine engine;
  private final long untilStep;
  private long step;
  private StepResult next;
  private boolean ended;

  StepIterator(Engine engine, long untilStep) {
    Progress now = engine.progress();
    this.engine = engine;
    this.untilStep = untilStep > 0 ? untilStep : now.totalSteps();
    this.step = now.step();
  }

  /** Takes the next step, because only that shows whether the source has data for it. */
  @Override
  public boolean hasNext() {
    if (next != null) return true;
    if (ended || step >= untilStep) return false;
    if (Thread.currentThread().isInterrupted()) {
      throw new HawserException.Cancelled("the thread was interrupted; the engine can train on");
    }
    try {
      next = engine.trainStep();
      step = next.step();
      return true;
    } catch (HawserException.OutOfRange end) {
      ended = true;
      return false;
    }
  }

  @Override
  public StepResult next() {
    if (!hasNext()) throw new NoSuchElementException("the run has ended at step " + step);
    StepResult taken = next;
    next = null;
    return taken;
  }
}
