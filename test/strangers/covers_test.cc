// Each method of each service, each role, with a session and without: over the simulated network the dispatcher lets in whom the
// method's row names (proto/covers.h), and nobody else. The methods are those of the lists that stubs and dispatchers are made
// of: none can be missing here.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/exec/sim_run.h"
#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"
#include "proto/random_messages.h"
#include "proto/replica_stubs.h"
#include "proto/sim_transport.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"

namespace stria {
namespace {

// X(Service, Name, Request, Reply) of all methods.
#define META(Name, Request, Reply) X(MetaService, Name, Request, Reply)
#define ADMIN(Name, Request, Reply) X(AdminService, Name, Request, Reply)
#define DATA(Name, Request, Reply) X(DataService, Name, Request, Reply)
#define BACKUP(Name, Request, Reply) X(BackupService, Name, Request, Reply)
#define REPLICA(Name, Request, Reply) X(ReplicaService, Name, Request, Reply)
#define BEAT(Name, Request, Reply) X(BeatService, Name, Request, Reply)
#define MEMBER(Name, Request, Reply) X(MemberService, Name, Request, Reply)
#define TRUST(Name, Request, Reply) X(TrustService, Name, Request, Reply)
#define ALL_METHODS       \
  STRIA_META_METHODS(META) STRIA_ADMIN_METHODS(ADMIN) STRIA_DATA_METHODS(DATA) STRIA_BACKUP_METHODS(BACKUP) \
  STRIA_REPLICA_METHODS(REPLICA) STRIA_BEAT_METHODS(BEAT) STRIA_MEMBER_METHODS(MEMBER) STRIA_TRUST_METHODS(TRUST)

// ---- Of the rows themselves

constexpr bool Names(const Cover& row, Role role) { return row.in_session.Has(role) || row.alone.Has(role); }

constexpr bool NamesEverybody(const Cover& row) {
  for (const Role role : kAllRoles) {
    if (!Names(row, role)) return false;
  }
  return true;
}

constexpr bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view n : names) {
    if (n == name) return true;
  }
  return false;
}

#define X(Service, Name, Request, Reply)                                                                                          \
  static_assert(IsOneOf(#Name, {"GetMap", "RenewCertificate", "Locate"}) || !NamesEverybody(kCoverOf<&Service::Name>), #Name " is for everybody"); \
  static_assert(!Names(kCoverOf<&Service::Name>, Role::kMonitor) || IsOneOf(#Name, {"GetMap", "Status", "Upkeep", "ReadEvents", "RenewCertificate", "Locate", "MemberStatus"}), \
                #Name " is for monitors, who only look on");                                                                      \
  static_assert(!kCoverOf<&Service::Name>.in_session.Has(Role::kData) && !kCoverOf<&Service::Name>.in_session.Has(Role::kAdmin) &&  \
                    !kCoverOf<&Service::Name>.in_session.Has(Role::kMeta) && !kCoverOf<&Service::Name>.in_session.Has(Role::kMonitor), \
                #Name " lets somebody into sessions who has none");
ALL_METHODS
#undef X

// ---- Of the dispatchers

// Answers everything, and counts.
class Anything final : public MetaService, public AdminService, public DataService, public BackupService, public ReplicaService,
                       public BeatService, public MemberService, public TrustService {
 public:
#define X(Service, Name, Request, Reply)             \
  Task<Result<Reply>> Name(Request) override {       \
    ++calls;                                         \
    if (!answer.ok()) co_return answer;              \
    co_return Reply();                               \
  }
  ALL_METHODS
#undef X
  int calls = 0;
  Error answer;  // ok: a reply of nothing
};

constexpr char kAddress[] = "server:7";

class CoversTest : public testing::Test {
 protected:
  void Serve(bool proved) {
    DispatchOptions options;
    options.proved = proved;
    options.refused = [this](const Peer*, const std::string& method, const Error& why) {
      EXPECT_EQ(why.code, FsError::kAccess);
      ++refused_[method];
    };
    meta_ = std::make_unique<MetaDispatcher>(&service_, options);
    admin_ = std::make_unique<AdminDispatcher>(&service_, options);
    data_ = std::make_unique<DataDispatcher>(&service_, options);
    backup_ = std::make_unique<BackupDispatcher>(&service_, options);
    replica_ = std::make_unique<ReplicaDispatcher>(&service_, options);
    beats_ = std::make_unique<BeatDispatcher>(&service_, options);
    member_ = std::make_unique<MemberDispatcher>(&service_, options);
    trust_ = std::make_unique<TrustDispatcher>(&service_, options);
    router_.Add(kMetaServiceName, meta_.get());
    router_.Add(kAdminServiceName, admin_.get());
    router_.Add(kDataServiceName, data_.get());
    router_.Add(kBackupServiceName, backup_.get());
    router_.Add(kReplicaServiceName, replica_.get());
    router_.Add(kBeatServiceName, beats_.get());
    router_.Add(kMemberServiceName, member_.get());
    router_.Add(kTrustServiceName, trust_.get());
    net_.Serve(kAddress, &router_);
  }
  ~CoversTest() override { net_.Stop(kAddress); }

  // A call of a caller who has proved to be of `role`; null: who has proved nothing. Is it let in exactly if `admitted`?
  template <class Service, class Request, class Reply>
  void Try(Service* stub, Task<Result<Reply>> (Service::*call)(Request), const std::string& method, const Role* role, bool in_session,
           bool admitted) {
    Request request = random_messages::RandomMessage<Request>(rng_);
    request.header.protocol = request.header.oldest_protocol = kProtocolVersion;
    request.header.timeout_ns = kSecond;
    if constexpr (std::is_same_v<decltype(request.header), OpHeader>) request.header.session = in_session ? SessionId(7) : SessionId();
    std::shared_ptr<Peer> peer;
    if (role != nullptr) {
      peer = std::make_shared<Peer>();
      peer->role = *role;
      peer->name = "pc1";
      peer->address = "10.0.0.7:40112";
    }
    net_.SetPeer("caller", peer);
    const std::string what = method + " of " + (role == nullptr ? "nobody" : std::string(RoleName(*role))) + (in_session ? " in a session" : "");
    const int calls = service_.calls, refused = refused_[method];
    const Result<Reply> reply = RunSim(ex_, (stub->*call)(std::move(request)));
    EXPECT_EQ(service_.calls - calls, admitted ? 1 : 0) << what;
    EXPECT_EQ(refused_[method] - refused, admitted ? 0 : 1) << what << ": who writes it down is told";
    if (admitted) {
      EXPECT_NE(reply.code(), FsError::kAccess) << what;
      return;
    }
    EXPECT_EQ(reply.code(), FsError::kAccess) << what;
    if (peer) EXPECT_NE(reply.error().message.find(peer->ToString()), std::string::npos) << what << ": " << reply.error();
  }

  SimExecutor ex_{1};
  SimNetwork net_{&ex_, 42};
  Random rng_{7};
  Anything service_;
  std::map<std::string, int> refused_;  // by method
  std::unique_ptr<MetaDispatcher> meta_;
  std::unique_ptr<AdminDispatcher> admin_;
  std::unique_ptr<DataDispatcher> data_;
  std::unique_ptr<BackupDispatcher> backup_;
  std::unique_ptr<ReplicaDispatcher> replica_;
  std::unique_ptr<BeatDispatcher> beats_;
  std::unique_ptr<MemberDispatcher> member_;
  std::unique_ptr<TrustDispatcher> trust_;
  Router router_;
  MetaStub MetaService_{net_.MakeTransport("caller", kAddress)};
  AdminStub AdminService_{net_.MakeTransport("caller", kAddress)};
  DataStub DataService_{net_.MakeTransport("caller", kAddress)};
  BackupStub BackupService_{net_.MakeTransport("caller", kAddress)};
  ReplicaStub ReplicaService_{net_.MakeTransport("caller", kAddress)};
  BeatStub BeatService_{net_.MakeTransport("caller", kAddress)};
  MemberStub MemberService_{net_.MakeTransport("caller", kAddress)};
  TrustStub TrustService_{net_.MakeTransport("caller", kAddress)};
  const std::map<std::string, std::string> names_ = {{"MetaService", kMetaServiceName},
                                                     {"AdminService", kAdminServiceName},
                                                     {"DataService", kDataServiceName},
                                                     {"BackupService", kBackupServiceName},
                                                     {"ReplicaService", kReplicaServiceName},
                                                     {"BeatService", kBeatServiceName},
                                                     {"MemberService", kMemberServiceName},
                                                     {"TrustService", kTrustServiceName}};
};

#define X(Service, Name, Request, Reply)                                                                                       \
  for (const bool in_session : {false, true}) {                                                                                \
    if (in_session && !std::is_same_v<decltype(Request::header), OpHeader>) continue;                                          \
    for (const Role& role : kAllRoles) {                                                                                       \
      const Cover row = kCoverOf<&Service::Name>;                                                                              \
      Try<Service, Request, Reply>(&Service##_, &Service::Name, "/" + names_.at(#Service) + "/" #Name, &role, in_session,       \
                                   (in_session ? row.in_session : row.alone).Has(role));                                       \
    }                                                                                                                          \
  }
TEST_F(CoversTest, ARowLetsInWhomItNamesAndNobodyElse) {
  Serve(true);
  ALL_METHODS
}
#undef X

#define X(Service, Name, Request, Reply) \
  Try<Service, Request, Reply>(&Service##_, &Service::Name, "/" + names_.at(#Service) + "/" #Name, nullptr, in_session, admitted);
TEST_F(CoversTest, WhoProvesNothingIsLetInNowhere) {
  Serve(true);
  const bool admitted = false;
  for (const bool in_session : {false, true}) {
    ALL_METHODS
  }
}
// A server without certificates.
TEST_F(CoversTest, WhereNothingIsProvedAllAreServed) {
  Serve(false);
  const bool admitted = true;
  for (const bool in_session : {false, true}) {
    ALL_METHODS
  }
}
#undef X

// The audit hears of who may not ask, and not of what the permissions of files do not allow: that is everyday, and would drown it.
TEST_F(CoversTest, OnlyDenialsAreTold) {
  Serve(true);
  auto peer = std::make_shared<Peer>();
  peer->role = Role::kClient;
  peer->name = "pc1";
  net_.SetPeer("caller", peer);
  const auto told = [&](Error answer) {
    service_.answer = std::move(answer);
    const int before = refused_["/stria.v1.Meta/GetAttr"];
    InodeRequest r;
    r.header.session = SessionId(7);
    r.header.timeout_ns = kSecond;
    EXPECT_EQ(RunSim(ex_, MetaService_.GetAttr(r)).code(), FsError::kAccess);
    return refused_["/stria.v1.Meta/GetAttr"] - before;
  };
  EXPECT_EQ(told(Error(FsError::kAccess)), 0);
  EXPECT_EQ(told(Error(FsError::kAccess, "the mode does not allow it")), 0);
  EXPECT_EQ(told(Error::Denial("session 7 is not one of client pc1")), 1);
  EXPECT_EQ(told(Error::Denial("not here").WithContext("cannot mount /a")), 1);
  net_.SetPeer("caller", nullptr);
  EXPECT_EQ(told(Error()), 1) << "at the door";
}

// Who is let in is written here once more, for what would cost most.
TEST(Covers, TheRowsThatMatterMost) {
  const auto only = [](const Cover& row, RoleSet in_session, RoleSet alone) {
    for (const Role role : kAllRoles) {
      if (row.in_session.Has(role) != in_session.Has(role) || row.alone.Has(role) != alone.Has(role)) return false;
    }
    return true;
  };
  EXPECT_TRUE(only(kCoverOf<&DataService::Delete>, {}, {})) << "only the node itself deletes";
  EXPECT_TRUE(only(kCoverOf<&DataService::Write>, {}, {Role::kClient, Role::kData}));
  EXPECT_TRUE(only(kCoverOf<&DataService::Inventory>, {}, {Role::kMeta}));
  EXPECT_TRUE(only(kCoverOf<&MetaService::Admin>, {}, {Role::kAdmin}));
  EXPECT_TRUE(only(kCoverOf<&AdminService::FsckRepair>, {}, {Role::kAdmin}));
  EXPECT_TRUE(only(kCoverOf<&MetaService::RegisterNode>, {}, {Role::kData}));
  EXPECT_TRUE(only(kCoverOf<&MetaService::ReportWork>, {}, {Role::kData}));
  EXPECT_TRUE(only(kCoverOf<&AdminService::ListParity>, {}, {Role::kData})) << "it gives tokens";
  EXPECT_TRUE(only(kCoverOf<&MetaService::Commit>, {Role::kClient}, {}));
  EXPECT_TRUE(only(kCoverOf<&MetaService::GetExtents>, {Role::kClient}, {Role::kAdmin}));
  EXPECT_TRUE(only(kCoverOf<&BackupService::DeleteBackups>, {}, {Role::kMeta}));
  EXPECT_TRUE(only(kCoverOf<&ReplicaService::Append>, {}, {Role::kMeta})) << "it writes the store";
  EXPECT_TRUE(only(kCoverOf<&ReplicaService::FetchPage>, {}, {Role::kMeta})) << "it gives all of the store";
  EXPECT_TRUE(only(kCoverOf<&TrustService::MakeToken>, {}, {Role::kAdmin}));
  EXPECT_TRUE(only(kCoverOf<&TrustService::RevokeCertificate>, {}, {Role::kAdmin}));
  EXPECT_TRUE(only(kCoverOf<&TrustService::ChangeAuthority>, {}, {Role::kAdmin}));
  EXPECT_TRUE(only(kCoverOf<&TrustService::FollowAuthority>, {}, {Role::kMeta})) << "it gives the authority's key";
}

}  // namespace
}  // namespace stria
