package org.hawser;

/** The smallest program: trains a step and prints its loss. Tests of how libraries are found run it. */
public final class TrainOnce {
  private TrainOnce() {}

  /** Prints "loss NUMBER", or the error. */
  public static void main(String[] arguments) {
    try (Engine engine = Tiny.engine()) {
      engine.source(Tiny.source(1));
      System.out.println("loss " + engine.trainStep().loss());
    } catch (UnsatisfiedLinkError e) {
      System.out.println("refused: " + e.getMessage());
    }
  }
}
