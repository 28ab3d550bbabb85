// Link test: links in a model's folder to regular files are followed, as in the Hub's cache; other links are
// refused.
#include <sys/stat.h>

#include <cstring>
#include <functional>

#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_links_test {

/// The Hub's cache has two layouts: links to blobs/ and, since huggingface_hub 2, links from there to a
/// shared store.
TEST(HfFolder, LinksAreFollowedToRegularFiles) {
  for (const bool has_store : {false, true}) {
    SCOPED_TRACE(has_store ? "a shared store" : "blobs");
    const Scratch scratch;
    Case a(config_of("mistral"));
    a.fill({});
    const std::string in = scratch / "hub/models--a--b/snapshots/1",
                      blobs = scratch / "hub/models--a--b/blobs";
    a.write(in, 1);
    const std::string store = scratch / "hub/store";
    for (const std::string& folder : {blobs, store}) std::filesystem::create_directories(folder);
    for (const std::string name : {"config.json", "model.safetensors"}) {
      const std::string etag = std::string(39, name[0]) + "-2";  // may have any form
      std::filesystem::rename(in + "/" + name, (has_store ? store : blobs) + "/" + etag);
      if (has_store) std::filesystem::create_symlink("../../store/" + etag, blobs + "/" + etag);
      std::filesystem::create_symlink("../../blobs/" + etag, in + "/" + name);
    }
    ASSERT_TRUE(is_hf_folder(in));
    a.import(in);
    Case b(config_of("mistral"));
    b.tensors = a.tensors;
    b.write(scratch / "plain", 1);
    b.import(scratch / "plain");
    ASSERT_EQ(a.values.size(), b.values.size());
    for (const auto& [name, values] : a.values)  // by bytes, because some are NaN
      EXPECT_EQ(std::memcmp(values.data(), b.values.at(name).data(), values.size() * sizeof(float)), 0)
          << name;
  }
}

TEST(HfFolder, LinksToOtherThanRegularFilesAreRefused) {
  const auto refusal = [](const std::function<void(const std::string& path)>& make) {
    const Scratch scratch;
    Case a(config_of("mistral"));
    a.fill({});
    a.write(scratch / "in", 1);
    std::filesystem::remove(scratch / "in/model.safetensors");
    make(scratch / "in/model.safetensors");
    const Error error = error_of([&] { a.import(scratch / "in"); });
    EXPECT_NE(error.message().find("model.safetensors"), std::string::npos) << error.message();
    return error.message();
  };
  using std::filesystem::create_symlink;
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(refusal([](const std::string& path) { create_symlink("/dev/zero", path); }), "not a regular file");
  says(refusal([](const std::string& path) { create_symlink("/tmp", path); }), "not a regular file");
  says(refusal([](const std::string& path) { create_symlink("model.safetensors", path); }), "symbolic links");
  says(refusal([](const std::string& path) { create_symlink("nowhere", path); }), "does not exist");
  says(refusal([](const std::string& path) {
         ASSERT_EQ(mkfifo((path + ".fifo").c_str(), 0600), 0);
         create_symlink(path + ".fifo", path);
       }),
       "not a regular file");
}

}  // namespace hf_links_test
}  // namespace hawser::checkpoint::hf
