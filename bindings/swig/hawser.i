// The C API for SWIG. Handles are plain integers and no proxy classes are made: each language has typemaps of its own that
// turn statuses into exceptions, buffers into bytes and structs into tuples, and its idiomatic layer is written by hand.
#if defined(SWIGPYTHON)
%module(threads="1") _native
%include <stdint.i>
%include "python.i"
#endif

// What the typemaps take apart or end themselves.
%ignore hws_batch; %ignore hws_step_result; %ignore hws_train_record; %ignore hws_generate_request; %ignore hws_sizes;
%ignore hws_progress; %ignore hws_source_batch; %ignore hws_comm_address; %ignore hws_comm_host;
%ignore DLManagedTensorVersioned;
%ignore hws_buffer_data; %ignore hws_buffer_size; %ignore hws_buffer_destroy;
%ignore hws_error_take; %ignore hws_error_code; %ignore hws_error_message; %ignore hws_error_details;
%ignore hws_error_destroy;

%include "hawser.h"
