package org.hawser;

import java.nio.file.Path;
import java.util.function.Supplier;

/**
 * Settings with which ranks of several processes connect, for {@link Comm#address} and {@link
 * Comm#environment}. Each method returns this object; a setting that is not set has its default.
 */
public final class CommAddress {
  private static final int LARGEST_SECRET = 4096;

  String address;
  String host;
  String networkInterface;
  double timeoutSeconds;
  double silenceSeconds;
  String job;
  String secretFile;
  Supplier<byte[]> secret;
  boolean trustNetwork;
  boolean withoutSharedMemory;

  /** Makes an object without settings. */
  public CommAddress() {}

  /** Sets the "host:port" on which rank 0 listens and to which all other ranks connect. */
  public CommAddress address(String hostAndPort) {
    this.address = hostAndPort;
    return this;
  }

  /**
   * Sets the address on which this rank listens until all ranks are connected. Default: the address from
   * which it reaches rank 0.
   */
  public CommAddress host(String host) {
    this.host = host;
    return this;
  }

  /** Sets the listening address by the name of a network interface, such as "eth0". */
  public CommAddress networkInterface(String name) {
    this.networkInterface = name;
    return this;
  }

  /** Sets the time for all ranks to arrive and connect. Default: 60. */
  public CommAddress timeoutSeconds(double seconds) {
    this.timeoutSeconds = seconds;
    return this;
  }

  /**
   * Sets the time without a heartbeat after which a process counts as lost. Rank 0's value applies to all.
   * Default: 10.
   */
  public CommAddress silenceSeconds(double seconds) {
    this.silenceSeconds = seconds;
    return this;
  }

  /**
   * Sets at most 127 bytes that must be equal on all ranks, such as the job's name and its number of
   * restarts.
   */
  public CommAddress job(String job) {
    this.job = job;
    return this;
  }

  /** Sets a file with the job's secret, 32 to 4,096 bytes. The file must not be readable by every user. */
  public CommAddress secretFile(Path file) {
    this.secretFile = file.toString();
    return this;
  }

  /**
   * Sets a supplier of the job's secret, 32 to 4,096 bytes. It is called at most once; if it throws, the call
   * that connects throws the same exception.
   */
  public CommAddress secret(Supplier<byte[]> secret) {
    this.secret = secret;
    return this;
  }

  /** Allows an address beyond the loopback without a secret. */
  public CommAddress trustNetwork() {
    this.trustNetwork = true;
    return this;
  }

  /** Uses TCP instead of shared memory for processes on the same machine. Default: shared memory. */
  public CommAddress withoutSharedMemory() {
    this.withoutSharedMemory = true;
    return this;
  }

  static byte[] checked(byte[] secret) {
    if (secret == null || secret.length > LARGEST_SECRET) {
      throw new IllegalArgumentException(
          "the secret has " + (secret == null ? "no" : secret.length) + " bytes: return 32 to " + LARGEST_SECRET);
    }
    return secret;
  }
}
