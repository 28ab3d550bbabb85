#include "tests/comm/tcp_worlds.h"

#include <thread>

#include "engine/comm/rendezvous/socket.h"

namespace hawser::testing {

std::string free_address() {
  const comm::Socket socket = comm::listen_on({"127.0.0.1", "0"});
  return "127.0.0.1:" + std::to_string(comm::listening_port(socket));
}

comm::AddressOptions address_options(const std::string& address, int32_t rank, int32_t world) {
  comm::AddressOptions options;
  options.address = address;
  options.rank = rank;
  options.world_size = world;
  options.host = "127.0.0.1";
  options.timeout_seconds = 30;
  return options;
}

std::vector<std::shared_ptr<comm::Comm>> tcp_world(int32_t ranks) {
  return tcp_world_at(free_address(), ranks);
}

std::vector<std::shared_ptr<comm::Comm>> shared_world(int32_t ranks) {
  return tcp_world_at(free_address(), ranks, true);
}

std::vector<std::shared_ptr<comm::Comm>> tcp_world_at(const std::string& address, int32_t ranks,
                                                      bool shares_memory) {
  std::vector<std::shared_ptr<comm::Comm>> world(static_cast<size_t>(ranks));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        comm::AddressOptions options = address_options(address, r, ranks);
        options.shares_memory = shares_memory;
        world[r] = comm::make_address(options);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
  return world;
}

}  // namespace hawser::testing
