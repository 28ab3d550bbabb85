// Pipeline rules: refuse contradictions in the pipeline section.
#include <fmt/format.h>

#include <algorithm>

#include "engine/config/rules.h"
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::config {
namespace {

bool has_stages(const Effective& c) { return c.integer("/mesh/pp") > 1; }

/// True if the schedule has a property, such as parallel::pipeline::is_v. False without a valid schedule.
bool schedule_is(const Effective& c, bool (*has_property)(parallel::PipelineSchedule)) {
  if (!c.has("/pipeline/schedule")) return false;
  const auto* row = parallel::pipeline::find_schedule(c.text("/pipeline/schedule"));
  return row != nullptr && has_property(row->schedule);
}

bool is_v(const Effective& c) { return schedule_is(c, parallel::pipeline::is_v); }

/// Returns the model's chunks over all stages.
int64_t chunks(const Effective& c) { return c.integer("/mesh/pp") * chunks_of_rank(c); }

int64_t listed_layers(const Effective& c) {
  int64_t sum = 0;
  for (const Value& item : c.find("/pipeline/layers")->items) sum += item.integer;
  return sum;
}

constexpr Check kPipelineChecks[] = {
    {"/mesh/pp",
     {"/mesh/pp", "/model/tied_head", "/precision"},
     [](const Effective& c) {
       return has_stages(c) && c.flag("/model/tied_head") && c.is("/precision", "bf16_pure");
     },
     "precision \"bf16_pure\" needs a tied head (/model/tied_head) and the embedding on one stage, because "
     "it rounds their gradients in turn",
     "use 1, set /precision to \"bf16\", or /model/tied_head to false"},
    {"/mesh/pp",
     {"/mesh/pp", "/model/ahead", "/precision"},
     [](const Effective& c) {
       return has_stages(c) && c.integer("/model/ahead") > 0 && c.is("/precision", "bf16_pure");
     },
     "precision \"bf16_pure\" needs the embedding and the depths of multi-token prediction "
     "(/model/ahead {/model/ahead}) on one stage, because it rounds their gradients in turn",
     "use 1, set /precision to \"bf16\", or /model/ahead to 0"},
    {"/mesh/pp",
     {"/mesh/pp", "/pipeline/chunks", "/pipeline/schedule", "/model/layers"},
     [](const Effective& c) { return has_stages(c) && !is_v(c) && chunks(c) > c.integer("/model/layers"); },
     "{/mesh/pp} stages of {/pipeline/chunks} chunks each cannot share {/model/layers} layers: each chunk "
     "needs at least one",
     "use {} or less",
     [](const Effective& c) {
       return fmt::format("{}",
                          std::max<int64_t>(1, c.integer("/model/layers") / c.integer("/pipeline/chunks")));
     }},
    {"/mesh/pp",
     {"/mesh/pp", "/pipeline/schedule", "/model/layers"},
     [](const Effective& c) { return has_stages(c) && is_v(c) && chunks(c) > c.integer("/model/layers"); },
     "{/mesh/pp} stages cannot share {/model/layers} layers: schedule {/pipeline/schedule} gives each two "
     "chunks, which need a layer each",
     "use {} or less, or another schedule",
     [](const Effective& c) {
       return fmt::format("{}", std::max<int64_t>(1, c.integer("/model/layers") / 2));
     }},
    {"/pipeline/schedule",
     {"/mesh/pp", "/pipeline/schedule", "/batch/grad_accum_steps"},
     [](const Effective& c) {
       return has_stages(c) && is_v(c) && c.integer("/batch/grad_accum_steps") < 2 * c.integer("/mesh/pp");
     },
     "schedule {/pipeline/schedule} needs two micro-batches for each of {/mesh/pp} stages; "
     "/batch/grad_accum_steps is {/batch/grad_accum_steps}",
     "set /batch/grad_accum_steps to {} or more, or use \"zb_h1\"",
     [](const Effective& c) { return fmt::format("{}", 2 * c.integer("/mesh/pp")); }},
    {"/pipeline/chunks",
     {"/pipeline/chunks", "/pipeline/schedule"},
     [](const Effective& c) {
       return is_v(c) && c.is_given("/pipeline/chunks") && c.integer("/pipeline/chunks") != 2;
     },
     "schedule {/pipeline/schedule} has exactly 2 chunks on each rank",
     "use 2, or leave it out"},
    {"/pipeline/chunks",
     {"/mesh/pp", "/pipeline/chunks", "/pipeline/schedule"},
     [](const Effective& c) {
       return has_stages(c) && schedule_is(c, parallel::pipeline::has_configured_chunks) &&
              c.integer("/pipeline/chunks") < 2;
     },
     "schedule {/pipeline/schedule} needs at least 2 chunks on each rank, and there is 1",
     "use 2 or more, or set /pipeline/schedule to \"1f1b\""},
    {"/pipeline/group",
     {"/mesh/pp", "/pipeline/group", "/batch/grad_accum_steps"},
     [](const Effective& c) {
       const int64_t group = c.integer("/pipeline/group");
       return has_stages(c) &&
              (group < c.integer("/mesh/pp") ||
               group > std::max(c.integer("/mesh/pp"), c.integer("/batch/grad_accum_steps")));
     },
     "group {/pipeline/group} is outside mesh.pp {/mesh/pp} to batch.grad_accum_steps "
     "{/batch/grad_accum_steps}",
     "use {}",
     [](const Effective& c) {
       return fmt::format("{}", c.integer("/pipeline/group") < c.integer("/mesh/pp")
                                    ? c.integer("/mesh/pp")
                                    : std::max(c.integer("/mesh/pp"), c.integer("/batch/grad_accum_steps")));
     }},
    {"/pipeline/layers",
     {"/mesh/pp", "/pipeline/chunks", "/pipeline/layers"},
     [](const Effective& c) {
       return has_stages(c) && std::ssize(c.find("/pipeline/layers")->items) != chunks(c);
     },
     "{/pipeline/layers} does not have a number for each of {/mesh/pp} stages x {/pipeline/chunks} chunks",
     "give {} numbers",
     [](const Effective& c) { return fmt::format("{}", chunks(c)); }},
    {"/pipeline/layers",
     {"/mesh/pp", "/pipeline/layers", "/model/layers"},
     [](const Effective& c) { return has_stages(c) && listed_layers(c) != c.integer("/model/layers"); },
     "{/pipeline/layers} must add up to the {/model/layers} layers of the model",
     "their sum is {}: change it, or leave the list out",
     [](const Effective& c) { return fmt::format("{}", listed_layers(c)); }},
    {"/pipeline/layers",
     {"/mesh/pp", "/pipeline/layers"},
     [](const Effective& c) {
       const std::vector<Value>& items = c.find("/pipeline/layers")->items;
       return has_stages(c) &&
              std::any_of(items.begin(), items.end(), [](const Value& v) { return v.integer < 1; });
     },
     "{/pipeline/layers} has a chunk without a layer",
     "give each 1 or more"},
};

}  // namespace

int64_t chunks_of_rank(const Effective& c) { return is_v(c) ? 2 : c.integer("/pipeline/chunks"); }

std::span<const Check> pipeline_checks() { return kPipelineChecks; }

}  // namespace hawser::config
