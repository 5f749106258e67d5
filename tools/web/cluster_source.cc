#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/exec/loop_executor.h"
#include "tools/cli/member_ask.h"
#include "tools/cli/member_render.h"
#include "tools/cli/render.h"
#include "tools/cli/upkeep.h"
#include "tools/web/event_log.h"
#include "tools/web/source.h"

namespace stria::web {
namespace {

cli::ClientOptions OptionsFor(const std::vector<std::string>& addresses, const cli::Reach& reach) {
  cli::ClientOptions options;
  options.addresses = addresses;
  options.timeout_ns = kAskTimeoutNs;
  options.note = reach.note;
  return options;
}

class ClusterSource final : public Source {
 public:
  ClusterSource(const std::vector<std::string>& addresses, cli::Reach reach)
      : client_(OptionsFor(addresses, reach), std::move(reach.connector)) {}

  Result<Json> Status() override {
    auto status = client_.Call<StatusReply>("status", [](MetaService& meta, OpHeader header) {
      InodeRequest r;
      r.header = std::move(header);
      return meta.Status(std::move(r));
    });
    if (!status.ok()) return status.error();
    auto upkeep = client_.CallAdmin<UpkeepReply>("upkeep", [](AdminService& admin, OpHeader header) {
      UpkeepRequest r;
      r.header = std::move(header);
      return admin.Upkeep(std::move(r));
    });
    if (!upkeep.ok()) return upkeep.error();
    log_.Of(status->map.cluster.ToString());
    status->map = cli::InOrder(std::move(status->map));
    const int64_t now_ns = WallclockNs();
    const std::optional<MemberStatusReply> members = cli::AskMembersIfAny(client_);
    std::vector<cli::Finding> more = cli::DiagnoseBackup(*upkeep, status->map, now_ns / kSecond);
    if (members) std::ranges::move(cli::DiagnoseMembers(*members), std::back_inserter(more));
    Json out = cli::StatusJson(*status, now_ns, more);
    out["upkeep"] = cli::UpkeepJson(*upkeep, status->map);
    out["metadata_servers"] = members ? cli::MembersJson(*members) : Json(nullptr);
    return out;
  }

  std::optional<Json> Events() override {
    bool more = true;
    for (int pages = 0; more && pages < kMaxPages; ++pages) {
      const ReadEventsRequest ask = log_.Next(WallclockNs());
      auto reply = client_.CallAdmin<ReadEventsReply>("events", [ask](AdminService& admin, OpHeader header) {
        ReadEventsRequest r = ask;
        r.header = std::move(header);
        return admin.ReadEvents(std::move(r));
      });
      // One of before this keeps none. One that is away, or says nothing just now, is asked again with the next status.
      if (!reply.ok()) break;
      keeps_ = true;
      more = log_.Take(std::move(*reply));
    }
    return keeps_ ? std::optional<Json>(log_.Shown()) : std::nullopt;
  }

 private:
  static constexpr int kMaxPages = 60;  // at once: more than a cluster keeps

  cli::ClusterClient client_;
  EventLog log_;
  bool keeps_ = false;  // it has told of events, or that there are none
};

}  // namespace

std::unique_ptr<Source> MakeClusterSource(const std::vector<std::string>& addresses, cli::Reach reach) {
  return std::make_unique<ClusterSource>(addresses, std::move(reach));
}

}  // namespace stria::web
