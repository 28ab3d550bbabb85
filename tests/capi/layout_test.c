/* Layout test: the structs of hawser.h have the offsets and sizes of version 1 of the ABI, on which programs
 * rely that were built with any version of the header. A new field adds a line; no line is ever changed. */
#include <stddef.h>

#include "check.h"

#define FIELD(type, field, at, bytes) \
  CHECK(offsetof(type, field) == (at)), CHECK(sizeof(((type*)0)->field) == (bytes))

static void results(void) {
  FIELD(hws_step_result, struct_size, 0, 4);
  FIELD(hws_step_result, outcome, 4, 4);
  FIELD(hws_step_result, step, 8, 8);
  FIELD(hws_step_result, loss, 16, 8);
  FIELD(hws_step_result, grad_norm, 24, 8);
  FIELD(hws_step_result, learning_rate, 32, 8);
  FIELD(hws_step_result, tokens, 40, 8);
  FIELD(hws_step_result, samples, 48, 8);
  FIELD(hws_step_result, skipped, 56, 8);
  FIELD(hws_step_result, seconds, 64, 8);
  CHECK(sizeof(hws_step_result) == 72);
  FIELD(hws_train_record, struct_size, 0, 4);
  FIELD(hws_train_record, outcome, 4, 4);
  FIELD(hws_train_record, step, 8, 8);
  FIELD(hws_train_record, loss, 16, 8);
  FIELD(hws_train_record, grad_norm, 24, 8);
  FIELD(hws_train_record, learning_rate, 32, 8);
  FIELD(hws_train_record, tokens, 40, 8);
  FIELD(hws_train_record, samples, 48, 8);
  FIELD(hws_train_record, skipped, 56, 8);
  FIELD(hws_train_record, seconds, 64, 8);
  FIELD(hws_train_record, validation_loss, 72, 8);
  FIELD(hws_train_record, tokens_per_second, 80, 8);
  FIELD(hws_train_record, total_steps, 88, 8);
  FIELD(hws_train_record, saved, 96, 4);
  FIELD(hws_train_record, best, 100, 4);
  FIELD(hws_train_record, communication_bytes, 104, 8);
  FIELD(hws_train_record, save_failures, 112, 8);
  CHECK(sizeof(hws_train_record) == 120);
  FIELD(hws_sizes, struct_size, 0, 4);
  FIELD(hws_sizes, reserved, 4, 4);
  FIELD(hws_sizes, vocab_size, 8, 8);
  FIELD(hws_sizes, sequence, 16, 8);
  FIELD(hws_sizes, global_batch, 24, 8);
  FIELD(hws_sizes, outputs, 32, 8);
  CHECK(sizeof(hws_sizes) == 40);
  FIELD(hws_progress, struct_size, 0, 4);
  FIELD(hws_progress, phase, 4, 4);
  FIELD(hws_progress, step, 8, 8);
  FIELD(hws_progress, until_step, 16, 8);
  FIELD(hws_progress, total_steps, 24, 8);
  FIELD(hws_progress, samples, 32, 8);
  FIELD(hws_progress, tokens, 40, 8);
  FIELD(hws_progress, skipped, 48, 8);
  FIELD(hws_progress, done, 56, 8);
  FIELD(hws_progress, total, 64, 8);
  FIELD(hws_progress, loss, 72, 8);
  FIELD(hws_progress, grad_norm, 80, 8);
  FIELD(hws_progress, learning_rate, 88, 8);
  FIELD(hws_progress, step_seconds, 96, 8);
  FIELD(hws_progress, tokens_per_second, 104, 8);
  FIELD(hws_progress, validation_loss, 112, 8);
  FIELD(hws_progress, running_seconds, 120, 8);
  FIELD(hws_progress, save_failures, 128, 8);
  FIELD(hws_progress, saving, 136, 4);
  FIELD(hws_progress, reserved, 140, 4);
  CHECK(sizeof(hws_progress) == 144);
}

/* Checks structs with pointers, on 64-bit machines. */
static void arguments(void) {
  if (sizeof(void*) != 8) return;
  FIELD(hws_batch, struct_size, 0, 4);
  FIELD(hws_batch, reserved, 4, 4);
  FIELD(hws_batch, rows, 8, 8);
  FIELD(hws_batch, cols, 16, 8);
  FIELD(hws_batch, tokens, 24, 8);
  FIELD(hws_batch, targets, 32, 8);
  FIELD(hws_batch, document_begin, 40, 8);
  FIELD(hws_batch, weights, 48, 8);
  FIELD(hws_batch, references, 56, 8);
  FIELD(hws_batch, teacher_top, 64, 8);
  FIELD(hws_batch, teacher_ids, 72, 8);
  FIELD(hws_batch, teacher_logprobs, 80, 8);
  CHECK(sizeof(hws_batch) == 88);
  FIELD(hws_source_batch, struct_size, 0, 4);
  FIELD(hws_source_batch, has_documents, 4, 4);
  FIELD(hws_source_batch, step, 8, 8);
  FIELD(hws_source_batch, samples, 16, 8);
  FIELD(hws_source_batch, rows, 24, 8);
  FIELD(hws_source_batch, cols, 32, 8);
  FIELD(hws_source_batch, tokens, 40, 8);
  FIELD(hws_source_batch, targets, 48, 8);
  FIELD(hws_source_batch, document_begin, 56, 8);
  FIELD(hws_source_batch, weights, 64, 8);
  FIELD(hws_source_batch, has_weights, 72, 4);
  FIELD(hws_source_batch, reserved, 76, 4);
  CHECK(sizeof(hws_source_batch) == 80);
}

static void requests(void) {
  if (sizeof(void*) != 8) return;
  FIELD(hws_generate_request, struct_size, 0, 4);
  FIELD(hws_generate_request, stop_token, 4, 4);
  FIELD(hws_generate_request, prompt, 8, 8);
  FIELD(hws_generate_request, prompt_length, 16, 8);
  FIELD(hws_generate_request, max_tokens, 24, 8);
  FIELD(hws_generate_request, temperature, 32, 8);
  FIELD(hws_generate_request, top_k, 40, 8);
  FIELD(hws_generate_request, top_p, 48, 8);
  FIELD(hws_generate_request, seed, 56, 8);
  FIELD(hws_generate_request, stop_tokens, 64, 8);
  FIELD(hws_generate_request, stop_count, 72, 8);
  CHECK(sizeof(hws_generate_request) == 80);
  FIELD(hws_comm_address, struct_size, 0, 4);
  FIELD(hws_comm_address, rank, 4, 4);
  FIELD(hws_comm_address, world_size, 8, 4);
  FIELD(hws_comm_address, reserved, 12, 4);
  FIELD(hws_comm_address, address, 16, 8);
  FIELD(hws_comm_address, host, 24, 8);
  FIELD(hws_comm_address, network_interface, 32, 8);
  FIELD(hws_comm_address, timeout_seconds, 40, 8);
  FIELD(hws_comm_address, silence_seconds, 48, 8);
  FIELD(hws_comm_address, job, 56, 8);
  FIELD(hws_comm_address, secret_file, 64, 8);
  FIELD(hws_comm_address, secret, 72, 8);
  FIELD(hws_comm_address, secret_user, 80, 8);
  FIELD(hws_comm_address, secret_destroy, 88, 8);
  FIELD(hws_comm_address, trust_network, 96, 4);
  FIELD(hws_comm_address, without_shared_memory, 100, 4);
  CHECK(sizeof(hws_comm_address) == 104);
  FIELD(hws_comm_host, struct_size, 0, 4);
  FIELD(hws_comm_host, rank, 4, 4);
  FIELD(hws_comm_host, world_size, 8, 4);
  FIELD(hws_comm_host, reserved, 12, 4);
  FIELD(hws_comm_host, user, 16, 8);
  FIELD(hws_comm_host, send, 24, 8);
  FIELD(hws_comm_host, recv, 32, 8);
  FIELD(hws_comm_host, exchange, 40, 8);
  FIELD(hws_comm_host, abort, 48, 8);
  FIELD(hws_comm_host, message, 56, 8);
  FIELD(hws_comm_host, destroy, 64, 8);
  CHECK(sizeof(hws_comm_host) == 72);
}

int main(void) {
  check_begin();
  results();
  arguments();
  requests();
  return check_end();
}
