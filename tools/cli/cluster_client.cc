#include "tools/cli/cluster_client.h"

#include <absl/strings/str_join.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/printable.h"
#include "common/sentence.h"

namespace stria::cli {
namespace {

constexpr int64_t kFirstProgressNs = 2 * kSecond;
constexpr int64_t kLineProgressNs = 10 * kSecond;  // where lines cannot be overwritten
constexpr int64_t kLocateNs = 1 * kSecond;
constexpr int64_t kGraceNs = 2 * kSecond;          // a transport that does not keep its own deadline

}  // namespace

ClusterClient::ClusterClient(ClientOptions options, ConnectorFactory make_connector)
    : options_(std::move(options)) {
  CHECK(!options_.addresses.empty(), "no metadata address");
  thread_ = std::thread([this, make = std::move(make_connector)]() mutable { RunThread(std::move(make)); });
}

ClusterClient::~ClusterClient() {
  executor_.Stop();
  thread_.join();
}

void ClusterClient::RunThread(ConnectorFactory make_connector) {
  executor_.MakeCurrent();
  connector_ = make_connector();
  for (const std::string& a : options_.addresses) AddServices(a);
  scope_.emplace();
  executor_.Run();
  executor_.MakeCurrent();
  scope_.reset();
  asked_.clear();
  services_.clear();
  admin_services_.clear();
  trust_services_.clear();
  member_services_.clear();
  connector_.reset();
  Executor::ClearCurrent();
}

void ClusterClient::AddServices(const std::string& address) {
  asked_.push_back(address);
  services_.push_back(connector_->Connect(address));
  admin_services_.push_back(connector_->ConnectAdmin(address));
  trust_services_.push_back(connector_->ConnectTrust(address));
  member_services_.push_back(connector_->ConnectMember(address));
}

Task<void> ClusterClient::LearnAddresses() {
  std::vector<std::string> told;
  for (const std::shared_ptr<MemberService>& member : Services<MemberService>(member_services_)) {
    if (member == nullptr) continue;
    LocateRequest request;
    request.header.timeout_ns = kLocateNs;
    const Result<LocateReply> said = co_await member->Locate(std::move(request));
    if (!said.ok()) continue;
    told.push_back(said->address);
    for (const MemberAddress& m : said->members) told.push_back(m.address);
  }
  for (const std::string& a : told) {
    const bool known = std::find(asked_.begin(), asked_.end(), a) != asked_.end();
    if (!a.empty() && !known && asked_.size() < options_.addresses.size() + kMaxListedMembers) AddServices(a);
  }
}

OpHeader ClusterClient::Header(int64_t timeout_ns) const {
  OpHeader h;
  h.uid = geteuid();
  h.gid = getegid();
  std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  const int n = getgroups(static_cast<int>(groups.size()), groups.data());
  if (n > 0) h.groups.assign(groups.begin(), groups.begin() + n);
  h.timeout_ns = std::max<int64_t>(timeout_ns, 1);
  return h;
}

std::string ClusterClient::AddressList() const { return absl::StrJoin(options_.addresses, ", "); }

Error ClusterClient::Explained(Error e) const {
  const std::string why = SentenceOf(e);
  return Error(e.code, "stria-meta at " + AddressList() + " does not answer (" + why + "); is it running?" +
                           (options_.note.empty() ? "" : " This command has no credentials, which it may want: " + options_.note));
}

void ClusterClient::Finish(uint64_t ticket) {
  std::lock_guard lock(mu_);
  done_ = ticket;
  cv_.notify_all();
}

bool ClusterClient::AwaitDone(uint64_t ticket, const std::string& what) {
  const int64_t start_ns = BoottimeNs();
  const int64_t end_ns = start_ns + options_.timeout_ns + kGraceNs;
  int64_t next_line_ns = start_ns + kFirstProgressNs;
  bool shown = false;
  std::unique_lock lock(mu_);
  while (done_ != ticket && BoottimeNs() < end_ns) {
    cv_.wait_for(lock, std::chrono::milliseconds(100), [&] { return done_ == ticket; });
    const int64_t now_ns = BoottimeNs();
    if (done_ == ticket || options_.progress == nullptr || now_ns < next_line_ns) continue;
    *options_.progress << (options_.tty ? "\r\033[K" : "") << what << ": waiting for " << Printable(AddressList())
                       << ", " << (now_ns - start_ns) / kSecond << " s" << (options_.tty ? "" : "\n")
                       << std::flush;
    shown = true;
    next_line_ns = now_ns + (options_.tty ? kSecond : kLineProgressNs);
  }
  if (shown && options_.tty) *options_.progress << "\r\033[K" << std::flush;
  return done_ == ticket;
}

}  // namespace stria::cli
