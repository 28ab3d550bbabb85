package org.hawser;

/**
 * The ranks of this process, and their connections to all other ranks. A comm serves one engine at a time. If
 * one rank fails, all ranks fail. Local ranks can then serve a new engine; a comm of another kind cannot be
 * used again.
 *
 * <p>Close a comm when no further engine will be made from it; existing engines are not affected.
 */
public final class Comm extends NativeObject implements AutoCloseable {
  private final TransportCalls transport;

  private Comm(long handle, TransportCalls transport) {
    super(handle, "the comm", Native::hws_comm_destroy, true);
    this.transport = transport;
  }

  /** Makes {@code ranks} ranks, 1 to 4,096, that are threads of this process. */
  public static Comm local(int ranks) {
    return new Comm(Native.hws_comm_create_local(ranks), null);
  }

  /**
   * Makes one rank of a job of processes over TCP. Returns when all ranks have connected.
   *
   * @param rank the rank of this process; each number from 0 to worldSize - 1 is used once
   * @throws HawserException.Timeout names the ranks that did not connect
   * @throws HawserException.Permission if this rank and the others have different secrets
   * @throws HawserException.FailedPrecondition for an address beyond the loopback without secret or trustNetwork
   */
  public static Comm address(int rank, int worldSize, CommAddress at) {
    return new Comm(Native.hws_comm_create_address(rank, worldSize, at.address, at.host, at.networkInterface,
        at.timeoutSeconds, at.silenceSeconds, at.job, at.secretFile, at.secret, at.trustNetwork ? 1 : 0,
        at.withoutSharedMemory ? 1 : 0), null);
  }

  /**
   * Makes one rank like {@link #address}, with rank, world size and address from the environment variables of
   * a launcher (torchrun, mpirun, srun, ...).
   */
  public static Comm environment() {
    return environment(new CommAddress());
  }

  /**
   * Makes one rank from the variables of a launcher. The settings in {@code overrides} override the
   * variables; its job is appended to the launcher's job name.
   */
  public static Comm environment(CommAddress overrides) {
    return new Comm(Native.hws_comm_create_env(overrides.address, overrides.host, overrides.networkInterface,
        overrides.timeoutSeconds, overrides.silenceSeconds, overrides.job, overrides.secretFile, overrides.secret,
        overrides.trustNetwork ? 1 : 0, overrides.withoutSharedMemory ? 1 : 0), null);
  }

  /** Returns the settings that {@link #environment} would use, as JSON, without connecting. */
  public static String readEnvironment() {
    return Text.of(Native.hws_comm_read_env());
  }

  /**
   * Makes one rank over a transport of the host program. The transport is closed when it is no longer used.
   */
  public static Comm host(int worldSize, Transport transport) {
    TransportCalls calls = new TransportCalls(transport);
    return new Comm(Native.hws_comm_create_host(transport.ownRank(), worldSize, calls), calls);
  }

  /** Returns "kind", "world_size" and "local_ranks", as JSON. */
  public String info() {
    return Text.of(Native.hws_comm_info(this));
  }

  /** Returns and clears the exception that the transport threw; null if there is none. */
  Throwable takeFailure() {
    return transport == null ? null : transport.takeFailure();
  }

  /** Closes the comm. Its connections end when its engine is closed. */
  @Override
  public void close() {
    end();
  }
}
