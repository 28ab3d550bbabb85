/* hws_config_* and hws_plan_*. */
#include <string.h>

#include "check.h"
#include "tiny.h"

static void parse_and_serialize(void) {
  hws_config* config = tiny_config();
  hws_buffer* out = NULL;
  CHECK_OK(hws_config_serialize(config, HWS_FORMAT_JSON, &out));
  const char* json = check_text(out);
  CHECK_OK(hws_config_serialize(config, HWS_FORMAT_BINARY, &out));
  hws_config* again = NULL;
  CHECK_OK(hws_config_parse(hws_buffer_data(out), hws_buffer_size(out), HWS_FORMAT_BINARY, &again));
  hws_buffer_destroy(out);
  CHECK_OK(hws_config_serialize(again, HWS_FORMAT_JSON, &out));
  CHECK(strcmp(check_text(out), json) == 0);
  CHECK_OK(hws_config_serialize(config, HWS_FORMAT_RESOLVED, &out));
  CHECK(strstr(check_text(out), "\"beta1\"") != NULL); /* nobody set it */
  CHECK_ERROR(hws_config_serialize(config, HWS_FORMAT_TEXT, &out), HWS_INVALID_ARGUMENT, "format");
  CHECK_ERROR(hws_config_parse("{", 1, HWS_FORMAT_JSON, &again), HWS_CONFIG_PARSE, "");
  CHECK_ERROR(hws_config_parse("{\"modle\":{}}", 12, HWS_FORMAT_JSON, &again), HWS_CONFIG_INVALID, "model");
  CHECK(again == NULL);
  CHECK_ERROR(hws_config_parse("{}", 2, HWS_FORMAT_TEXT, &again), HWS_INVALID_ARGUMENT, "format");
  CHECK_ERROR(hws_config_parse("{}", (size_t)-1, HWS_FORMAT_JSON, &again), HWS_INVALID_ARGUMENT, "size");
  CHECK_ERROR(hws_config_parse(NULL, 2, HWS_FORMAT_JSON, &again), HWS_INVALID_ARGUMENT, "data");
  hws_config_destroy(config);
}

static void set_and_explain(void) {
  hws_config* config = tiny_config();
  hws_config* clone = NULL;
  hws_buffer* out = NULL;
  CHECK_OK(hws_config_clone(config, &clone));
  CHECK_OK(hws_config_set(config, "/model/layers", "3"));
  CHECK_OK(hws_config_set(config, "/precision", "bf16"));
  CHECK_ERROR(hws_config_set(config, "/model/layrs", "3"), HWS_CONFIG_INVALID, "layers");
  CHECK_ERROR(hws_config_set(config, "/model/layers", "\xff"), HWS_INVALID_ARGUMENT, "json_value");
  CHECK_OK(hws_config_explain(config, "/model/layers", &out));
  const char* text = check_text(out);
  CHECK(strstr(text, "3") != NULL && strstr(text, "set") != NULL);
  CHECK_OK(hws_config_explain(clone, "/model/layers", &out));
  CHECK(strstr(check_text(out), "file") != NULL);
  CHECK_OK(hws_config_explain(config, "", &out));
  CHECK(strstr(check_text(out), "/optimizer/beta1") != NULL);
  CHECK_ERROR(hws_config_explain(config, "/nonsense", &out), HWS_NOT_FOUND, "nonsense");
  hws_config_destroy(clone);
  hws_config_destroy(config);
}

static void fit_ranks(void) {
  hws_config* config = tiny_config();
  hws_config* fitted = NULL;
  hws_buffer* out = NULL;
  CHECK_OK(hws_config_set(config, "/mesh/dp_shard", "3"));
  CHECK_OK(hws_config_set(config, "/zero/stage", "3"));
  CHECK_OK(hws_config_set(config, "/batch", "{\"micro_batch\":2,\"global_batch\":12}"));
  CHECK_OK(hws_config_fit_ranks(config, 4, &fitted));
  CHECK_OK(hws_config_explain(fitted, "/batch/grad_accum_steps", &out));
  CHECK(strstr(check_text(out), "3") != NULL); /* rows of one: three are no multiple of two */
  CHECK_OK(hws_config_explain(fitted, "/batch/global_batch", &out));
  CHECK(strstr(check_text(out), "12") != NULL);
  hws_config_destroy(fitted);
  CHECK_OK(hws_config_fit_ranks(config, 1, &fitted));
  CHECK_OK(hws_config_validate(fitted, &out));
  CHECK(strcmp(check_text(out), "[]") == 0);
  hws_config_destroy(fitted);
  CHECK_ERROR(hws_config_fit_ranks(config, 5, &fitted), HWS_CONFIG_INVALID, "4 or 6 ranks");
  CHECK(fitted == NULL);
  CHECK_ERROR(hws_config_fit_ranks(config, 0, &fitted), HWS_INVALID_ARGUMENT, "ranks");
  /* Replicas go on to send gradients as before; one rank sends none. */
  CHECK_OK(hws_config_set(config, "/mesh", "{\"dp_replicate\":3}"));
  CHECK_OK(hws_config_set(config, "/zero", "{\"quantized_gradients\":\"int8\"}"));
  CHECK_OK(hws_config_fit_ranks(config, 2, &fitted));
  CHECK_OK(hws_config_explain(fitted, "/zero/quantized_gradients", &out));
  CHECK(strstr(check_text(out), "\"value\": \"int8\"") != NULL);
  hws_config_destroy(fitted);
  CHECK_OK(hws_config_fit_ranks(config, 1, &fitted));
  CHECK_OK(hws_config_explain(fitted, "/zero/quantized_gradients", &out));
  CHECK(strstr(check_text(out), "\"value\": \"off\"") != NULL);
  hws_config_destroy(fitted);
  hws_config_destroy(config);
}

static void prove_layout(void) {
  hws_config* config = tiny_config();
  hws_buffer* out = NULL;
  CHECK_ERROR(hws_config_prove_layout(config, 2, &out), HWS_CONFIG_INVALID, "one rank");
  CHECK_OK(hws_config_set(config, "/mesh/dp_shard", "3"));
  CHECK_OK(hws_config_set(config, "/zero/stage", "3"));
  CHECK_OK(hws_config_prove_layout(config, 2, &out));
  CHECK(strstr(check_text(out), "\"equal\":true") != NULL);
  CHECK_ERROR(hws_config_prove_layout(config, 0, &out), HWS_INVALID_ARGUMENT, "steps");
  hws_config_destroy(config);
}

static void validate(void) {
  hws_config* config = tiny_config();
  hws_buffer* out = NULL;
  CHECK_OK(hws_config_validate(config, &out));
  CHECK(strcmp(check_text(out), "[]") == 0);
  CHECK_OK(hws_config_set(config, "/model/vocab_size", "256"));
  CHECK_OK(
      hws_config_set(config, "/data", "{\"format\":\"text\",\"vocabulary\":\"bytes\",\"path\":\"/no/x\"}"));
  CHECK_OK(hws_config_validate(config, &out));
  const char* problems = check_text(out);
  CHECK(strstr(problems, "/no/x") != NULL && strstr(problems, "\"/data") != NULL);
  CHECK_OK(hws_config_set(config, "/model/heads", "5"));
  CHECK_OK(hws_config_validate(config, &out));
  CHECK(strstr(check_text(out), "/model/heads") != NULL);
  hws_engine* engine = NULL;
  CHECK_ERROR(hws_engine_create(config, 0, &engine), HWS_CONFIG_INVALID, "/model/heads");
  CHECK(engine == NULL);
  CHECK_OK(hws_config_set(config, "/init/from", "\"/nonexistent/model\""));
  CHECK_OK(hws_config_validate(config, &out));
  CHECK(strstr(check_text(out), "/nonexistent/model") != NULL);
  hws_config_destroy(config);
}

static void presets_and_schema(void) {
  hws_buffer* out = NULL;
  CHECK_OK(hws_config_presets(&out));
  CHECK(strstr(check_text(out), "\"gpt2-124m\"") != NULL);
  hws_config* config = NULL;
  CHECK_OK(hws_config_preset("gpt2-124m", &config));
  CHECK_OK(hws_config_serialize(config, HWS_FORMAT_JSON, &out));
  CHECK(strstr(check_text(out), "768") != NULL);
  hws_config_destroy(config);
  CHECK_OK(hws_config_schema(HWS_FORMAT_JSON, &out));
  CHECK(strstr(check_text(out), "2020-12") != NULL);
  CHECK_OK(hws_config_schema(HWS_FORMAT_BINARY, &out));
  CHECK(hws_buffer_size(out) > 8 && memcmp((const char*)hws_buffer_data(out) + 4, "BFBS", 4) == 0);
  hws_buffer_destroy(out);
  CHECK_ERROR(hws_config_schema(7, &out), HWS_INVALID_ARGUMENT, "format");
  CHECK_ERROR(hws_config_from_model("/nonexistent", &config), HWS_NOT_FOUND, "/nonexistent");
}

static void plan(void) {
  hws_config* config = tiny_config();
  hws_plan* made = NULL;
  hws_buffer* out = NULL;
  CHECK_OK(hws_plan_create(config, &made));
  hws_config_destroy(config);
  CHECK_OK(hws_plan_report(made, HWS_FORMAT_TEXT, &out));
  CHECK(strstr(check_text(out), "OPTIMIZER_STEP") != NULL);
  CHECK_OK(hws_plan_report(made, HWS_FORMAT_JSON, &out));
  const char* json = check_text(out);
  CHECK(strstr(json, "\"instructions\"") != NULL && strstr(json, "\"total_bytes\"") != NULL);
  CHECK_ERROR(hws_plan_report(made, HWS_FORMAT_BINARY, &out), HWS_INVALID_ARGUMENT, "format");
  hws_plan_destroy(made);
  CHECK_ERROR(hws_plan_report(made, HWS_FORMAT_JSON, &out), HWS_BAD_HANDLE, "destroyed");
  CHECK(out == NULL);
}

/* A plan for GPUs that are not here, and what is wrong with a cluster, all at once. */
static void plan_on(void) {
  hws_config* config = tiny_config();
  hws_plan* made = NULL;
  hws_buffer* out = NULL;
  CHECK_OK(hws_plan_create_on(config, "h100-80", 1e9, 1, &made));
  CHECK_OK(hws_plan_report(made, HWS_FORMAT_JSON, &out));
  const char* json = check_text(out);
  CHECK(strstr(json, "\"foretold\"") != NULL && strstr(json, "\"days\"") != NULL);
  CHECK_OK(hws_plan_report(made, HWS_FORMAT_TEXT, &out));
  CHECK(strstr(check_text(out), "MFU") != NULL);
  CHECK_OK(hws_plan_trace(made, HWS_FORMAT_JSON, &out));
  CHECK(strstr(check_text(out), "\"traceEvents\"") != NULL);
  CHECK_OK(hws_plan_trace(made, HWS_FORMAT_SVG, &out));
  CHECK(strncmp(check_text(out), "<svg", 4) == 0);
  CHECK_OK(hws_plan_trace(made, HWS_FORMAT_TEXT, &out));
  CHECK(strstr(check_text(out), "a predicted step of 1 rank of H100") != NULL);
  CHECK_ERROR(hws_plan_trace(made, HWS_FORMAT_BINARY, &out), HWS_INVALID_ARGUMENT, "HWS_FORMAT_SVG");
  hws_plan_destroy(made);
  CHECK_OK(hws_plan_create(config, &made));
  CHECK_ERROR(hws_plan_trace(made, HWS_FORMAT_SVG, &out), HWS_FAILED_PRECONDITION, "hws_plan_create_on");
  hws_plan_destroy(made);
  CHECK_ERROR(hws_plan_create_on(config, "h100-80", 0, 0.5, &made), HWS_INVALID_ARGUMENT,
              "`imbalance` is 0.5");
  CHECK_ERROR(hws_plan_create_on(config, "h100-80", 0, 1.5, &made), HWS_INVALID_ARGUMENT, "no experts");
  CHECK_ERROR(hws_plan_create_on(config, "h100", 0, 1, &made), HWS_NOT_FOUND, "h100-80");
  CHECK(made == NULL);
  CHECK_ERROR(hws_plan_create_on(config, "{\"name\": 3}", 0, 1, &made), HWS_INVALID_ARGUMENT,
              "/device: is missing");
  CHECK_ERROR(hws_plan_create_on(config, "{\"name\": 3}", 0, 1, &made), HWS_INVALID_ARGUMENT, "/name: is");
  hws_config_destroy(config);
}

/* The fastest layouts of four GPUs that are not here, and a number of them that no mesh has. */
static void plan_search(void) {
  hws_config* config = tiny_config();
  hws_plan* found = NULL;
  hws_buffer* out = NULL;
  CHECK_OK(hws_plan_search(config, "h100-80", 1, 3, 1, &found));
  CHECK_OK(hws_plan_report(found, HWS_FORMAT_JSON, &out));
  const char* json = check_text(out);
  CHECK(strstr(json, "\"layouts\"") != NULL && strstr(json, "\"fields\"") != NULL);
  CHECK_OK(hws_plan_report(found, HWS_FORMAT_TEXT, &out));
  CHECK(strstr(check_text(out), "layouts were considered") != NULL);
  hws_plan_destroy(found);
  CHECK_ERROR(hws_plan_search(config, "h100", 1, 3, 1, &found), HWS_NOT_FOUND, "h100-80");
  CHECK_ERROR(hws_plan_search(config, "h100-80", 1, 0, 1, &found), HWS_INVALID_ARGUMENT, "top");
  CHECK_ERROR(hws_plan_search(config, "h100-80", 1, 3, 0, &found), HWS_INVALID_ARGUMENT, "`imbalance` is 0");
  CHECK_ERROR(hws_plan_search(config, "h100-80", 1, 3, 2, &found), HWS_INVALID_ARGUMENT, "no experts");
  CHECK_ERROR(hws_plan_search(config, "h100-80", 1009, 3, 1, &found), HWS_CONFIG_INVALID, "1009 ranks");
  CHECK(found == NULL);
  hws_config_destroy(config);
}

int main(void) {
  check_begin();
  parse_and_serialize();
  set_and_explain();
  fit_ranks();
  prove_layout();
  validate();
  presets_and_schema();
  plan();
  plan_on();
  plan_search();
  return check_end();
}
