#include "meta/meta_metrics.h"

namespace stria {
namespace {

void Line(const char* name, const char* help, uint64_t value, std::string* out) {
  *out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " gauge\n" + name + " " +
          std::to_string(value) + "\n";
}

}  // namespace

std::string MetaMetricsText(MetaServer& server) {
  const MetaStore& store = *server.store();
  std::string out;
  Line("stria_meta_files", "Inodes that are not directories", store.Count(Counter::kFiles), &out);
  Line("stria_meta_directories", "Directories", store.Count(Counter::kDirectories), &out);
  Line("stria_meta_stripes", "Live stripes", store.Count(Counter::kStripes), &out);
  Line("stria_meta_allocated_stripes", "Stripes being filled", store.Count(Counter::kAllocated), &out);
  Line("stria_meta_live_bytes", "Bytes of files in stripes", store.Count(Counter::kLiveBytes), &out);
  Line("stria_meta_inline_bytes", "Bytes of files in the metadata", store.Count(Counter::kInlineBytes), &out);
  Line("stria_meta_narrow_stripes", "Stripes narrower than their layout", store.Count(Counter::kNarrow), &out);
  Line("stria_meta_crowded_stripes", "Stripes with two columns in a failure domain", store.Count(Counter::kCrowded),
       &out);
  Line("stria_meta_garbage_shards", "Shards to be deleted", store.Count(Counter::kGarbageShards), &out);
  Line("stria_meta_sessions", "Client sessions", server.sessions().All().size(), &out);
  Line("stria_meta_open_inodes", "Inodes that some client has open", server.leases().inodes(), &out);
  Line("stria_meta_commits", "Sequence of the last transaction", store.last_seq().v, &out);
  Line("stria_meta_term", "Starts of the server", server.term(), &out);
  if (const Archiver* backup = server.archiver()) {
    Line("stria_meta_backup_behind_seconds", "Age of the oldest change that is not in the metadata's backup",
         static_cast<uint64_t>(backup->BehindNs() / kSecond), &out);
    Line("stria_meta_backup_nodes", "Data servers that keep the metadata's backup",
         backup->complete() ? backup->places().size() : 0, &out);
  }
  const MetaServer::RepairSummary repair = server.repair_summary();
  Line("stria_repair_waiting_stripes", "Stripes known to need repair", repair.waiting, &out);
  Line("stria_repair_parked_stripes", "Stripes that cannot be repaired now", repair.parked, &out);
  Line("stria_repair_tasks", "Rebuilds under way", repair.in_flight, &out);
  return out;
}

}  // namespace stria
