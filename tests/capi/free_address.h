/* free_address: an address at which the ranks of a test connect. */
#ifndef HAWSER_TESTS_CAPI_FREE_ADDRESS_H
#define HAWSER_TESTS_CAPI_FREE_ADDRESS_H

#include <stddef.h>

/* Writes "127.0.0.1:PORT" with a port on which nothing listens now. */
void free_address(char* text, size_t size);

#endif
