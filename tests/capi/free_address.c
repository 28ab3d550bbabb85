/* The kernel chooses a free port of the loopback. */
#define _POSIX_C_SOURCE 200809L
#include "free_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

void free_address(char* text, size_t size) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address;
  socklen_t bytes = sizeof address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(fd >= 0 && bind(fd, (struct sockaddr*)&address, bytes) == 0);
  CHECK(getsockname(fd, (struct sockaddr*)&address, &bytes) == 0);
  close(fd);
  snprintf(text, size, "127.0.0.1:%d", ntohs(address.sin_port));
}
