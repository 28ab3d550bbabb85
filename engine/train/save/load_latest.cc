// Going on from the newest checkpoint of a folder that is whole. Ranks try together, newest first, so that
// what is passed over is passed over by all, and what is loaded was read once to verify it.
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

OrderedJson damaged_json(const std::vector<checkpoint::Damaged>& damaged) {
  OrderedJson json = OrderedJson::array();
  for (const checkpoint::Damaged& d : damaged) json.push_back({{"name", d.name}, {"problem", d.problem}});
  return json;
}

/// What there is to try in the folder, as text for the other processes.
std::string list(const std::string& folder) {
  std::vector<checkpoint::Damaged> damaged;
  OrderedJson names = OrderedJson::array();
  for (const checkpoint::Candidate& c : checkpoint::candidates(folder, &damaged)) names.push_back(c.name);
  return OrderedJson{{"names", std::move(names)}, {"damaged", damaged_json(damaged)}}.dump();
}

}  // namespace

std::string TrainerImpl::load_latest(const std::string& folder, bool allow_other_data) {
  require_training("hws_checkpoint_load_latest");
  require_pending(false);
  saver_.wait();
  const auto seen = [&] { return first().number() == 0 ? list(folder) : std::string(); };
  const OrderedJson listing = OrderedJson::parse(from_all_processes(seen).front());
  std::vector<checkpoint::Damaged> damaged;
  for (const OrderedJson& d : listing.at("damaged"))
    damaged.push_back({d.at("name").get<std::string>(), d.at("problem").get<std::string>()});
  for (const OrderedJson& entry : listing.at("names")) {
    const std::string name = entry.get<std::string>();
    std::shared_ptr<const checkpoint::Reader> reader;
    try {
      reader = open_the_same(folder + "/" + name, allow_other_data);
    } catch (const Error& error) {
      if (broken_ || !checkpoint::is_damage(error)) throw;
      damaged.push_back({name, error.message()});
      continue;
    }
    take_over(*reader);
    return OrderedJson{{"name", name}, {"step", state_.step}, {"damaged", damaged_json(damaged)}}.dump();
  }
  checkpoint::fail_none_whole(folder, damaged);
}

}  // namespace hawser::train
