package service;

import java.util.LinkedHashMap;
import java.util.Map;
import org.hawser.HawserException;
import org.hawser.Json;

/** An error response of the service: an HTTP status, and a body for people and programs. */
final class Refusal extends RuntimeException {
  private static final long serialVersionUID = 1;

  final int status;
  final transient Map<String, Object> error;

  Refusal(int status, String code, String message) {
    this(status, error(code, message, null));
  }

  Refusal(int status, Map<String, Object> error) {
    super((String) error.get("message"));
    this.status = status;
    this.error = error;
  }

  static Refusal badRequest(String message) {
    return new Refusal(400, "BAD_REQUEST", message);
  }

  static Map<String, Object> error(String code, String message, Object details) {
    Map<String, Object> error = new LinkedHashMap<>();
    error.put("code", code);
    error.put("message", message);
    error.put("details", details);
    return error;
  }

  /** Returns the error of a failed job as a JSON object. */
  static Map<String, Object> error(Throwable thrown) {
    if (thrown instanceof HawserException e) return error(e.status(), e.getMessage(), Json.parse(e.details()));
    if (thrown instanceof java.io.UncheckedIOException e) return error("HWS_IO", String.valueOf(e.getMessage()), null);
    return error("HWS_INTERNAL", thrown.toString(), null);
  }
}
