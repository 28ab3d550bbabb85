package org.hawser;

import java.util.function.Consumer;

/** Prepares text for training: tokenizes it and marks the tokens to train on. */
public final class Preparation {
  private Preparation() {}

  /**
   * Prepares text for training. The request and the report are JSON, as hws_data_prepare of hawser.h
   * describes them. The listener receives the progress as JSON from time to time; it may be null.
   */
  public static String prepare(String request, Consumer<String> listener) {
    return Text.of(Native.hws_data_prepare(request, listener));
  }

  /** Returns a row of a prepared folder as the model sees it, as JSON. */
  public static String preview(String folder, long row) {
    return Text.of(Native.hws_data_preview(folder, row));
  }
}
