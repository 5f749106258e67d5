#include "tools/cli/clusters.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/printable.h"
#include "tools/cli/json.h"

namespace stria::cli {
namespace {

// Throws a Json::exception for anything else, negative numbers included.
uint64_t Unsigned(const Json& j) { return j.get_ref<const Json::number_unsigned_t&>(); }

}  // namespace

Result<std::vector<std::vector<EventCluster>>> ParseClusters(const std::string& text, size_t paths) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Error bad(FsError::kCorrupt, "stria.clusters did not say where the events are");
  if (!json.is_array() || json.size() != paths) return bad;
  std::vector<std::vector<EventCluster>> files;
  try {
    for (const Json& file : json) {
      files.emplace_back();
      for (const Json& c : file.at("clusters")) {
        EventCluster cluster{Unsigned(c.at(0)), Unsigned(c.at(1)), {}};
        for (const Json& r : c.at(2)) cluster.ranges.emplace_back(Unsigned(r.at(0)), Unsigned(r.at(1)));
        if (cluster.begin >= cluster.end) return bad;
        files.back().push_back(std::move(cluster));
      }
    }
  } catch (const Json::exception&) {
    return bad;
  }
  return files;
}

Result<std::vector<std::vector<EventCluster>>> AskClusters(const std::vector<std::string>& paths,
                                                           const std::string& tree) {
  std::string list = (std::filesystem::temp_directory_path() / "stria-paths.XXXXXX").string();
  const int fd = mkstemp(list.data());
  if (fd < 0) return ErrnoError(errno, list);
  close(fd);
  std::ofstream(list) << DumpLine(Json(paths));
  const char* python = std::getenv("STRIA_PYTHON");
  std::string command = ShellQuoted(python != nullptr ? python : "python3") + " -m stria.clusters --paths " + ShellQuoted(list);
  if (!tree.empty()) command += " --tree " + ShellQuoted(tree);
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char part[65536];
  for (size_t n = 0; pipe != nullptr && (n = fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, n);
  const int status = pipe == nullptr ? -1 : pclose(pipe);
  unlink(list.c_str());
  if (status != 0) {
    return Error(FsError::kNotSupported,
                 "Python could not read where the events of these files are (see above): "
                 "pip install 'tools/python[root]', or name an interpreter that has it with STRIA_PYTHON");
  }
  return ParseClusters(text, paths.size());
}

}  // namespace stria::cli
