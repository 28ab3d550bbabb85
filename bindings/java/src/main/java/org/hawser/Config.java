package org.hawser;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The config of a run: what to train and how. A config never changes, so any thread may use it at any time.
 *
 * <pre>{@code
 * Config config = Config.builder().preset("quickstart").set("/train/steps", 100).build();
 * }</pre>
 *
 * <p>It uses a few kilobytes outside the heap until it is closed or collected.
 */
public final class Config extends NativeObject implements AutoCloseable {
  private static final int JSON = 0;
  private static final int BINARY = 1;
  private static final int RESOLVED = 2;

  /**
   * A problem with a field.
   *
   * @param pointer a JSON pointer to the field
   * @param message the problem
   * @param fix how to fix it
   */
  public record Problem(String pointer, String message, String fix) {}

  Config(long handle) {
    super(handle, "the config", Native::hws_config_destroy, false);
  }

  /**
   * Parses strict JSON.
   *
   * @throws HawserException.ConfigParse with the position at which the text is not JSON
   * @throws HawserException.ConfigInvalid with all unknown keys, wrong types and wrong names at once
   */
  public static Config parse(String json) {
    return new Config(Native.hws_config_parse(json.getBytes(StandardCharsets.UTF_8), JSON));
  }

  /** Parses the result of {@link #toBinary}. */
  public static Config parse(byte[] binary) {
    return new Config(Native.hws_config_parse(binary, BINARY));
  }

  /**
   * Reads a JSON file.
   *
   * @throws UncheckedIOException if the file cannot be read
   */
  public static Config read(Path file) {
    try {
      return new Config(Native.hws_config_parse(Files.readAllBytes(file), JSON));
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read the config " + file, e);
    }
  }

  /**
   * Returns a built-in preset, such as "gpt2-124m".
   *
   * @throws HawserException.NotFound if no preset has that name; {@link #presets} lists the names
   */
  public static Config preset(String name) {
    return new Config(Native.hws_config_preset(name));
  }

  /**
   * Returns the config of the model in a checkpoint or a Hugging Face folder; training starts from its
   * weights.
   */
  public static Config fromModel(Path folder) {
    return new Config(Native.hws_config_from_model(folder.toString()));
  }

  /** Returns the names of the presets. */
  public static List<String> presets() {
    List<String> names = new ArrayList<>();
    for (Object name : (List<?>) Json.parse(Text.of(Native.hws_config_presets()))) names.add((String) name);
    return List.copyOf(names);
  }

  /** Returns the JSON Schema of a config. */
  public static String schema() {
    return Text.of(Native.hws_config_schema(JSON));
  }

  /** Returns the binary FlatBuffers schema of {@link #toBinary}. */
  public static byte[] binarySchema() {
    return Native.hws_config_schema(BINARY);
  }

  /** Starts a config. */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Returns a copy with one field, section or array element changed.
   *
   * @param pointer a JSON pointer, such as "/model/layers"
   * @param value a String, Number, Boolean, Map or Iterable that {@link Json#write} accepts
   * @throws HawserException.ConfigInvalid for an unknown pointer or a value of the wrong type
   */
  public Config with(String pointer, Object value) {
    Config copy = new Config(Native.hws_config_clone(this));
    try {
      Native.hws_config_set(copy, pointer, Json.write(value));
      return copy;
    } catch (RuntimeException | Error e) {
      copy.close();
      throw e;
    }
  }

  /** Checks the config and the files that it names, and returns all problems. */
  public List<Problem> validate() {
    List<Problem> problems = new ArrayList<>();
    for (Object item : (List<?>) Json.parse(Text.of(Native.hws_config_validate(this)))) {
      Map<?, ?> fields = (Map<?, ?>) item;
      problems.add(new Problem(
          (String) fields.get("pointer"), (String) fields.get("message"), (String) fields.get("fix")));
    }
    return List.copyOf(problems);
  }

  /** Explains, as JSON, why a field has its value. pointer: a field, a section, or "" for all fields. */
  public String explain(String pointer) {
    return Text.of(Native.hws_config_explain(this, pointer));
  }

  /**
   * Proves that the layout of ranks changes no number, by {@code steps} steps of a shrunk model in three layouts. Returns
   * a JSON object with "equal" and "first_difference".
   */
  public String prove(int steps) {
    return Text.of(Native.hws_config_prove_layout(this, steps));
  }

  /**
   * Returns a config for the same run on another number of ranks, with the same rows per step. If the number
   * of ranks changes several times, always start from the first config.
   *
   * @throws HawserException.ConfigInvalid if the number of ranks does not divide the rows of a step
   */
  public Config fitRanks(int ranks) {
    return new Config(Native.hws_config_fit_ranks(this, ranks));
  }

  /** Computes the exact schedule and memory of the config, without allocating a tensor. */
  public Plan plan() {
    return new Plan(Native.hws_plan_create(this));
  }

  /**
   * Computes the plan for devices that this machine need not have, and predicts how long a step takes there.
   *
   * @param cluster the text of a cluster file, or the name of one in the library, such as "h100-80"
   * @param tokens the tokens of a whole run, to predict its days; 0: no prediction of a run
   * @param imbalance the load of the busiest rank's experts over the mean of all ranks; 1: balanced
   */
  public Plan planOn(String cluster, double tokens, double imbalance) {
    return new Plan(Native.hws_plan_create_on(this, cluster, tokens, imbalance));
  }

  /**
   * Searches for the fastest layouts on a cluster. Fields that are set stay as they are.
   *
   * @param cluster the text of a cluster file, or the name of one in the library, such as "h100-80"
   * @param ranks the number of devices; 0: those of the cluster, or else of the mesh
   * @param top the number of layouts
   * @param imbalance the load of the busiest rank's experts over the mean of all ranks; 1: balanced
   */
  public Plan searchPlans(String cluster, long ranks, int top, double imbalance) {
    return new Plan(Native.hws_plan_search(this, cluster, ranks, top, imbalance));
  }

  /** Returns the fields that were set, as JSON. Parsing the JSON gives an equal config. */
  public String toJson() {
    return Text.of(Native.hws_config_serialize(this, JSON));
  }

  /** Returns every field as JSON, with defaults, presets and rules applied. */
  public String toResolvedJson() {
    return Text.of(Native.hws_config_serialize(this, RESOLVED));
  }

  /** Returns the fields that were set, as a FlatBuffer. */
  public byte[] toBinary() {
    return Native.hws_config_serialize(this, BINARY);
  }

  /** Frees the memory now. Engines and plans that were made from the config are not affected. */
  @Override
  public void close() {
    end();
  }

  /** Returns the fields that were set, as JSON. */
  @Override
  public String toString() {
    return isClosed() ? "a closed config" : toJson();
  }

  /** Builds a config: starts from a preset, JSON or a model, then sets fields in order. */
  public static final class Builder {
    private Config base = parse("{}");

    private Builder() {}

    /** Starts from a preset; discards earlier settings. */
    public Builder preset(String name) {
      return from(Config.preset(name));
    }

    /** Starts from JSON; discards earlier settings. */
    public Builder json(String json) {
      return from(parse(json));
    }

    /** Starts from the model in a folder; discards earlier settings. */
    public Builder fromModel(Path folder) {
      return from(Config.fromModel(folder));
    }

    /** Sets a field like {@link Config#with}. An error leaves the builder unchanged. */
    public Builder set(String pointer, Object value) {
      return from(base.with(pointer, value));
    }

    /** Returns the config. The builder may be used again. */
    public Config build() {
      return new Config(Native.hws_config_clone(base));
    }

    private Builder from(Config next) {
      base.close();
      base = next;
      return this;
    }
  }
}
