package org.hawser;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * A model in training or for inference, with all ranks of this process.
 *
 * <pre>{@code
 * try (var engine = Engine.create(config)) {
 *   engine.train(record -> {
 *     System.out.println(record.step().step() + " " + record.loss());
 *     return true;
 *   });
 * }
 * }</pre>
 *
 * <p>Threads: {@link #cancel}, {@link #close}, {@link #progress}, {@link #metrics}, {@link #flight} and
 * {@link #sizes} work at any time. Any other call needs the engine to itself; during another call it is
 * refused ({@link HawserException.Busy}). {@link Thread#interrupt} ends a run after its step with
 * {@link HawserException.Cancelled} and leaves the thread's flag set.
 *
 * <p>Exceptions: if a listener, a data source or a transport throws, the call throws the same exception.
 * Every other failure is a {@link HawserException}, or an {@link IllegalArgumentException} for buffers that
 * cannot be used.
 */
public final class Engine extends NativeObject implements AutoCloseable {
  private static final int TRAINING = 0;
  private static final int INFERENCE = 1;

  private final Comm comm;
  private final Sizes sizes;

  private Engine(long handle, Comm comm) {
    super(handle, "the engine", Native::hws_engine_destroy, true);
    this.comm = comm;
    this.sizes = Native.hws_engine_sizes(this);
  }

  // ----------------------------------------------------------------------------------------------- making
  // and closing

  /**
   * Makes an engine of one rank.
   *
   * @throws HawserException.ConfigInvalid with all problems at once
   * @throws HawserException.OutOfMemory states how much memory is needed, and which setting saves how much
   */
  public static Engine create(Config config) {
    return new Engine(Native.hws_engine_create(config, TRAINING), null);
  }

  /**
   * Makes an engine of {@code ranks} ranks that are threads of this process, arranged by the config's
   * section mesh.
   */
  public static Engine create(Config config, int ranks) {
    try (Comm comm = Comm.local(ranks)) {
      return create(config, comm);
    }
  }

  /** Makes an engine over the ranks of a comm. Returns when all processes have called it. */
  public static Engine create(Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_ranks(config, comm, TRAINING), comm);
  }

  /**
   * Makes an engine that only evaluates, forwards and generates: it has no gradients and no optimizer state.
   */
  public static Engine inference(Config config) {
    return new Engine(Native.hws_engine_create(config, INFERENCE), null);
  }

  /** Makes an engine for inference over the ranks of a comm. */
  public static Engine inference(Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_ranks(config, comm, INFERENCE), comm);
  }

  /**
   * Makes an engine that trains an adapter and borrows the frozen weights of {@code base}, an engine for
   * inference, without copying them. Any number of engines may borrow from one base and run at once, each on
   * its own thread. The base may be closed before them.
   *
   * @throws HawserException.FailedPrecondition if the weights of {@code base} may change or are in no folder
   */
  public static Engine createOn(Engine base, Config config) {
    return new Engine(Native.hws_engine_create_on(base, config, null, TRAINING), null);
  }

  /** Makes an engine that borrows from {@code base}, over the ranks of a comm. */
  public static Engine createOn(Engine base, Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_on(base, config, comm, TRAINING), comm);
  }

  /** Makes an engine that borrows from {@code base} and only evaluates, forwards and generates. */
  public static Engine inferenceOn(Engine base, Config config) {
    return new Engine(Native.hws_engine_create_on(base, config, null, INFERENCE), null);
  }

  /** Makes an engine for inference that borrows from {@code base}, over the ranks of a comm. */
  public static Engine inferenceOn(Engine base, Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_on(base, config, comm, INFERENCE), comm);
  }

  /**
   * Sets a listener of this thread, or removes it (null). Making an engine calls it while the log-probabilities
   * of the reference of /objective are computed, at most ten times a second, with JSON: "phase", "done" and
   * "total". If it returns false, the call ends with {@link HawserException.Cancelled}; if it throws, the
   * exception reaches the caller.
   */
  public static void setThreadProgress(Predicate<String> listener) {
    Native.hws_thread_set_progress(listener);
  }

  Comm comm() {
    return comm;
  }

  /**
   * Closes the engine and frees its memory. A running call on another thread ends after its step, with
   * {@link HawserException.Cancelled}. This method waits for that call and for a running save, except in the
   * engine's own callback. Closing twice does nothing.
   */
  @Override
  public void close() {
    try {
      cancel();
    } catch (HawserException.BadHandle closed) {
      return;
    }
    end();
  }

  /** Returns model, parameters, memory by category, step, ranks, threads, CPU level and more, as JSON. */
  public String info() {
    return Text.of(Native.hws_engine_info(this));
  }

  /** Returns the sizes of a batch. */
  public Sizes sizes() {
    return sizes;
  }

  /** Returns the learning rate of the pending step, or else of the next step. */
  public double learningRate() {
    return Native.hws_engine_learning_rate(this);
  }

  // ---------------------------------------------------------------------------------------------------------- training

  /**
   * Takes one optimizer step on the pushed batch; without one, on the source's batch or the config's data.
   *
   * @throws HawserException.OutOfRange at the end of the source's data
   * @throws HawserException.FailedPrecondition without data, while a step is pending, and for inference
   */
  public StepResult trainStep() {
    return Native.hws_engine_train_step(this);
  }

  /**
   * Runs the gradient phase of a step. The step is then pending, until {@link #commit} or {@link #discard}.
   */
  public StepResult forwardBackward() {
    return Native.hws_engine_forward_backward(this);
  }

  /**
   * Runs the gradient phase of a step for your own objective. gradients: the derivative of the objective by
   * the log-probability of each target, [rows, columns], in a direct buffer. The engine does not divide it by
   * the number of targets. The batch must be a global batch without weights.
   *
   * @throws HawserException.DataInvalid for a gradient that is not finite, and for a nonzero gradient of a
   * masked target
   */
  public StepResult backwardWith(Batch batch, FloatBuffer gradients) {
    needTargets(batch, "backwardWith");
    return Native.hws_engine_backward_with(this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(),
        batch.documentBegin(), batch.weights(), gradients);
  }

  /** Runs the update phase of the pending step: clips and updates the weights. The guard is not consulted. */
  public StepResult commit() {
    return Native.hws_engine_commit(this);
  }

  /**
   * Drops the gradients of the pending step. rewind: schedule and data cursor do not advance, so the data is
   * used again.
   */
  public StepResult discard(boolean rewind) {
    return Native.hws_engine_discard(this, rewind ? 1 : 0);
  }

  /** Trains to the last step of the config, with its validation and checkpoints. */
  public void train() {
    train(0, null);
  }

  /** Trains to the last step of the config, and calls a listener after each step. */
  public void train(TrainListener listener) {
    train(0, listener);
  }

  /**
   * Trains until a step.
   *
   * @param untilStep the last step; 0 for train.steps of the config
   * @param listener called after each step; may be null
   * @throws HawserException.Cancelled after {@link #cancel}, {@link #close} or {@link Thread#interrupt}; the
   * run has ended
   *     after a complete step
   */
  public void train(long untilStep, TrainListener listener) {
    TrainRun run = new TrainRun(this, listener);
    Native.hws_engine_train(this, untilStep, run);
    run.check();
  }

  /** Returns an iterable that takes a step for each element. It does not validate or save. */
  public Iterable<StepResult> steps() {
    return steps(0);
  }

  /**
   * Returns an iterable over steps until a step (0: train.steps of the config) or the end of the source's
   * data.
   */
  public Iterable<StepResult> steps(long untilStep) {
    return () -> new StepIterator(this, untilStep);
  }

  /** Ends a running train, evaluate or generate at its next step boundary. If none runs, nothing happens. */
  public void cancel() {
    Native.hws_engine_cancel(this);
  }

  // -------------------------------------------------------------------------------------------------------------- data

  /**
   * Sets the global batch of the next step. The buffers are direct, hold {@link Sizes#globalBatch} x
   * {@link Sizes#sequence} elements from position to limit, and may be refilled afterwards. With /batch/ramp, use
   * {@link #push(Batch)}.
   *
   * @throws HawserException.Busy if a batch is already waiting
   * @throws HawserException.DataInvalid for ids outside the vocabulary (row, column, id)
   */
  public void push(IntBuffer tokens, IntBuffer targets) {
    push(new Batch((int) sizes.globalBatch(), (int) sizes.sequence(), tokens, targets));
  }

  /** Sets the global batch of the next step, with documents, weights, references or a teacher. */
  public void push(Batch batch) {
    needTargets(batch, "push");
    Native.hws_data_push(this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(), batch.documentBegin(),
        batch.weights(), batch.references(), batch.teacher() == null ? 0 : batch.teacher().top(),
        batch.teacher() == null ? null : batch.teacher().ids(),
        batch.teacher() == null ? null : batch.teacher().logprobs());
  }

  /** Sets a source of training batches that replaces the config's data; null restores the config's data. */
  public void source(DataSource source) {
    Native.hws_data_set_source(this, source == null ? null : new SourceCalls(source));
  }

  /** Describes the config's data, its validation samples, the data cursor and the vocabulary, as JSON. */
  public String dataInfo() {
    return Text.of(Native.hws_data_info(this));
  }

  // -----------------------------------------------------------------------------------------------------
  // using the model

  /**
   * Puts the moving averages of the weights (optimizer.average) in the place of the weights, or puts the weights
   * back. While the averages are in place, evaluation, generation and exports use them, and training, saves and
   * loads are refused.
   */
  public void useAverage(boolean on) {
    Native.hws_engine_use_average(this, on ? 1 : 0);
  }

  /**
   * Computes the mean loss of at most maxBatches global batches of the validation data; 0: the config's
   * number.
   */
  public Evaluation evaluate(long maxBatches) {
    return Native.hws_engine_eval(this, 0, 0, null, null, null, null, maxBatches);
  }

  /** Computes the mean loss of a batch with any number of rows and at most {@link Sizes#sequence} columns. */
  public Evaluation evaluate(Batch batch) {
    needTargets(batch, "evaluate");
    return Native.hws_engine_eval(this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(),
        batch.documentBegin(), batch.weights(), 0);
  }

  /**
   * Writes the logits of each position, [rows, columns, vocabulary], to a direct buffer of exactly that size.
   * A model that ends in a score writes the scores, [rows, columns].
   */
  public void forward(Batch batch, FloatBuffer logits) {
    long needed = (long) batch.rows() * batch.columns() * sizes.outputs();
    if (logits.remaining() != needed) {
      throw new IllegalArgumentException("logits has " + logits.remaining() + " elements from position to limit, and "
          + batch.rows() + " x " + batch.columns() + " x " + sizes.outputs() + " = " + needed
          + " are needed: make it with Buffers.floats(" + needed + ")");
    }
    Native.hws_engine_forward(
        this, batch.rows(), batch.columns(), batch.tokens(), batch.documentBegin(), logits);
  }

  /**
   * Writes the log-probability of each target, [rows, columns], to a direct buffer of exactly that size; 0
   * for masked targets. Weights of the batch are ignored.
   */
  public void logprobs(Batch batch, FloatBuffer logprobs) {
    needTargets(batch, "logprobs");
    Native.hws_engine_logprobs(
        this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(), batch.documentBegin(), logprobs);
  }

  /**
   * Finds the {@code top} likeliest next tokens of each position and their log-probabilities. They can be a
   * teacher's rows ({@link Batch#withTeacher}). The batch needs no targets.
   */
  public TopLogprobs topLogprobs(Batch batch, int top) {
    long size = (long) batch.rows() * batch.columns() * top;
    TopLogprobs result = new TopLogprobs(top, Buffers.ints((int) size), Buffers.floats((int) size));
    Native.hws_engine_top_logprobs(this, batch.rows(), batch.columns(), batch.tokens(), batch.documentBegin(), top,
        result.ids(), result.logprobs());
    return result;
  }

  private static void needTargets(Batch batch, String what) {
    if (batch.targets() == null) throw new IllegalArgumentException(what + " needs targets; they are null");
  }

  /** Continues a prompt and passes each token to the listener. */
  public void generate(Generation request, TokenListener listener) {
    if (listener == null) throw new IllegalArgumentException("generate needs a listener; it is null");
    Native.hws_engine_generate(this, Buffers.ints(request.prompt()), request.tokens(), request.temperature(),
        request.topK(), request.topP(), request.seed(), -1, Buffers.ints(request.stopTokens()), listener);
  }

  /** Continues a prompt and returns the new tokens. */
  public int[] generate(Generation request) {
    int[][] made = {new int[16]};
    int[] count = {0};
    generate(request, token -> {
      if (count[0] == made[0].length) made[0] = Arrays.copyOf(made[0], 2 * count[0]);
      made[0][count[0]++] = token;
      return true;
    });
    return Arrays.copyOf(made[0], count[0]);
  }

  /**
   * Converts text to tokens, for models with a tokenizer or with a byte or character vocabulary. A tokenizer
   * also adds the special tokens of a text.
   */
  public int[] encode(String text) {
    return Text.tokens(Native.hws_text_encode(this, text.getBytes(java.nio.charset.StandardCharsets.UTF_8)));
  }

  /**
   * Returns the tokenizer of the model.
   *
   * @throws HawserException.FailedPrecondition for a model without a tokenizer
   */
  public Tokenizer tokenizer() {
    return new Tokenizer(Native.hws_engine_tokenizer(this));
  }

  /** Converts tokens to text, without special tokens. */
  public String decode(int... tokens) {
    return Text.of(Native.hws_text_decode(this, Buffers.ints(tokens)));
  }

  /** Returns the tensors of the model. */
  public Tensors tensors() {
    return new Tensors(this);
  }

  // ------------------------------------------------------------------------------------------------------- checkpoints

  /**
   * Writes a checkpoint, a directory that must not exist yet. Afterwards it is complete and durable, or does
   * not exist.
   *
   * @throws HawserException.AlreadyExists if the path exists
   */
  public void save(Path checkpoint) {
    Native.hws_checkpoint_save(this, checkpoint.toString());
  }

  /** Writes a checkpoint while training continues; returns as soon as the state is copied. */
  public Save saveAsync(Path checkpoint) {
    return new Save(Native.hws_checkpoint_save_async(this, checkpoint.toString()));
  }

  /** Restores weights, optimizer, counters and data cursor, so that training resumes bit for bit. */
  public void load(Path checkpoint) {
    load(checkpoint, false);
  }

  /** Restores a checkpoint. otherData: accept a checkpoint that was trained on other data. */
  public void load(Path checkpoint, boolean otherData) {
    Native.hws_checkpoint_load(this, checkpoint.toString(), otherData ? 1 : 0);
  }

  /**
   * Loads the newest valid checkpoint below a folder. Returns JSON with "name", "step" and "damaged".
   *
   * @throws HawserException.NotFound if there is none; the engine is unchanged
   */
  public String loadLatest(Path folder, boolean otherData) {
    return Text.of(Native.hws_checkpoint_load_latest(this, folder.toString(), otherData ? 1 : 0));
  }

  /**
   * Makes a Hugging Face folder from the weights. dtype: "f32", "bf16" or "f16"; null for the dtype of the
   * import (f32 for a model that was not imported). If the target's name ends in ".gguf", makes a file for
   * llama.cpp instead; its dtype may also be "q8_0".
   */
  public void export(Path target, String dtype) {
    Native.hws_engine_export(this, target.toString(), dtype);
  }

  /**
   * Makes a PEFT folder from the adapter, or a file for llama.cpp if the target ends in ".gguf". ({@link #export}
   * merges the adapter into the weights instead.)
   */
  public void exportAdapter(Path target) {
    Native.hws_engine_export_adapter(this, target.toString());
  }

  // --------------------------------------------------------------------------------------------------------- telemetry

  /** Returns the engine's progress. May be called at any time, even during another call. */
  public Progress progress() {
    return Native.hws_engine_progress(this);
  }

  /** Returns the metrics of the last step and the bytes that it sent to other ranks, as JSON. */
  public String metrics() {
    return Text.of(Native.hws_engine_metrics(this));
  }

  /**
   * Sets a listener that receives {@link #metrics} after each step, on the thread that trains; null removes
   * it.
   */
  public void onMetrics(Consumer<String> listener) {
    Native.hws_engine_set_metrics(this, listener);
  }

  /** The detail of recordings. */
  public enum Detail {
    /** Records nothing, at no cost. */
    OFF,
    /** Records when each instruction of a step begins and ends. */
    INSTRUCTIONS,
    /** Records instructions and every kernel call in them. */
    KERNELS
  }

  /** Sets the detail that is recorded from the next step on, and discards earlier recordings. */
  public void record(Detail detail) {
    Native.hws_engine_set_trace(this, detail.ordinal());
  }

  /** Returns the last step as trace events for Perfetto and chrome://tracing, as a table, or as an image. */
  public String trace(Format format) {
    return Text.of(Native.hws_engine_trace(this, format.number));
  }

  /** Returns the time by kernel since the recording of kernels began. */
  public String profile(Format format) {
    return Text.of(Native.hws_engine_profile(this, format.number));
  }

  /**
   * Returns the last calls of each rank of this process to other ranks. Works even during a call that hangs.
   */
  public String flight(Format format) {
    return Text.of(Native.hws_engine_flight(this, format.number));
  }
}
