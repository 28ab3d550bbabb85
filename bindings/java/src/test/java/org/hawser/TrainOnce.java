package org.hawser;

/** Trains a step and prints its loss: the smallest program, for tests of how libraries are found. */
public final class TrainOnce {
  private TrainOnce() {}

  /** Prints "loss NUMBER", or what went wrong. */
  public static void main(String[] arguments) {
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(1));
      System.out.println("loss " + engine.trainStep().loss());
    } catch (UnsatisfiedLinkError e) {
      System.out.println("refused: " + e.getMessage());
    }
  }
}
