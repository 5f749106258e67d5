#include "tools/cli/split_text.h"

#include <absl/strings/str_join.h>

#include "common/printable.h"
#include "tools/cli/render.h"

namespace stria::cli {
namespace {

Json ItemJson(const SplitPlan& plan, const SplitPiece& p) {
  if (plan.entries) return {{"path", plan.paths[p.file]}, {"entry_start", p.begin}, {"entry_stop", p.end}};
  return {{"path", plan.paths[p.file]}, {"offset", p.begin}, {"length", p.end - p.begin}};
}

std::string ListOf(const std::string& dir, const HostWork& w) { return dir + "/" + w.host + ".json"; }

constexpr char kSlurmHead[] =
    "#!/bin/bash\n"
    "# One job for each node that has work. Slurm prefers the node that holds the bytes, and takes another one\n"
    "# when it is busy or dead; for that each node has its name as a feature (slurm.conf: NodeName=n1 Feature=n1).\n"
    "#   usage: bash THIS COMMAND [ARGUMENT..]    a job runs  COMMAND ARGUMENT.. LIST\n"
    "#   SBATCH_OPTIONS are passed on; STRIA_STRICT=1 insists on the node\n"
    "set -eu\n"
    "[ $# -gt 0 ] || { sed -n '2,5s/^# //p' \"$0\"; exit 64; }\n"
    "quoted() {  # sbatch runs what it wraps with sh, which does not know all that printf %q writes\n"
    "  local word mark=\"'\" escaped=\"'\\\\''\"\n"
    "  for word; do printf \"'%s' \" \"${word//\"$mark\"/\"$escaped\"}\"; done\n"
    "}\n"
    "command=$(quoted \"$@\"; echo x)\n"
    "command=${command%x}\n"
    "job() {  # NODE LIST\n"
    "  local where=--prefer=$1\n"
    "  [ -z \"${STRIA_STRICT:-}\" ] || where=--nodelist=$1\n"
    "  sbatch --parsable --job-name=\"stria-$1\" \"$where\" ${SBATCH_OPTIONS:-} --wrap=\"$command$(quoted \"$2\")\"\n"
    "}\n";

std::string PromiseComment(const SplitPlan& plan) { return "# promise: " + Promise(plan) + "\n"; }

std::string Slurm(const SplitPlan& plan, const std::string& dir) {
  std::string text = kSlurmHead + PromiseComment(plan);
  for (const HostWork& w : plan.work) {
    if (!w.pieces.empty()) text += "job " + BashQuoted(w.host) + " " + BashQuoted(ListOf(dir, w)) + "\n";
  }
  return text;
}

// Within '..' within "..".
std::string CondorQuoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += (c == '"' || c == '\'' ? std::string(2, c) : std::string(1, c));
  return out;
}

std::string Condor(const SplitPlan& plan, const std::string& dir) {
  std::string text =
      PromiseComment(plan) +
      "# condor_submit THIS executable=/path/of/your/program    a job runs  program LIST\n"
      "arguments = \"'$(list)'\"\n"
      "rank = (TARGET.Machine == \"$(node)\") || regexp(\"^$(node)[.]\", TARGET.Machine)\n"
      "queue node, list from (\n";
  for (const HostWork& w : plan.work) {
    if (!w.pieces.empty()) text += "  " + Printable(w.host) + ", " + CondorQuoted(ListOf(dir, w)) + "\n";
  }
  return text + ")\n";
}

std::string Parallel(const SplitPlan& plan, const std::string& dir) {
  std::string text =
      "#!/bin/bash\n"
      "#   usage: bash THIS COMMAND [ARGUMENT..]    each node runs  COMMAND ARGUMENT.. LIST\n"
      "set -eu\n"
      "[ $# -gt 0 ] || { sed -n '2s/^# //p' \"$0\"; exit 64; }\n" +
      PromiseComment(plan);
  for (const HostWork& w : plan.work) {
    if (w.pieces.empty()) continue;
    text += "parallel --quote -S " + BashQuoted(w.host) + " \"$@\" ::: " + BashQuoted(ListOf(dir, w)) + " &\n";
  }
  return text + "wait\n";
}

// Strings of JSON are strings of Python.
std::string Dask(const SplitPlan& plan) {
  const std::string away = absl::StrJoin(plan.away, ", ", [](std::string* out, const AwayNode& n) { *out += JsonQuoted(n.name); });
  std::string text = "promise = {\"bytes\": " + std::to_string(plan.bytes()) + ", \"local_bytes\": " +
                     std::to_string(plan.local_bytes()) + ", \"remote_bytes\": " + std::to_string(plan.remote_bytes()) +
                     ", \"decoded_bytes\": " + std::to_string(plan.decoded_bytes()) + ", \"away\": [" + away + "]}\n" +
                     "# An idle worker steals work from the node that holds it unless distributed.scheduler.work-stealing is False.\n" +
                     "# (path, " + (plan.entries ? "entry_start, entry_stop" : "offset, end") +
                     ", workers, allow_other_workers)\nwork = [\n";
  for (const HostWork& w : plan.work) {
    for (const SplitPiece& p : w.pieces) {
      text += "    (" + JsonQuoted(plan.paths[p.file]) + ", " + std::to_string(p.begin) + ", " + std::to_string(p.end) + ", [" +
              JsonQuoted(w.host) + "], True),\n";
    }
  }
  return text + "]\n";
}

}  // namespace

uint64_t SplitPlan::bytes() const {
  uint64_t sum = 0;
  for (const HostWork& w : work) sum += w.bytes;
  return sum;
}
uint64_t SplitPlan::local_bytes() const {
  uint64_t sum = 0;
  for (const HostWork& w : work) sum += w.local_bytes;
  return sum;
}

uint64_t SplitPlan::remote_bytes() const {
  uint64_t sum = 0;
  for (const HostWork& w : work) sum += w.remote_bytes();
  return sum;
}
uint64_t SplitPlan::decoded_bytes() const {
  uint64_t sum = 0;
  for (const HostWork& w : work) sum += w.decoded_bytes;
  return sum;
}

std::string Promise(const SplitPlan& plan) {
  const uint64_t all = plan.bytes();
  std::string text = std::to_string(Percent(plan.local_bytes(), all)) + " % of " + HumanBytes(all) + " is local";
  const auto part = [&](uint64_t bytes, const char* what) {
    if (bytes > 0) text += ", " + std::to_string(Percent(bytes, all)) + " % (" + HumanBytes(bytes) + ") " + what;
  };
  part(plan.remote_bytes(), "remote");
  part(plan.decoded_bytes(), "decoded");
  for (size_t i = 0; i < plan.away.size(); ++i) text += (i == 0 ? "; no work for " : ", ") + Printable(plan.away[i].name) + " (" + plan.away[i].state + ")";
  return text;
}

Json HostWorkJson(const SplitPlan& plan, const HostWork& work) {
  Json items = Json::array();
  for (const SplitPiece& p : work.pieces) items.push_back(ItemJson(plan, p));
  return {{"host", work.host}, {"bytes", work.bytes}, {"local_bytes", work.local_bytes},
          {"remote_bytes", work.remote_bytes()}, {"decoded_bytes", work.decoded_bytes}, {"work", items}};
}

Json SplitJson(const SplitPlan& plan) {
  Json hosts = Json::array();
  for (const HostWork& w : plan.work) hosts.push_back(HostWorkJson(plan, w));
  Json away = Json::array();
  for (const AwayNode& n : plan.away) away.push_back({{"node", n.name}, {"state", n.state}});
  return {{"unit", plan.entries ? "entries" : "bytes"},
          {"bytes", plan.bytes()},
          {"local_percent", Percent(plan.local_bytes(), plan.bytes())},
          {"local_bytes", plan.local_bytes()},
          {"remote_bytes", plan.remote_bytes()},
          {"decoded_bytes", plan.decoded_bytes()},
          {"away", away},
          {"hosts", hosts}};
}

Result<SplitFormat> ParseSplitFormat(const std::string& name) {
  if (name == "json") return SplitFormat::kJson;
  if (name == "slurm") return SplitFormat::kSlurm;
  if (name == "condor") return SplitFormat::kCondor;
  if (name == "dask") return SplitFormat::kDask;
  if (name == "parallel") return SplitFormat::kParallel;
  return Error(FsError::kInval, "'" + name + "' is no format of work lists: json, slurm, condor, dask or parallel");
}

std::string RenderSplit(const SplitPlan& plan, SplitFormat format, const std::string& list_dir) {
  switch (format) {
    case SplitFormat::kJson: return Dump(SplitJson(plan));
    case SplitFormat::kSlurm: return Slurm(plan, list_dir);
    case SplitFormat::kCondor: return Condor(plan, list_dir);
    case SplitFormat::kDask: return Dask(plan);
    case SplitFormat::kParallel: return Parallel(plan, list_dir);
  }
  return "";
}

}  // namespace stria::cli
