// For tests: a cluster of two nodes with two disks each.
#pragma once

#include <string>

#include "api/meta_api.h"
#include "common/units.h"

namespace stria::cli {

inline constexpr int64_t kSampleNowNs = 1'700'000'100 * kSecond;

inline ClusterMap SampleMap() {
  ClusterMap map;
  map.version = 7;
  map.cluster = Uuid{0x0123456789abcdef, 0x8000000000000001};
  for (uint32_t n = 1; n <= 2; ++n) {
    NodeInfo node;
    node.id = NodeId(n);
    node.name = "n" + std::to_string(n);
    node.address = "127.0.0.1:700" + std::to_string(n);
    node.since_ns = kSampleNowNs - 125 * kSecond;
    map.nodes.push_back(node);
    for (uint32_t d = 1; d <= 2; ++d) {
      TargetInfo t;
      t.id = TargetId(n * 10 + d);
      t.node = node.id;
      t.label = "d" + std::to_string(d);
      t.capacity_bytes = 100 * kGiB;
      t.free_bytes = 90 * kGiB;
      t.used_bytes = 5 * kGiB + d * 512 * kMiB;
      map.targets.push_back(t);
    }
  }
  return map;
}

inline StatusReply SampleStatus() {
  StatusReply s;
  s.map = SampleMap();
  s.files = 12;
  s.directories = 1;
  s.stripes = 640;
  s.live_bytes = 18 * kGiB;
  s.inline_bytes = 3 * kKiB;
  s.node_loss.counted = true;
  s.sessions.push_back({SessionId(3), "mount /data on pc7 (pid 123)", "n1", 14 * kSecond + 5});
  return s;
}

}  // namespace stria::cli
