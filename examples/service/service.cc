// A training service over HTTP. Clients post, watch and cancel jobs, and download models. Jobs train one
// after the other. After a restart, the service resumes unfinished jobs from their checkpoints.
//   c++ -std=c++20 examples/service/*.cc `pkg-config --cflags --libs hawser cpp-httplib nlohmann_json` -o job
//   ./job DIRECTORY [PORT] [--root FOLDER]
//   curl localhost:PORT/jobs -d '{"name":"one","config":{"preset":"quickstart","data":{"path":"/tmp/text"}}}'
//
//   POST /jobs                    {"name", "config", "checkpoint_every"}
//   GET  /jobs, /jobs/NAME        states
//   GET  /jobs/NAME/metrics       streams one row per step
//   POST /jobs/NAME/cancel
//   GET  /jobs/NAME/model[/FILE]  the trained model, a Hugging Face folder
//
// With --root, configs may name only files below FOLDER. examples/trust.md explains whom the service trusts.
// The service needs cpp-httplib 0.11, the version of Debian 12, because server.cc reads requests itself.
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <regex>
#include <vector>

#include "jobs.h"
#include "server.h"

namespace service {
namespace {

using httplib::Request;
using httplib::Response;

void answer(Response& response, int status, const json& body) {
  response.status = status;
  response.set_content(body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json");
}

void stream_rows(const Jobs& jobs, const std::string& name, Response& response) {
  jobs.get(name);  // refuses an unknown name
  const auto next = [&jobs, name](std::size_t from, httplib::DataSink& sink) {
    const Jobs::NextRows rows = jobs.rows(name, from);
    if (!rows.text.empty()) return sink.write(rows.text.data(), rows.text.size());
    if (rows.ended) sink.done();
    return sink.is_writable();
  };
  response.set_chunked_content_provider("application/x-ndjson", next);
}

void stream_file(const std::filesystem::path& path, Response& response) {
  const auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  const auto next = [file](std::size_t from, std::size_t length, httplib::DataSink& sink) {
    std::string part(std::min<std::size_t>(length, 1 << 20), '\0');
    file->seekg(static_cast<std::streamoff>(from));
    return file->read(part.data(), static_cast<std::streamsize>(part.size())) &&
           sink.write(part.data(), part.size());
  };
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  response.set_content_provider(bytes, "application/octet-stream", next);
}

struct Route {
  std::string method;
  std::regex path;
  std::function<void(const Request&, const std::smatch&, Response&)> handle;
};

std::vector<Route> routes(Jobs* jobs) {
  const auto on = [](const char* method, const char* path, auto handle) {
    return Route{method, std::regex(path), handle};
  };
  return {
      on("POST", "/jobs",
         [=](auto& request, auto&, auto& response) { answer(response, 201, jobs->add(request.body)); }),
      on("GET", "/jobs", [=](auto&, auto&, auto& response) { answer(response, 200, jobs->list()); }),
      on("GET", "/jobs/([^/]+)",
         [=](auto&, auto& at, auto& response) { answer(response, 200, jobs->get(at[1])); }),
      on("POST", "/jobs/([^/]+)/cancel",
         [=](auto&, auto& at, auto& response) { answer(response, 202, jobs->cancel(at[1])); }),
      on("GET", "/jobs/([^/]+)/metrics",
         [=](auto&, auto& at, auto& response) { stream_rows(*jobs, at[1], response); }),
      on("GET", "/jobs/([^/]+)/model",
         [=](auto&, auto& at, auto& response) { answer(response, 200, jobs->model(at[1])); }),
      on("GET", "/jobs/([^/]+)/model/([^/]+)",
         [=](auto&, auto& at, auto& response) { stream_file(jobs->model_file(at[1], at[2]), response); }),
  };
}

void dispatch(const std::vector<Route>& routes, const Request& request, Response& response) {
  Server::request_has_arrived();
  bool known = false;
  try {
    for (const Route& route : routes) {
      std::smatch at;
      if (!std::regex_match(request.path, at, route.path)) continue;
      known = true;
      if (route.method == request.method) return route.handle(request, at, response);
    }
    if (known) throw Refused(405, "METHOD_NOT_ALLOWED", request.path + " does not take " + request.method);
    throw Refused(404, "NOT_FOUND", "there is no " + request.path);
  } catch (const Refused& refused) {
    answer(response, refused.status, {{"error", refused.body}});
  } catch (const hawser::Io& error) {
    answer(response, 507, {{"error", error_json(error)}});
  } catch (const std::exception& error) {
    answer(response, 500, {{"error", error_json("INTERNAL", error.what())}});
  }
}

/// A server that answers requests about `jobs`.
void set_up(Server* server, Jobs* jobs) {
  const auto handle = [table = routes(jobs)](const Request& request, Response& response) {
    dispatch(table, request, response);
  };
  server->Post("/jobs", handle);
  server->set_pre_routing_handler(
      [=](const Request& request, Response& response) {  // no other request has a body
        if (request.method == "POST" && request.path == "/jobs") return Server::HandlerResponse::Unhandled;
        handle(request, response);
        return Server::HandlerResponse::Handled;
      });
  server->set_error_handler(
      [](const Request&, Response& response) {  // for requests that the server itself refuses
        if (!response.body.empty()) return;
        const char* why = response.status == 413 ? "the body is larger than 1 MB" : "this is no request";
        answer(response, response.status, {{"error", error_json("BAD_REQUEST", why)}});
      });
  server->set_payload_max_length(1 << 20);
  server->set_keep_alive_max_count(1);
  server->new_task_queue = [] {
    return new httplib::ThreadPool(128);
  };  // each metrics stream occupies a thread
}

int serve(const std::string& folder, int port, const std::string& root) {
  sigset_t signals;  // blocked in every thread; this thread waits for them
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Jobs jobs(folder, root);
  Server server;
  set_up(&server, &jobs);
  if (port == 0)
    port = server.bind_to_any_port("127.0.0.1");
  else if (!server.bind_to_port("127.0.0.1", port))
    throw std::runtime_error("cannot listen on port " + std::to_string(port));
  std::cout << "listening on http://127.0.0.1:" << port << std::endl;
  std::thread listener([&] { server.listen_after_bind(); });
  int signal = 0;
  sigwait(&signals, &signal);
  jobs.stop();
  server.stop();
  listener.join();
  return 0;
}

}  // namespace
}  // namespace service

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string root;
  try {
    if (const auto at = std::find(words.begin(), words.end(), "--root"); words.end() - at > 1) {
      root = at[1];
      words.erase(at, at + 2);
    }
    if (words.empty() || words.size() > 2 || words[0].starts_with("-"))
      throw std::runtime_error("usage: service DIRECTORY [PORT] [--root FOLDER]");
    return service::serve(words[0], words.size() == 2 ? std::stoi(words[1]) : 0, root);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "service: %s\n", error.what());
    return 1;
  }
}
