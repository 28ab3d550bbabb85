// The functions hws_plan_*: the exact plan of a config, made without allocating a tensor. Creation also makes
// both reports, so that a plan is immutable and every error of the config comes from its creation.
#include <cmath>

#include "capi/src/buffer.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"
#include "capi/src/trace_form.h"
#include "engine/report/foretold_report.h"
#include "engine/report/plan_report.h"
#include "engine/report/search_report.h"

using namespace hawser::capi;

namespace {

/// The most ranks and the most layouts of a search.
constexpr int64_t kMostRanks = 1048576;
constexpr int32_t kMostLayouts = 1000;

void require_imbalance(const Call& call, double imbalance) {
  if (!(imbalance >= 1) || !std::isfinite(imbalance))
    call.invalid("imbalance", fmt::format("is {}; it must be 1 (balanced experts) or more", imbalance));
}

class PlanObject : public Object {
 public:
  static constexpr HandleType kType = HandleType::kPlan;
  hawser::train::PlanTexts texts;
};

}  // namespace

hws_status hws_plan_create(const hws_config* config, hws_plan** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    auto plan = std::make_unique<PlanObject>();
    const hawser::config::ConfigTree tree = Use<Config>(call, config, Access::kShared)->tree;
    plan->texts.json = hawser::train::plan_report(tree, true);
    plan->texts.text = hawser::train::plan_report(tree, false);
    publish(std::move(plan), out);
  });
}

hws_status hws_plan_create_on(const hws_config* config, const char* cluster, double tokens, double imbalance,
                              hws_plan** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const std::string_view text = call.text(cluster, "cluster", Call::kValueLimit);
    if (!(tokens >= 0) || !std::isfinite(tokens))
      call.invalid("tokens", fmt::format("is {}; it must be 0 (none) or the tokens of a run", tokens));
    require_imbalance(call, imbalance);
    auto plan = std::make_unique<PlanObject>();
    const hawser::config::ConfigTree tree = Use<Config>(call, config, Access::kShared)->tree;
    plan->texts = hawser::train::foretold_plan(tree, text, tokens, imbalance);
    publish(std::move(plan), out);
  });
}

hws_status hws_plan_search(const hws_config* config, const char* cluster, int64_t ranks, int32_t top,
                           double imbalance, hws_plan** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const std::string_view text = call.text(cluster, "cluster", Call::kValueLimit);
    if (ranks < 0 || ranks > kMostRanks)
      call.invalid("ranks", fmt::format("is {}; it must be 0 (the cluster's) to {}", ranks, kMostRanks));
    if (top < 1 || top > kMostLayouts)
      call.invalid("top", fmt::format("is {}; it must be 1 to {}", top, kMostLayouts));
    require_imbalance(call, imbalance);
    auto plan = std::make_unique<PlanObject>();
    const hawser::config::ConfigTree tree = Use<Config>(call, config, Access::kShared)->tree;
    plan->texts = hawser::train::searched_plan(tree, text, ranks, top, imbalance);
    publish(std::move(plan), out);
  });
}

hws_status hws_plan_report(const hws_plan* plan, int32_t format, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<PlanObject> object(call, plan, Access::kShared);
    if (format != HWS_FORMAT_TEXT && format != HWS_FORMAT_JSON) {
      call.invalid("format",
                   fmt::format("is {}; this function takes HWS_FORMAT_TEXT and HWS_FORMAT_JSON", format));
    }
    publish_text(format == HWS_FORMAT_TEXT ? object->texts.text : object->texts.json, out);
  });
}

hws_status hws_plan_trace(const hws_plan* plan, int32_t format, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<PlanObject> object(call, plan, Access::kShared);
    const hawser::train::TraceForm form = trace_form(call, format);
    if (!object->texts.trace)
      hawser::fail(hawser::Code::kFailedPrecondition,
                   "the plan has no predicted step: create the plan with hws_plan_create_on and a cluster; "
                   "after a search, set the fields of one of the layouts first");
    publish_text(object->texts.trace(form), out);
  });
}

void hws_plan_destroy(hws_plan* plan) { destroy_handle(HandleType::kPlan, plan); }
