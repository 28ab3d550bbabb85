/* Where ranks of a test meet. */
#ifndef HAWSER_TESTS_CAPI_FREE_ADDRESS_H
#define HAWSER_TESTS_CAPI_FREE_ADDRESS_H

#include <stddef.h>

/* Writes "127.0.0.1:PORT" with a port that nobody listens on now. */
void free_address(char* text, size_t size);

#endif
