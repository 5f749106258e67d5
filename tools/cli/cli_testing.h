// For tests: the whole command line against services that answer from canned replies.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "proto/admin_stubs.h"
#include "proto/methods.h"
#include "proto/replica_stubs.h"
#include "proto/trust_stubs.h"
#include "tools/cli/context.h"
#include "tools/cli/sample_status.h"

namespace stria::cli {

class FakeMeta : public MetaService {
 public:
#define X(Name, Request, Reply)                                                        \
  std::function<Result<Reply>(const Request&)> on##Name;                               \
  Task<Result<Reply>> Name(Request request) override {                                 \
    if (!on##Name) co_return Error(FsError::kNotSupported, #Name " was not expected"); \
    co_return on##Name(request);                                                       \
  }
  STRIA_META_METHODS(X)
#undef X
};

class FakeAdmin : public AdminService {
 public:
#define X(Name, Request, Reply)                                                        \
  std::function<Result<Reply>(const Request&)> on##Name;                               \
  Task<Result<Reply>> Name(Request request) override {                                 \
    if (!on##Name) co_return Error(FsError::kNotSupported, #Name " was not expected"); \
    co_return on##Name(request);                                                       \
  }
  STRIA_ADMIN_METHODS(X)
#undef X
};

class FakeMembers : public MemberService {
 public:
#define X(Name, Request, Reply)                                                        \
  std::function<Result<Reply>(const Request&)> on##Name;                               \
  Task<Result<Reply>> Name(Request request) override {                                 \
    if (!on##Name) co_return Error(FsError::kVersion, "there is no service for " #Name); \
    co_return on##Name(request);                                                       \
  }
  STRIA_MEMBER_METHODS(X)
#undef X
};

class FakeTrust : public TrustService {
 public:
#define X(Name, Request, Reply)                                                        \
  std::function<Result<Reply>(const Request&)> on##Name;                               \
  Task<Result<Reply>> Name(Request request) override {                                 \
    if (!on##Name) co_return Error(FsError::kNotSupported, #Name " was not expected"); \
    co_return on##Name(request);                                                       \
  }
  STRIA_TRUST_METHODS(X)
#undef X
};

class FakeConnector : public ClusterConnector {
 public:
  std::shared_ptr<FakeAdmin> admin = std::make_shared<FakeAdmin>();
  std::shared_ptr<AdminService> ConnectAdmin(const std::string&) override { return admin; }
  std::shared_ptr<FakeTrust> trust = std::make_shared<FakeTrust>();
  std::shared_ptr<TrustService> ConnectTrust(const std::string&) override { return trust; }
  std::map<std::string, std::shared_ptr<FakeMembers>> members;  // by address; others do not know the service
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override {
    const auto it = members.find(address);
    return it == members.end() ? std::make_shared<FakeMembers>() : it->second;
  }
  explicit FakeConnector(std::map<std::string, std::shared_ptr<FakeMeta>> metas) : metas_(std::move(metas)) {}
  std::shared_ptr<MetaService> Connect(const std::string& address) override {
    if (const auto it = metas_.find(address); it != metas_.end()) return it->second;
    auto dead = std::make_shared<FakeMeta>();
#define X(Name, Request, Reply)                                \
  dead->on##Name = [](const Request&) -> Result<Reply> {       \
    return Error(FsError::kUnavailable, "connection refused"); \
  };
    STRIA_META_METHODS(X)
#undef X
    return dead;
  }

 private:
  std::map<std::string, std::shared_ptr<FakeMeta>> metas_;
};

class CliTest : public testing::Test {
 protected:
  CliTest() : meta_(std::make_shared<FakeMeta>()) {
    admin_->onUpkeep = [this](const UpkeepRequest& r) {
      asked_.push_back(r);
      return upkeep_;
    };
    meta_->onStatus = [this](const InodeRequest&) { return status_; };
    meta_->onGetMap = [this](const InodeRequest&) { return status_.map; };
  }
  int Run(const std::string& line) {
    Context ctx;
    out_.str("");
    err_.str("");
    ctx.out = &out_;
    ctx.err = &err_;
    ctx.cwd = "/somewhere";
    ctx.env_meta = env_;
    ctx.mounts = mounts_;
    if (!own_ways_.empty()) ctx.own_ways = [this] { return own_ways_; };
    if (ask_) ctx.ask_mount = ask_;
    if (tell_) ctx.tell_mount = tell_;
    ctx.connector = [this](const std::string& trust) -> Result<Reach> {
      std::map<std::string, std::shared_ptr<FakeMeta>> metas = others_;
      metas["live:7424"] = meta_;
      auto c = std::make_unique<FakeConnector>(std::move(metas));
      c->admin = admin_;
      c->members = members_;
      trust_ = trust;
      // Made once, on the thread that asks for it.
      auto one = std::make_shared<std::unique_ptr<FakeConnector>>(std::move(c));
      return Reach{[one]() -> std::unique_ptr<ClusterConnector> { return std::move(*one); }, note_};
    };
    ctx.env_trust = env_trust_;
    ctx.confirm = confirm_;
    std::vector<std::string> words = {"stria"};
    std::istringstream in(line);
    for (std::string w; in >> w;) words.push_back(w);
    std::vector<const char*> argv;
    for (const auto& w : words) argv.push_back(w.c_str());
    return RunCommandLine(static_cast<int>(argv.size()), argv.data(), ctx);
  }

  std::shared_ptr<FakeMeta> meta_;
  std::map<std::string, std::shared_ptr<FakeMeta>> others_;  // at other addresses
  std::shared_ptr<FakeAdmin> admin_ = std::make_shared<FakeAdmin>();
  std::map<std::string, std::shared_ptr<FakeMembers>> members_;
  UpkeepReply upkeep_;
  std::vector<UpkeepRequest> asked_;
  std::function<bool(const std::string&)> confirm_;
  StatusReply status_ = SampleStatus();
  std::vector<doctor::Way> own_ways_;
  std::vector<StriaMount> mounts_ = {{"/mnt", {"live"}}};
  std::function<Result<std::string>(const std::string&, const std::string&)> ask_;
  std::function<Result<void>(const std::string&, const std::string&, const std::string&)> tell_;
  std::string env_ = "live", env_trust_;
  std::string note_;   // of the credentials
  std::string trust_;  // that were asked for
  std::ostringstream out_, err_;
};

}  // namespace stria::cli
