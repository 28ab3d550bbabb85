package org.hawser;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;

/** Methods that the native module calls; native/support.c looks them up by name and signature. */
final class Callbacks {
  private Callbacks() {}

  /**
   * Returns the exception for a status. owner: the object of the call, whose transport may have thrown the
   * cause.
   */
  static Throwable error(Object owner, int code, byte[] message, byte[] details) {
    Comm comm = owner instanceof Engine engine ? engine.comm() : owner instanceof Comm own ? own : null;
    Throwable thrown = comm == null ? null : comm.takeFailure();
    return thrown != null ? thrown : HawserException.of(code, Text.of(message), Text.of(details));
  }

  static StepResult step(int outcome, long step, double loss, double gradNorm, double learningRate, long tokens,
      long samples, long skipped, double seconds) {
    return new StepResult(Outcome.of(outcome), step, loss, gradNorm, learningRate, tokens, samples, skipped, seconds);
  }

  static Sizes sizes(long vocabulary, long sequence, long globalBatch, long outputs) {
    return new Sizes(vocabulary, sequence, globalBatch, outputs);
  }

  static Evaluation evaluation(double loss, long tokens) {
    return new Evaluation(loss, tokens);
  }

  static Progress progress(int phase, long step, long untilStep, long totalSteps, long samples, long tokens, long skipped,
      long done, long total, double loss, double gradNorm, double learningRate, double stepSeconds,
      double tokensPerSecond, double validationLoss, double runningSeconds, long saveFailures, int saving) {
    return new Progress(Progress.Phase.of(phase), step, untilStep, totalSteps, samples, tokens, skipped, done, total,
        loss, gradNorm, learningRate, stepSeconds, tokensPerSecond, validationLoss, runningSeconds, saveFailures,
        saving != 0);
  }

  static boolean interrupted() {
    return Thread.currentThread().isInterrupted();
  }

  static boolean onStep(Object run, int outcome, long step, double loss, double gradNorm, double learningRate,
      long tokens, long samples, long skipped, double seconds, double validationLoss, double tokensPerSecond,
      long totalSteps, boolean saved, boolean best, long communicationBytes, long saveFailures) {
    StepResult result = step(outcome, step, loss, gradNorm, learningRate, tokens, samples, skipped, seconds);
    return ((TrainRun) run).onStep(new TrainRecord(
        result, validationLoss, tokensPerSecond, totalSteps, saved, best, communicationBytes, saveFailures));
  }

  static boolean onToken(Object listener, int token) {
    return ((TokenListener) listener).onToken(token);
  }

  @SuppressWarnings("unchecked")
  static void onMetrics(Object listener, byte[] json) {
    ((Consumer<String>) listener).accept(Text.of(json));
  }

  @SuppressWarnings("unchecked")
  static boolean onProgress(Object listener, byte[] json) {
    return ((Predicate<String>) listener).test(Text.of(json));
  }

  static int onSource(Object source, ByteBuffer tokens, ByteBuffer targets, ByteBuffer documents, ByteBuffer weights,
      long step, long samples, long rows, long columns) {
    return ((SourceCalls) source).fill(ordered(tokens).asIntBuffer(), ordered(targets).asIntBuffer(),
        ordered(documents).asIntBuffer(), ordered(weights).asFloatBuffer(), step, samples, (int) rows, (int) columns);
  }

  @SuppressWarnings("unchecked")
  static byte[] secret(Object supplier) {
    return CommAddress.checked(((Supplier<byte[]>) supplier).get());
  }

  static int send(Object transport, int rank, ByteBuffer data, double timeoutSeconds) {
    return ((TransportCalls) transport).run(to -> to.send(rank, ordered(data).asReadOnlyBuffer(), timeoutSeconds));
  }

  static int receive(Object transport, int rank, ByteBuffer data, double timeoutSeconds) {
    return ((TransportCalls) transport).run(from -> from.receive(rank, ordered(data), timeoutSeconds));
  }

  static int exchange(Object transport, int rank, ByteBuffer sent, ByteBuffer received, double timeoutSeconds) {
    return ((TransportCalls) transport).run(
        with -> with.exchange(rank, ordered(sent).asReadOnlyBuffer(), ordered(received), timeoutSeconds));
  }

  static void abort(Object transport, int code, byte[] message) {
    ((TransportCalls) transport).abort(code, Text.of(message));
  }

  static byte[] message(Object transport) {
    return Text.utf8(((TransportCalls) transport).message());
  }

  static void release(Object transport) {
    ((TransportCalls) transport).close();
  }

  private static ByteBuffer ordered(ByteBuffer buffer) {
    return buffer.order(ByteOrder.nativeOrder());
  }
}
