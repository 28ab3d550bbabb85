package org.hawser;

import java.nio.ByteBuffer;

/**
 * The host program's own connection from the one rank of this process to the other ranks. See {@link
 * Comm#host}.
 *
 * <p>Messages between two ranks must arrive in the order and with the sizes in which they were sent; none is
 * empty. The methods run on threads of the library, one at a time except for {@link #abort}, and must not
 * call the library. Buffers are direct, are in the library's memory and are valid only during the call. If a
 * method throws, the training call of this rank ends and throws the same exception.
 */
public interface Transport extends AutoCloseable {
  /**
   * Sends the remaining bytes of {@code data} to a rank; may return before they arrive. Must not wait for the
   * receiver if there are at most 512 bytes and fewer than two such messages are in transit to it.
   */
  void send(int toRank, ByteBuffer data, double timeoutSeconds);

  /** Receives from a rank until {@code data} is full. */
  void receive(int fromRank, ByteBuffer data, double timeoutSeconds);

  /**
   * Sends to and receives from one rank. An implementation may do both at the same time, for speed; in this
   * default, the lower rank sends first.
   */
  default void exchange(int rank, ByteBuffer sent, ByteBuffer received, double timeoutSeconds) {
    if (ownRank() < rank) {
      send(rank, sent, timeoutSeconds);
      receive(rank, received, timeoutSeconds);
    } else {
      receive(rank, received, timeoutSeconds);
      send(rank, sent, timeoutSeconds);
    }
  }

  /** Returns the rank of this process. */
  int ownRank();

  /**
   * Notifies the transport that this rank has failed: its running and later calls must throw at once, and its
   * peers' calls soon. Called on any thread, perhaps during another call.
   */
  default void abort(String reason) {}

  /** Called once, on any thread, when the transport is no longer used. */
  @Override
  default void close() {}
}
