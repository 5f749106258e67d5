#include "server/data_metrics.h"

#include "common/units.h"

namespace stria {
namespace {

double D(uint64_t n) { return static_cast<double>(n); }
double Seconds(double ns) { return ns / static_cast<double>(kSecond); }

void AddDisk(const DiskFigures& d, MetricFamilies* out) {
  const MetricFamilies::Labels disk = {{"disk", d.label}};
  out->Gauge("stria_disk_failed", "1 if the disk cannot be used, or not be written any more.", !d.usage || d.usage->failed, disk);
  if (d.usage) {
    const DiskUsage& u = *d.usage;
    out->Gauge("stria_disk_capacity_bytes", "Size of the disk.", D(u.capacity_bytes), disk);
    out->Gauge("stria_disk_free_bytes", "Free bytes, without what is kept for repair.", D(u.free_bytes), disk);
    out->Gauge("stria_disk_used_bytes", "Bytes of sealed shards.", D(u.used_bytes), disk);
    out->Gauge("stria_disk_shards", "Sealed shards.", D(u.shards), disk);
    out->Gauge("stria_disk_open_shards", "Shards that are being written.", D(d.open_shards), disk);
    out->Counter("stria_disk_read_errors_total", "Reads that the disk failed.", D(u.read_errors), disk);
    out->Counter("stria_disk_write_errors_total", "Writes and syncs that the disk failed.", D(u.write_errors), disk);
    out->Counter("stria_disk_checksum_errors_total", "Shards that were found damaged.", D(u.checksum_errors), disk);
    out->Gauge("stria_disk_read_median_seconds", "Half of the last reads took longer; 0 if there were too few.",
               static_cast<double>(u.read_us) / 1e6, disk);
  }
  if (d.times == nullptr) return;
  out->Gauge("stria_disk_running_operations", "Operations that wait for the disk, or are done there.", D(d.times->running), disk);
  for (size_t i = 0; i < kDiskWorkNames.size(); ++i) {
    out->Histogram("stria_disk_operation_duration_seconds",
                   "How long operations on files took, with waiting for the disk. A sync may have a write before it; the index is not among them.",
                   d.times->took[i], {{"disk", d.label}, {"operation", kDiskWorkNames[i]}});
  }
}

}  // namespace

void AddDataMetrics(const DataFigures& f, MetricFamilies* out) {
  out->Gauge("stria_data_registered", "1 if the metadata server has taken this node.", f.registered);
  out->Counter("stria_data_requests_total", "Requests about shards.", D(f.requests.requests));
  out->Counter("stria_data_refused_requests_total", "Requests that were refused for their header, their size or too much load.",
               D(f.requests.refused_requests));
  out->Counter("stria_data_refused_tokens_total", "Items of requests that were refused for their token.", D(f.requests.refused_tokens));
  out->Counter("stria_data_read_bytes_total", "Bytes of shards that were sent.", D(f.requests.read_bytes));
  out->Counter("stria_data_written_bytes_total", "Bytes of shards that were taken.", D(f.requests.written_bytes));
  out->Counter("stria_data_background_bytes_total", "Bytes that were read and written for rebuilds and scrubs.", D(f.background.background_bytes));
  out->Counter("stria_data_background_wait_seconds_total", "Time that rebuilds and scrubs have waited for the requests of others.",
               Seconds(D(f.background.waited_ns)));
  out->Gauge("stria_data_running_requests", "Requests about shards that are being carried out.", D(f.running_requests));
  out->Gauge("stria_data_background_requests", "Requests of other nodes' rebuilds that wait for their turn or are carried out.",
             D(f.background_requests));
  out->Counter("stria_data_rebuilds_total", "Columns that were made again here, or copied.", D(f.rebuilds));
  out->Gauge("stria_data_running_rebuilds", "Columns that are being made again here, and stripes that are being widened.", D(f.running_rebuilds));
  out->Gauge("stria_rpc_running_calls", "Calls that have come and are not answered.", D(f.running_calls));
  if (f.clock_ahead_ns) {
    out->Gauge("stria_data_clock_offset_seconds", "By how much this machine's clock is ahead of the metadata server's (behind: negative).",
               Seconds(static_cast<double>(*f.clock_ahead_ns)));
  }
  for (const DiskFigures& d : f.disks) AddDisk(d, out);
  if (f.certificate_end_s) out->CertificateEnd(*f.certificate_end_s);
}

}  // namespace stria
