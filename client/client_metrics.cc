#include "client/client_metrics.h"

#include <algorithm>

#include "client/vfs/calls.h"
#include "common/exec/executor.h"
#include "common/units.h"

namespace stria {
namespace {

double D(uint64_t n) { return static_cast<double>(n); }
double Seconds(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kSecond); }

void AddBytes(const ClientFigures& f, MetricFamilies* out) {
  out->Counter("stria_mount_read_bytes_total", "Bytes that programs have read.", D(f.io.read_bytes));
  out->Counter("stria_mount_written_bytes_total", "Bytes that programs have written.", D(f.io.write_bytes));
  out->Counter("stria_mount_committed_bytes_total", "Bytes of files that were stored and committed.", D(f.io.committed_bytes));
  const char* fetched = "Bytes of stripes that were read from disks: of the own node, or over the network.";
  out->Counter("stria_mount_fetched_bytes_total", fetched, D(f.reads.tally.local_bytes), {{"source", "local"}});
  out->Counter("stria_mount_fetched_bytes_total", fetched, D(f.reads.tally.network_bytes), {{"source", "network"}});
  out->Counter("stria_mount_decoded_bytes_total", "Bytes that were computed from other columns, as their own disk could not give them.",
               D(f.reads.tally.reconstructed_bytes));
  out->Counter("stria_mount_cache_hit_bytes_total", "Bytes that were read from the cache of stripes.", D(f.io.cache_hit_bytes));
  out->Counter("stria_mount_cache_miss_bytes_total", "Bytes of stripes that the cache did not have, with what is read ahead.", D(f.io.fetched_bytes));
  out->Counter("stria_mount_local_direct_bytes_total", "Bytes that were read from files of the own node, past its server.", D(f.local_direct_bytes));
  out->Counter("stria_mount_local_opens_total", "Files of the own node that were opened for that.", D(f.local_opened));
  out->Counter("stria_mount_hedged_reads_total", "Reads that were also begun another way, as a server was slow.", D(f.reads.hedged));
  out->Counter("stria_mount_lost_mappings_total", "Reads that found their stripe gone and asked again where the bytes are.", D(f.io.lost_mappings));
  out->Gauge("stria_mount_dirty_bytes", "Bytes that are written and not committed yet.", D(f.dirty_bytes));
  out->Gauge("stria_mount_dirty_limit_bytes", "With more of these, writers wait.", D(f.dirty_limit_bytes));
}

void AddSession(const ClientFigures& f, MetricFamilies* out) {
  out->Gauge("stria_mount_lease_left_seconds", "How long caches may be used without asking the metadata server; 0: it is not heard, or there is no session.",
             Seconds(std::max<int64_t>(f.lease_left_ns, 0)));
  out->Counter("stria_mount_session_lapses_total", "Times that the lease ran out and the session went on afterwards.", D(f.lapses));
  out->Counter("stria_mount_session_losses_total", "Times that the session was lost, and with it what was open.", D(f.losses));
  out->Gauge("stria_mount_lost_nodes", "Data servers that should answer and do not.", D(f.lost_nodes));
}

void AddJobs(const ClientFigures& f, MetricFamilies* out) {
  const char* fetched = "Bytes of stripes that were read from disks for a job, or ahead of its reads; 'other' is all that has no label of its own.";
  for (const auto& [job, io] : f.jobs) {
    out->Counter("stria_mount_job_fetched_bytes_total", fetched, D(io.fetched.local_bytes), {{"batch_job", job}, {"source", "local"}});
    out->Counter("stria_mount_job_fetched_bytes_total", fetched, D(io.fetched.network_bytes), {{"batch_job", job}, {"source", "network"}});
    out->Counter("stria_mount_job_decoded_bytes_total", "Bytes that were computed for a job from other columns.", D(io.fetched.reconstructed_bytes), {{"batch_job", job}});
    out->Counter("stria_mount_job_read_bytes_total", "Bytes that a job was given, from wherever.", D(io.read_bytes), {{"batch_job", job}});
    out->Counter("stria_mount_job_written_bytes_total", "Bytes that a job has written.", D(io.written_bytes), {{"batch_job", job}});
    out->Counter("stria_mount_job_operations_total", "Requests of a job that were answered.", D(io.operations), {{"batch_job", job}});
    out->Counter("stria_mount_job_wait_seconds_total", "How long a job's requests took until they were answered, all together.", Seconds(io.waited_ns), {{"batch_job", job}});
  }
}

}  // namespace

ClientFigures GatherClientFigures(Client& client) {
  ClientFigures f;
  const VfsReport& report = client.vfs().report();
  f.io = report.counters();
  f.reads = client.read_stats();
  f.dirty_bytes = report.dirty_bytes();
  f.running_calls = report.calls().size();
  if (const CallList::Call* oldest = report.calls().oldest()) f.oldest_call_ns = Executor::Current().NowNs() - oldest->since_ns();
  const MetaSession& session = client.session();
  f.lease_left_ns = session.LeaseLeftNs();
  f.lapses = session.era() - session.generation();
  f.losses = session.generation() - 1;  // the first is no successor
  f.lost_nodes = client.peers().LostNodes().size();
  return f;
}

void AddClientMetrics(const ClientFigures& f, MetricFamilies* out) {
  const char* calls = "Calls of programs that read or write.";
  out->Counter("stria_mount_calls_total", calls, D(f.io.read_calls), {{"call", "read"}});
  out->Counter("stria_mount_calls_total", calls, D(f.io.write_calls), {{"call", "write"}});
  AddBytes(f, out);
  AddSession(f, out);
  AddJobs(f, out);
  out->Gauge("stria_mount_running_calls", "Calls of programs that are under way.", D(f.running_calls));
  out->Gauge("stria_mount_oldest_call_seconds", "For how long the oldest of these has been under way; 0 if there is none.", Seconds(f.oldest_call_ns));
  out->Gauge("stria_mount_running_requests", "Requests of the kernel that are being carried out.", D(f.running_requests));
  for (const auto& [kind, took] : f.requests) {
    if (took->count() == 0) continue;
    out->Histogram("stria_mount_request_duration_seconds", "How long requests of the kernel took until they were answered.", *took, {{"request", kind}});
  }
  if (f.certificate_end_s) out->CertificateEnd(*f.certificate_end_s);
}

}  // namespace stria
