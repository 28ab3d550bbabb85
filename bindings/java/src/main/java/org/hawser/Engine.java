package org.hawser;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * A model that trains: all ranks that this process holds.
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
 * <p>Threads. {@link #cancel}, {@link #close}, {@link #progress}, {@link #metrics}, {@link #flight} and {@link #sizes} work
 * at any time. Any other call needs the engine to itself; beside a running one it is refused
 * ({@link HawserException.Busy}). {@link Thread#interrupt} ends a run after its step with
 * {@link HawserException.Cancelled} and leaves the thread's flag set.
 *
 * <p>Exceptions. What a listener, a data source or a transport throws leaves the call as itself. Everything else is a
 * {@link HawserException}, or an {@link IllegalArgumentException} for buffers that cannot be used.
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

  // ------------------------------------------------------------------------------------------------------ from and to

  /**
   * An engine of one rank.
   *
   * @throws HawserException.ConfigInvalid with all problems at once
   * @throws HawserException.OutOfMemory says how much is needed, and which setting saves how much
   */
  public static Engine create(Config config) {
    return new Engine(Native.hws_engine_create(config, TRAINING), null);
  }

  /** An engine of {@code ranks} ranks as threads of this process, arranged as section mesh of the config says. */
  public static Engine create(Config config, int ranks) {
    try (Comm comm = Comm.local(ranks)) {
      return create(config, comm);
    }
  }

  /** An engine over the ranks of a comm. Returns in each process when all have called it. */
  public static Engine create(Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_ranks(config, comm, TRAINING), comm);
  }

  /** An engine that only evaluates, forwards and generates: no gradients, no optimizer state. */
  public static Engine inference(Config config) {
    return new Engine(Native.hws_engine_create(config, INFERENCE), null);
  }

  /** The same over the ranks of a comm. */
  public static Engine inference(Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_ranks(config, comm, INFERENCE), comm);
  }

  /**
   * An engine that trains an adapter on the weights of {@code base}, an engine for inference, without a copy of its own.
   * Any number may stand on one base and run at once, each on its own thread. The base may be closed before them.
   *
   * @throws HawserException.FailedPrecondition if the weights of {@code base} may change or are in no folder
   */
  public static Engine createOn(Engine base, Config config) {
    return new Engine(Native.hws_engine_create_on(base, config, null, TRAINING), null);
  }

  /** The same over the ranks of a comm. */
  public static Engine createOn(Engine base, Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_on(base, config, comm, TRAINING), comm);
  }

  /** The same for an engine that only evaluates, forwards and generates. */
  public static Engine inferenceOn(Engine base, Config config) {
    return new Engine(Native.hws_engine_create_on(base, config, null, INFERENCE), null);
  }

  /** The same over the ranks of a comm. */
  public static Engine inferenceOn(Engine base, Config config, Comm comm) {
    return new Engine(Native.hws_engine_create_on(base, config, comm, INFERENCE), comm);
  }

  Comm comm() {
    return comm;
  }

  /**
   * Ends the engine and frees its memory. A running call on another thread ends after its step, with
   * {@link HawserException.Cancelled}, and this waits for it and for a running save; in the engine's own callback it does
   * not wait. Closing twice does nothing.
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

  /** Model, parameters, memory by category, step, ranks, threads, CPU level and more, as JSON. */
  public String info() {
    return Text.of(Native.hws_engine_info(this));
  }

  /** What a batch is made of. */
  public Sizes sizes() {
    return sizes;
  }

  /** The learning rate that the next step will use; while a step is pending, that step's. */
  public double learningRate() {
    return Native.hws_engine_learning_rate(this);
  }

  // ---------------------------------------------------------------------------------------------------------- training

  /**
   * One optimizer step on the next global batch: the pushed one, else the source's, else the config's data.
   *
   * @throws HawserException.OutOfRange at the end of the source's data
   * @throws HawserException.FailedPrecondition without data, while a step is pending, and for inference
   */
  public StepResult trainStep() {
    return Native.hws_engine_train_step(this);
  }

  /** The first half of a step: gradients. The step is then pending, until {@link #commit} or {@link #discard}. */
  public StepResult forwardBackward() {
    return Native.hws_engine_forward_backward(this);
  }

  /**
   * The first half of a step for an objective of your own, from its gradients by the log-probability of each target,
   * [rows, columns], in a direct buffer. Nothing is divided. The batch is a global one, without weights.
   *
   * @throws HawserException.DataInvalid for a gradient that is not finite, and for one of a masked target
   */
  public StepResult backwardWith(Batch batch, FloatBuffer gradients) {
    needTargets(batch, "backwardWith");
    return Native.hws_engine_backward_with(this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(),
        batch.documentBegin(), batch.weights(), gradients);
  }

  /** The second half: clips and updates the weights, without asking the guard. */
  public StepResult commit() {
    return Native.hws_engine_commit(this);
  }

  /** Or drops the gradients. rewind: schedule and data cursor stay, and the same data comes again. */
  public StepResult discard(boolean rewind) {
    return Native.hws_engine_discard(this, rewind ? 1 : 0);
  }

  /** Trains to the end that the config gives, with its validation and checkpoints. */
  public void train() {
    train(0, null);
  }

  /** The same, and tells a listener of each step. */
  public void train(TrainListener listener) {
    train(0, listener);
  }

  /**
   * The same until a step.
   *
   * @param untilStep 0: train.steps of the config
   * @param listener null: none
   * @throws HawserException.Cancelled after {@link #cancel}, {@link #close} or {@link Thread#interrupt}: the run has ended
   *     after a whole step
   */
  public void train(long untilStep, TrainListener listener) {
    TrainRun run = new TrainRun(this, listener);
    Native.hws_engine_train(this, untilStep, run);
    run.check();
  }

  /** Steps as a loop, each taken when it is asked for; validation and checkpoints are left to the loop. */
  public Iterable<StepResult> steps() {
    return steps(0);
  }

  /** The same until a step (0: train.steps of the config) or the end of the source's data. */
  public Iterable<StepResult> steps(long untilStep) {
    return () -> new StepIterator(this, untilStep);
  }

  /** Ends a running train, evaluate or generate at its next step boundary. If none runs, nothing happens. */
  public void cancel() {
    Native.hws_engine_cancel(this);
  }

  // -------------------------------------------------------------------------------------------------------------- data

  /**
   * Gives the next step its global batch. The buffers are direct, hold {@link Sizes#globalBatch} x {@link Sizes#sequence}
   * elements from position to limit, and may be filled anew afterwards.
   *
   * @throws HawserException.Busy if a batch is waiting already
   * @throws HawserException.DataInvalid for ids outside the vocabulary (row, column, id)
   */
  public void push(IntBuffer tokens, IntBuffer targets) {
    push(new Batch((int) sizes.globalBatch(), (int) sizes.sequence(), tokens, targets));
  }

  /** The same, with documents, weights or references. */
  public void push(Batch batch) {
    needTargets(batch, "push");
    Native.hws_data_push(this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(), batch.documentBegin(),
        batch.weights(), batch.references());
  }

  /** Where training batches come from instead of the config's data; null: from the config's data again. */
  public void source(DataSource source) {
    Native.hws_data_set_source(this, source == null ? null : new SourceCalls(source));
  }

  /** The config's data, its validation samples, the data cursor and the vocabulary, as JSON. */
  public String dataInfo() {
    return Text.of(Native.hws_data_info(this));
  }

  // -------------------------------------------------------------------------------------------------- looking at a model

  /** The mean loss of the validation data. maxBatches: at most so many global batches; 0: as the config says. */
  public Evaluation evaluate(long maxBatches) {
    return Native.hws_engine_eval(this, 0, 0, null, null, null, null, maxBatches);
  }

  /** The mean loss of a batch of any rows, and of at most {@link Sizes#sequence} columns. */
  public Evaluation evaluate(Batch batch) {
    needTargets(batch, "evaluate");
    return Native.hws_engine_eval(this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(),
        batch.documentBegin(), batch.weights(), 0);
  }

  /**
   * Writes the logits of each position, [rows, columns, vocabulary], to a direct buffer of exactly that size; of a model that
   * ends in a score the scores, [rows, columns].
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
   * Writes the log-probability of each target, [rows, columns], 0 where it is masked, to a direct buffer of exactly that
   * size. Weights of the batch do not matter.
   */
  public void logprobs(Batch batch, FloatBuffer logprobs) {
    needTargets(batch, "logprobs");
    Native.hws_engine_logprobs(
        this, batch.rows(), batch.columns(), batch.tokens(), batch.targets(), batch.documentBegin(), logprobs);
  }

  private static void needTargets(Batch batch, String what) {
    if (batch.targets() == null) throw new IllegalArgumentException(what + " needs targets; they are null");
  }

  /** Continues a prompt and hands each token to the listener. */
  public void generate(Generation request, TokenListener listener) {
    if (listener == null) throw new IllegalArgumentException("generate needs a listener; it is null");
    Native.hws_engine_generate(this, Buffers.ints(request.prompt()), request.tokens(), request.temperature(),
        request.topK(), request.topP(), request.seed(), -1, Buffers.ints(request.stopTokens()), listener);
  }

  /** The tokens that continue a prompt. */
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
   * Text to tokens, for models with a tokenizer, which adds the special tokens of a text, or with a byte or character
   * vocabulary.
   */
  public int[] encode(String text) {
    return Text.tokens(Native.hws_text_encode(this, text.getBytes(java.nio.charset.StandardCharsets.UTF_8)));
  }

  /**
   * The tokenizer of the model.
   *
   * @throws HawserException.FailedPrecondition for a model without one
   */
  public Tokenizer tokenizer() {
    return new Tokenizer(Native.hws_engine_tokenizer(this));
  }

  /** And back, without special tokens. */
  public String decode(int... tokens) {
    return Text.of(Native.hws_text_decode(this, Buffers.ints(tokens)));
  }

  /** The tensors of the model. */
  public Tensors tensors() {
    return new Tensors(this);
  }

  // ------------------------------------------------------------------------------------------------------- checkpoints

  /**
   * Writes a checkpoint, a directory that must not exist yet. Afterwards it is whole and durable, or not there.
   *
   * @throws HawserException.AlreadyExists if the path exists
   */
  public void save(Path checkpoint) {
    Native.hws_checkpoint_save(this, checkpoint.toString());
  }

  /** The same while training goes on: returns as soon as the state is copied. */
  public Save saveAsync(Path checkpoint) {
    return new Save(Native.hws_checkpoint_save_async(this, checkpoint.toString()));
  }

  /** Restores weights, optimizer, counters and data cursor; training goes on bit for bit. */
  public void load(Path checkpoint) {
    load(checkpoint, false);
  }

  /** The same; otherData: accept a checkpoint of other data. */
  public void load(Path checkpoint, boolean otherData) {
    Native.hws_checkpoint_load(this, checkpoint.toString(), otherData ? 1 : 0);
  }

  /**
   * Loads the newest whole checkpoint below a folder. Returns JSON with "name", "step" and "damaged".
   *
   * @throws HawserException.NotFound if there is none; the engine is as before
   */
  public String loadLatest(Path folder, boolean otherData) {
    return Text.of(Native.hws_checkpoint_load_latest(this, folder.toString(), otherData ? 1 : 0));
  }

  /** Makes a Hugging Face folder from the weights. dtype: "f32", "bf16" or "f16"; null: as imported, else f32. */
  public void export(Path huggingFace, String dtype) {
    Native.hws_engine_export(this, huggingFace.toString(), dtype);
  }

  /** Makes a PEFT folder from the adapter, which {@link #export} merges. */
  public void exportAdapter(Path peft) {
    Native.hws_engine_export_adapter(this, peft.toString());
  }

  // --------------------------------------------------------------------------------------------------------- telemetry

  /** Where the engine is, at any time, also beside a call that runs. */
  public Progress progress() {
    return Native.hws_engine_progress(this);
  }

  /** The last step and what it sent to other ranks, as JSON. */
  public String metrics() {
    return Text.of(Native.hws_engine_metrics(this));
  }

  /** Hears the same after each step, on the thread that trains; null: nobody. */
  public void onMetrics(Consumer<String> listener) {
    Native.hws_engine_set_metrics(this, listener);
  }

  /** What to record from the next step on. */
  public enum Detail {
    /** Nothing, at no cost. */
    OFF,
    /** When each instruction of a step begins and ends. */
    INSTRUCTIONS,
    /** And every kernel call in them. */
    KERNELS
  }

  /** Sets what is recorded, and drops what was. */
  public void record(Detail detail) {
    Native.hws_engine_set_trace(this, detail.ordinal());
  }

  /** The last step as trace events for Perfetto and chrome://tracing, or as a table for people. */
  public String trace(Format format) {
    return Text.of(Native.hws_engine_trace(this, format.number));
  }

  /** Where the time went since kernels are recorded, by kernel. */
  public String profile(Format format) {
    return Text.of(Native.hws_engine_profile(this, format.number));
  }

  /** The last calls of each rank of this process to other ranks. Works beside a call that does not return. */
  public String flight(Format format) {
    return Text.of(Native.hws_engine_flight(this, format.number));
  }
}
