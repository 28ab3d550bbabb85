package org.hawser;

import java.util.List;
import java.util.Map;

/**
 * A failure of the library. Its message states what failed, where, on which value, and what to do. Every
 * status of the library has its own nested class; a status that only a later version has becomes this class
 * itself.
 *
 * <p>Wrong arguments that the Java code detects, such as a buffer on the heap, are {@link
 * IllegalArgumentException}s.
 */
public class HawserException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The number of the status. */
  private final int code;

  /** A JSON object for programs. */
  private final String details;

  HawserException(int code, String message, String details) {
    super(message);
    this.code = code;
    this.details = details;
  }

  /** Returns the number of the status, such as 21. */
  public int code() {
    return code;
  }

  /** Returns the name of the status, such as {@code HWS_CONFIG_INVALID}. */
  public String status() {
    return Native.hws_status_name(code);
  }

  /**
   * Returns a JSON object for programs, with those of "pointer", "problems", "file", "tensor" and others
   * that apply.
   */
  public String details() {
    return details;
  }

  /** Returns the JSON pointer of the first config field that is wrong; null if none is. */
  public String pointer() {
    Map<?, ?> fields = (Map<?, ?>) Json.parse(details);
    if (fields.get("problems") instanceof List<?> problems && !problems.isEmpty()) fields = (Map<?, ?>) problems.get(0);
    return (String) fields.get("pointer");
  }

  static HawserException of(int code, String message, String details) {
    return switch (code) {
      case 1 -> new Cancelled(message, details);
      case 2 -> new Unknown(message, details);
      case 3 -> new InvalidArgument(message, details);
      case 4 -> new Timeout(message, details);
      case 5 -> new NotFound(message, details);
      case 6 -> new AlreadyExists(message, details);
      case 7 -> new Permission(message, details);
      case 8 -> new OutOfMemory(message, details);
      case 9 -> new FailedPrecondition(message, details);
      case 10 -> new Aborted(message, details);
      case 11 -> new OutOfRange(message, details);
      case 12 -> new Unimplemented(message, details);
      case 13 -> new Internal(message, details);
      case 14 -> new Unavailable(message, details);
      case 15 -> new DataLoss(message, details);
      case 16 -> new Io(message, details);
      case 20 -> new ConfigParse(message, details);
      case 21 -> new ConfigInvalid(message, details);
      case 30 -> new DeviceUnavailable(message, details);
      case 50 -> new CheckpointCorrupt(message, details);
      case 51 -> new CheckpointIncompatible(message, details);
      case 60 -> new Numeric(message, details);
      case 61 -> new DataInvalid(message, details);
      case 70 -> new Busy(message, details);
      case 71 -> new Forked(message, details);
      case 72 -> new BadHandle(message, details);
      case 73 -> new AbiMismatch(message, details);
      case 74 -> new CallbackFailed(message, details);
      default -> new HawserException(code, message, details);
    };
  }

  /**
   * The call was ended by {@link Engine#cancel}, {@link Engine#close} or {@link Thread#interrupt}. An engine
   * that is not closed can continue training.
   */
  public static final class Cancelled extends HawserException {
    private static final long serialVersionUID = 1;

    Cancelled(String message) {
      this(message, "{}");
    }

    Cancelled(String message, String details) {
      super(1, message, details);
    }
  }

  /** An error without a code of its own. */
  public static final class Unknown extends HawserException {
    private static final long serialVersionUID = 1;

    Unknown(String message, String details) {
      super(2, message, details);
    }
  }

  /** An argument is out of range. */
  public static final class InvalidArgument extends HawserException {
    private static final long serialVersionUID = 1;

    InvalidArgument(String message, String details) {
      super(3, message, details);
    }
  }

  /** The time limit has passed; the awaited event may still occur. */
  public static final class Timeout extends HawserException {
    private static final long serialVersionUID = 1;

    Timeout(String message, String details) {
      super(4, message, details);
    }
  }

  /** A file, a name or a preset does not exist. */
  public static final class NotFound extends HawserException {
    private static final long serialVersionUID = 1;

    NotFound(String message, String details) {
      super(5, message, details);
    }
  }

  /** A path that must not exist does exist. */
  public static final class AlreadyExists extends HawserException {
    private static final long serialVersionUID = 1;

    AlreadyExists(String message, String details) {
      super(6, message, details);
    }
  }

  /** A file may not be read or written, or the job's secret is wrong. */
  public static final class Permission extends HawserException {
    private static final long serialVersionUID = 1;

    Permission(String message, String details) {
      super(7, message, details);
    }
  }

  /** There is not enough memory; the message states how much is needed and which setting saves how much. */
  public static final class OutOfMemory extends HawserException {
    private static final long serialVersionUID = 1;

    OutOfMemory(String message, String details) {
      super(8, message, details);
    }
  }

  /** The object is not in a state that allows the call. */
  public static final class FailedPrecondition extends HawserException {
    private static final long serialVersionUID = 1;

    FailedPrecondition(String message, String details) {
      super(9, message, details);
    }
  }

  /** An earlier error has ended this engine: make another one. */
  public static final class Aborted extends HawserException {
    private static final long serialVersionUID = 1;

    Aborted(String message, String details) {
      super(10, message, details);
    }
  }

  /** The data source has no more data. */
  public static final class OutOfRange extends HawserException {
    private static final long serialVersionUID = 1;

    OutOfRange(String message, String details) {
      super(11, message, details);
    }
  }

  /** This is not implemented. */
  public static final class Unimplemented extends HawserException {
    private static final long serialVersionUID = 1;

    Unimplemented(String message, String details) {
      super(12, message, details);
    }
  }

  /** The library has a bug. */
  public static final class Internal extends HawserException {
    private static final long serialVersionUID = 1;

    Internal(String message, String details) {
      super(13, message, details);
    }
  }

  /** A process, an address or an optional module cannot be reached. */
  public static final class Unavailable extends HawserException {
    private static final long serialVersionUID = 1;

    Unavailable(String message, String details) {
      super(14, message, details);
    }
  }

  /** Data was lost. */
  public static final class DataLoss extends HawserException {
    private static final long serialVersionUID = 1;

    DataLoss(String message, String details) {
      super(15, message, details);
    }
  }

  /** A file could not be read or written. */
  public static final class Io extends HawserException {
    private static final long serialVersionUID = 1;

    Io(String message, String details) {
      super(16, message, details);
    }
  }

  /** A config is not JSON. */
  public static final class ConfigParse extends HawserException {
    private static final long serialVersionUID = 1;

    ConfigParse(String message, String details) {
      super(20, message, details);
    }
  }

  /** A config has problems; the details list them all. */
  public static final class ConfigInvalid extends HawserException {
    private static final long serialVersionUID = 1;

    ConfigInvalid(String message, String details) {
      super(21, message, details);
    }
  }

  /** A device does not exist on this machine. */
  public static final class DeviceUnavailable extends HawserException {
    private static final long serialVersionUID = 1;

    DeviceUnavailable(String message, String details) {
      super(30, message, details);
    }
  }

  /** A checkpoint is damaged. */
  public static final class CheckpointCorrupt extends HawserException {
    private static final long serialVersionUID = 1;

    CheckpointCorrupt(String message, String details) {
      super(50, message, details);
    }
  }

  /** A checkpoint belongs to another model, other data or a newer version. */
  public static final class CheckpointIncompatible extends HawserException {
    private static final long serialVersionUID = 1;

    CheckpointIncompatible(String message, String details) {
      super(51, message, details);
    }
  }

  /** Losses or gradients are not finite. */
  public static final class Numeric extends HawserException {
    private static final long serialVersionUID = 1;

    Numeric(String message, String details) {
      super(60, message, details);
    }
  }

  /** Data is invalid, such as an id outside the vocabulary. */
  public static final class DataInvalid extends HawserException {
    private static final long serialVersionUID = 1;

    DataInvalid(String message, String details) {
      super(61, message, details);
    }
  }

  /** Another thread is using the object: wait for it, or use an object of your own. */
  public static final class Busy extends HawserException {
    private static final long serialVersionUID = 1;

    Busy(String message, String details) {
      super(70, message, details);
    }
  }

  /** The object belongs to the parent of this process. */
  public static final class Forked extends HawserException {
    private static final long serialVersionUID = 1;

    Forked(String message, String details) {
      super(71, message, details);
    }
  }

  /** The object is closed. */
  public static final class BadHandle extends HawserException {
    private static final long serialVersionUID = 1;

    BadHandle(String message) {
      this(message, "{}");
    }

    BadHandle(String message, String details) {
      super(72, message, details);
    }
  }

  /** The library has another ABI. */
  public static final class AbiMismatch extends HawserException {
    private static final long serialVersionUID = 1;

    AbiMismatch(String message, String details) {
      super(73, message, details);
    }
  }

  /** A callback failed without an exception. */
  public static final class CallbackFailed extends HawserException {
    private static final long serialVersionUID = 1;

    CallbackFailed(String message, String details) {
      super(74, message, details);
    }
  }
}
