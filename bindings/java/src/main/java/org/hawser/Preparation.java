package org.hawser;

import java.util.function.Consumer;

/** Text becomes rows of tokens for training, with what is learned of them. */
public final class Preparation {
  private Preparation() {}

  /**
   * Prepares text for training. The request and the report are JSON, as hws_data_prepare of hawser.h describes them.
   * The listener hears JSON now and then; null: nobody.
   */
  public static String prepare(String request, Consumer<String> listener) {
    return Text.of(Native.hws_data_prepare(request, listener));
  }

  /** A row of a prepared folder as the model sees it, as JSON. */
  public static String preview(String folder, long row) {
    return Text.of(Native.hws_data_preview(folder, row));
  }
}
