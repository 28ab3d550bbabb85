package service;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import org.hawser.Json;

/**
 * Trains over HTTP: {@code java service.Service DIRECTORY [PORT] [--root FOLDER]}.
 *
 * <pre>
 * POST /jobs                  {"name", "config", "checkpoint_every"}
 * GET  /jobs                  all jobs
 * GET  /jobs/NAME             state, step, loss
 * GET  /jobs/NAME/metrics     one line of JSON per step, until the job has ended
 * POST /jobs/NAME/cancel
 * GET  /jobs/NAME/model       the names of the trained model's files; model/FILE returns one file
 * </pre>
 *
 * <p>Jobs run one after the other. Their state is stored in DIRECTORY, so a restarted service resumes
 * unfinished jobs. With {@code --root}, configs may name only files below FOLDER. examples/trust.md of the
 * source tree explains whom the service trusts.
 */
public final class Service {
  private static final int LARGEST_BODY = 1 << 20;

  // A client that connects and sends nothing, or sends a byte now and then, could otherwise keep a thread
  // indefinitely.
  private static final int SECONDS_FOR_A_REQUEST = 10;
  private static final int MOST_CONNECTIONS = 256;

  private final Path root;
  private final Path allowed;
  private final Map<String, Job> jobs = new TreeMap<>(); // its own lock guards it
  private final Worker worker = new Worker();
  private long arrivals;

  private Service(Path root, Path allowed) throws IOException {
    this.allowed = allowed == null ? null : allowed.toRealPath();
    this.root = Files.createDirectories(root);
    List<Job> found = new ArrayList<>();
    for (Path folder : Folders.list(root)) {
      if (Files.exists(folder.resolve("job.json"))) found.add(Job.read(folder));
    }
    found.sort(Comparator.comparingLong(job -> job.order));
    for (Job job : found) {
      jobs.put(job.name, job);
      arrivals = job.order + 1;
      if (!job.state().ended()) worker.add(job);
    }
  }

  public static void main(String[] arguments) throws IOException {
    List<String> words = new ArrayList<>(List.of(arguments));
    int at = words.indexOf("--root");
    Path allowed = at < 0 ? null : Path.of(words.remove(at + 1));
    if (at >= 0) words.remove(at);
    if (words.isEmpty() || words.size() > 2 || words.get(0).startsWith("-")) {
      System.err.println("usage: service DIRECTORY [PORT] [--root FOLDER]");
      System.exit(2);
    }
    Service service = new Service(Path.of(words.get(0)), allowed);
    int port = words.size() > 1 ? Integer.parseInt(words.get(1)) : 0;
    System.setProperty("sun.net.httpserver.maxReqTime", String.valueOf(SECONDS_FOR_A_REQUEST));
    System.setProperty("jdk.httpserver.maxConnections", String.valueOf(MOST_CONNECTIONS));
    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port), 0);
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/", service::handle);
    server.start();
    service.worker.start();
    Runtime.getRuntime().addShutdownHook(new Thread(service::end));
    System.out.println("listening on http://127.0.0.1:" + server.getAddress().getPort());
  }

  /**
   * Handles SIGTERM and SIGINT: saves the running job after its step. Its state on disk remains "running".
   */
  private void end() {
    try {
      worker.end();
    } catch (InterruptedException e) {
      Runtime.getRuntime().halt(1);
    }
    Runtime.getRuntime().halt(0); // otherwise the exit code would be the signal's
  }

  private void handle(HttpExchange exchange) throws IOException {
    try (exchange) {
      try {
        route(exchange, exchange.getRequestMethod(), exchange.getRequestURI().getRawPath().substring(1).split("/", -1));
      } catch (Refusal refusal) {
        answer(exchange, refusal.status, Map.of("error", refusal.error));
      }
    }
  }

  private void route(HttpExchange exchange, String method, String[] path) throws IOException {
    String what = path.length < 3 ? "" : path[2];
    if (!path[0].equals("jobs") || path.length > (what.equals("model") ? 4 : 3)) throw missing("no such path");
    if (path.length == 1) {
      allow(method, "GET", "POST");
      if (method.equals("POST")) answer(exchange, 201, post(body(exchange)));
      else answer(exchange, 200, Map.of("jobs", views()));
      return;
    }
    allow(method, what.equals("cancel") ? "POST" : "GET");
    Job job = find(path[1]);
    switch (what) {
      case "" -> {
        if (path.length > 2) throw missing("no such path");
        answer(exchange, 200, job.view());
      }
      case "cancel" -> answer(exchange, 202, Map.of("name", job.name, "state", job.cancel().toString()));
      case "metrics" -> stream(exchange, job);
      case "model" -> model(exchange, job, path.length > 3 ? path[3] : null);
      default -> throw missing("no such path");
    }
  }

  private static void allow(String method, String... allowed) {
    if (!List.of(allowed).contains(method)) {
      throw new Refusal(405, "METHOD_NOT_ALLOWED", method + " is not allowed here: use " + String.join(" or ", allowed));
    }
  }

  private static Refusal missing(String message) {
    return new Refusal(404, "NOT_FOUND", message);
  }

  private static String body(HttpExchange exchange) throws IOException {
    byte[] bytes = exchange.getRequestBody().readNBytes(LARGEST_BODY + 1);
    if (bytes.length > LARGEST_BODY) throw new Refusal(413, "TOO_LARGE", "a body has at most " + LARGEST_BODY + " bytes");
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    } catch (CharacterCodingException e) {
      throw Refusal.badRequest("the body is not UTF-8");
    }
  }

  private Map<String, Object> post(String body) throws IOException {
    synchronized (jobs) {
      Job job = Job.parse(root, body, arrivals, allowed);
      if (jobs.containsKey(job.name)) throw new Refusal(409, "CONFLICT", "there is a job " + job.name + " already");
      try {
        Files.createDirectories(job.folder);
        job.write();
      } catch (IOException e) {
        Folders.delete(job.folder);
        throw new Refusal(507, "DISK_FULL", "the job cannot be written: " + e.getMessage());
      }
      ++arrivals;
      jobs.put(job.name, job);
      worker.add(job);
      return Map.of("name", job.name, "state", Job.State.QUEUED.toString());
    }
  }

  private List<Object> views() {
    synchronized (jobs) {
      List<Object> views = new ArrayList<>();
      jobs.values().stream().sorted(Comparator.comparingLong(job -> job.order)).forEach(job -> views.add(job.view()));
      return views;
    }
  }

  private Job find(String name) {
    synchronized (jobs) {
      Job job = jobs.get(name);
      if (job == null) throw missing("no job of this name");
      return job;
    }
  }

  private static void answer(HttpExchange exchange, int status, Object value) throws IOException {
    byte[] body = Json.write(value).getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(status, body.length);
    exchange.getResponseBody().write(body);
  }

  /** Sends the existing rows, and further rows until the job has ended. */
  private static void stream(HttpExchange exchange, Job job) throws IOException {
    exchange.getResponseHeaders().set("Content-Type", "application/x-ndjson");
    exchange.sendResponseHeaders(200, 0);
    OutputStream out = exchange.getResponseBody();
    long sent = 0;
    while (true) {
      boolean ended = job.state().ended(); // checked first, so that the last rows are not missed
      if (job.keepsRows() && Files.exists(job.metrics())) {
        byte[] more = linesAfter(job.metrics(), sent);
        out.write(more);
        out.flush();
        sent += more.length;
      }
      if (ended) return;
      try {
        job.await();
      } catch (InterruptedException e) {
        return;
      }
    }
  }

  /** Returns the complete lines of a file from a position on. */
  private static byte[] linesAfter(Path file, long position) throws IOException {
    try (InputStream in = Files.newInputStream(file)) {
      in.skipNBytes(position);
      byte[] bytes = in.readAllBytes();
      int end = bytes.length;
      while (end > 0 && bytes[end - 1] != '\n') --end;
      return Arrays.copyOf(bytes, end);
    }
  }

  /**
   * Sends the names of the model's files, or the bytes of one file. Opens only names that the folder
   * contains.
   */
  private static void model(HttpExchange exchange, Job job, String name) throws IOException {
    if (job.state() != Job.State.DONE) throw new Refusal(409, "CONFLICT", "the job is not done: " + job.state());
    List<Map<String, Object>> files = new ArrayList<>();
    for (Path file : Folders.list(job.folder.resolve("model"))) {
      String known = file.getFileName().toString();
      if (known.equals(name)) {
        exchange.getResponseHeaders().set("Content-Type", "application/octet-stream");
        exchange.sendResponseHeaders(200, Files.size(file));
        Files.copy(file, exchange.getResponseBody());
        return;
      }
      files.add(Map.of("name", known, "bytes", Files.size(file)));
    }
    if (name != null) throw missing("the model has no such file");
    answer(exchange, 200, Map.of("files", files));
  }
}
