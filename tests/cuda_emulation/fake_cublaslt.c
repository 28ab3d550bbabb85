// A cuBLASLt that can be opened and computes nothing. HAWSER_CUBLASLT_VERSION is its version.
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))
#define SUCCEEDS(name) \
  EXPORTED int cublasLt##name(void) { return 0; }

EXPORTED size_t cublasLtGetVersion(void) { return HAWSER_CUBLASLT_VERSION; }
EXPORTED const char* cublasLtGetStatusName(int status) { return (void)status, "a status"; }

SUCCEEDS(Create)
SUCCEEDS(Destroy)
SUCCEEDS(MatmulDescCreate)
SUCCEEDS(MatmulDescDestroy)
SUCCEEDS(MatmulDescSetAttribute)
SUCCEEDS(MatrixLayoutCreate)
SUCCEEDS(MatrixLayoutDestroy)
SUCCEEDS(MatmulPreferenceCreate)
SUCCEEDS(MatmulPreferenceDestroy)
SUCCEEDS(MatmulPreferenceSetAttribute)
SUCCEEDS(MatmulAlgoGetHeuristic)
SUCCEEDS(MatmulAlgoCheck)
SUCCEEDS(Matmul)
