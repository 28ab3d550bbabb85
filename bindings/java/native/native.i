// Defines the module org.hawser.Native: hawser.h as static methods, for the package's own use. java.i
// converts arguments and results.
%module Native
%{
#include <stdlib.h>
#include <string.h>
#include "support.h"
%}
%include <stdint.i>
%include "java.i"

// java.i and the other files of this folder convert errors, buffers, callbacks and structs.
%ignore hws_error_take; %ignore hws_error_code; %ignore hws_error_message; %ignore hws_error_details;
%ignore hws_error_destroy; %ignore hws_buffer_data; %ignore hws_buffer_size; %ignore hws_buffer_destroy;
%ignore hws_thread_set_interrupt;
%ignore hws_batch; %ignore hws_source_batch; %ignore hws_step_result; %ignore hws_train_record; %ignore hws_sizes;
%ignore hws_progress; %ignore hws_generate_request; %ignore hws_comm_address; %ignore hws_comm_host;
%ignore hws_data_push; %ignore hws_engine_eval; %ignore hws_engine_forward; %ignore hws_engine_logprobs; %ignore hws_engine_top_logprobs; %ignore hws_engine_backward_with;
%ignore hws_engine_generate;
%ignore hws_comm_create_address; %ignore hws_comm_create_env; %ignore hws_comm_create_host;
%ignore hws_op_progress; %ignore hws_tensor_view;
%ignore hws_config_destroy; %ignore hws_plan_destroy; %ignore hws_comm_destroy; %ignore hws_engine_destroy;
%ignore hws_op_destroy; %ignore hws_tokenizer_destroy;
// Java defines the constants as enums, which a test compares with the header.
%rename("$ignore", %$isconstant) "";

%include "hawser.h"
%include "structs.i"
