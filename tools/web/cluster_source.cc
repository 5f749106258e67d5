#include <utility>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/exec/loop_executor.h"
#include "tools/cli/render.h"
#include "tools/cli/upkeep.h"
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
    status->map = cli::InOrder(std::move(status->map));
    const int64_t now_ns = WallclockNs();
    Json out = cli::StatusJson(*status, now_ns, cli::DiagnoseBackup(*upkeep, status->map, now_ns / kSecond));
    out["upkeep"] = cli::UpkeepJson(*upkeep, status->map);
    return out;
  }

  // The seam for events: a metadata server of this version keeps none.
  std::optional<Json> Events() override { return std::nullopt; }

 private:
  cli::ClusterClient client_;
};

}  // namespace

std::unique_ptr<Source> MakeClusterSource(const std::vector<std::string>& addresses, cli::Reach reach) {
  return std::make_unique<ClusterSource>(addresses, std::move(reach));
}

}  // namespace stria::web
