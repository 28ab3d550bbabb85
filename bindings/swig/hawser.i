// The C API for SWIG. Handles are plain integers, and SWIG makes no proxy classes. Each language has its own
// typemaps, which turn statuses into exceptions, buffers into bytes and structs into tuples, and its own
// handwritten classes.
#if defined(SWIGPYTHON)
%module(threads="1") _native
%include <stdint.i>
%include "python.i"
#endif

// The typemaps convert these structs, and read and destroy buffers and errors, themselves.
%ignore hws_batch; %ignore hws_step_result; %ignore hws_train_record; %ignore hws_generate_request; %ignore hws_sizes;
%ignore hws_progress; %ignore hws_source_batch; %ignore hws_comm_address; %ignore hws_comm_host;
%ignore DLManagedTensorVersioned;
%ignore hws_buffer_data; %ignore hws_buffer_size; %ignore hws_buffer_destroy;
%ignore hws_error_take; %ignore hws_error_code; %ignore hws_error_message; %ignore hws_error_details;
%ignore hws_error_destroy;

%include "hawser.h"
