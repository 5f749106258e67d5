// A whole cluster in one process and in real time, for tests that mount it: a metadata server on a store
// in memory, data nodes of one disk each in a temporary directory, and clients that call them directly
// (no network). Everything is on one executor's thread.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/fuse/executor_thread.h"
#include "client/fuse/fuse_adapter.h"
#include "client/fuse/fuse_mount.h"
#include "client/fuse/kernel_cache.h"
#include "common/io/posix_disk.h"
#include "common/kv/mem_kv.h"
#include "common/temp_dir.h"
#include "meta/service/meta_server.h"
#include "proto/methods.h"
#include "server/data_node.h"
#include "stripe/layout_spec.h"
#include "test/fuse/mount_guard.h"

namespace stria {

// Awaited before each call to a server, with the call's name: a server that is slow, or does not answer.
using BeforeCalls = std::function<Task<void>(std::string method)>;

class MiniCluster {
 public:
  MiniCluster(size_t nodes, const std::string& layout) : pool_(std::make_unique<ThreadPool>(2, "pool")) {
    key_.id = 1;
    key_.secret.fill(7);
    meta_ = std::make_unique<MetaDoor>(this);
    data_ = std::make_unique<DataDoor>(this);
    loop_.Run([&] { return StartAll(nodes, layout); });
  }
  ~MiniCluster() {
    loop_.Do([this] {
      for (auto& [address, n] : nodes_) n->node.reset();
      server_.reset();
    });
    pool_.reset();  // before the stores that its work uses
    loop_.Do([this] { nodes_.clear(); });
  }
  ExecutorThread& loop() { return loop_; }
  Pool& pool() { return *pool_; }
  MetaConnector& meta() { return *meta_; }
  DataConnector& data() { return *data_; }
  MetaServer& server() { return *server_; }
  void SetBefore(BeforeCalls before) {
    loop_.Do([&] { before_ = std::move(before); });
  }
  // The directory of a node's disk.
  const std::string& disk_dir(const std::string& node) { return nodes_.at(AddressOf(node))->dir.path(); }

 private:
#define STRIA_THROUGH(Name, Request, Reply)                             \
  Task<Result<Reply>> Name(Request r) override {                        \
    if (const BeforeCalls before = c_->before_) co_await before(#Name); \
    co_return co_await to_->Name(std::move(r));                         \
  }
  class MetaDoor final : public MetaConnector, public MetaService {
   public:
    explicit MetaDoor(MiniCluster* c) : c_(c) {}
    std::shared_ptr<MetaService> Connect(const std::string&) override {
      to_ = c_->server_.get();
      return {std::shared_ptr<void>(), this};
    }
    STRIA_META_METHODS(STRIA_THROUGH)

   private:
    MiniCluster* const c_;
    MetaService* to_ = nullptr;
  };
  class NodeDoor final : public DataService {
   public:
    NodeDoor(MiniCluster* c, DataService* to) : c_(c), to_(to) {}
    STRIA_DATA_METHODS(STRIA_THROUGH)

   private:
    MiniCluster* const c_;
    DataService* const to_;
  };
#undef STRIA_THROUGH
  struct Node {
    TempDir dir;
    std::unique_ptr<PosixDisk> disk;
    std::unique_ptr<MemKv> kv;
    std::unique_ptr<DataNode> node;
    std::unique_ptr<NodeDoor> door;
  };
  class DataDoor final : public DataConnector {
   public:
    explicit DataDoor(MiniCluster* c) : c_(c) {}
    std::shared_ptr<DataService> Connect(const std::string& address) override {
      return {std::shared_ptr<void>(), c_->nodes_.at(address)->door.get()};
    }

   private:
    MiniCluster* const c_;
  };

  static std::string AddressOf(const std::string& node) { return node + ":1"; }

  Task<void> StartAll(size_t nodes, std::string layout) {
    Executor& ex = Executor::Current();
    auto media = std::make_shared<MemKvMedia>(kFamilies);
    FormatParams format;
    format.cluster = Uuid{1, 2};
    format.store = Uuid{3, 4};
    format.layout = ParseLayout(layout).value();
    format.now_ns = ex.WallNs();
    (co_await FormatMetaStore(std::make_unique<MemKv>(media), format)).value();
    MetaServerOptions options;
    options.cluster.beat_ns = 100 * kMillisecond;
    server_ = std::make_unique<MetaServer>(options, std::make_unique<MemKv>(media), Random(1),
                                           std::vector<ClusterKey>{key_});
    (co_await server_->Start()).value();
    for (size_t i = 1; i <= nodes; ++i) co_await StartNode(i);
    for (auto& [address, n] : nodes_) {
      while (!n->node->agent().registered()) co_await Sleep(kMillisecond);
    }
  }

  Task<void> StartNode(size_t i) {
    const std::string name = "n" + std::to_string(i);
    auto n = std::make_unique<Node>();
    n->disk = PosixDisk::Open(n->dir.path()).value();
    n->kv = std::make_unique<MemKv>(std::make_shared<MemKvMedia>(kIndexFamilies));
    DiskSetup setup;
    setup.where = "disk of " + name;
    setup.label = "d1";
    setup.new_uuid = [i] { return Uuid{100, i}; };
    DataNodeDisk disk;
    disk.disk = n->disk.get();
    disk.kv = n->kv.get();
    disk.index_pool = pool_.get();
    disk.superblock = (co_await OpenSuperblock(n->disk.get(), setup)).value();
    disk.where = setup.where;
    DataNodeEnv env{meta_.get(), data_.get(), pool_.get()};
    DataNodeOptions options;
    options.name = name;
    options.address = AddressOf(name);
    options.meta_addresses = {"meta"};
    options.keys = {key_};
    options.new_node = Uuid{200, i};
    n->node = (co_await DataNode::Open({disk}, env, options)).value();
    DataNode* node = n->node.get();
    n->door = std::make_unique<NodeDoor>(this, &node->server());
    nodes_.emplace(options.address, std::move(n));
    node->Start();
  }

  BeforeCalls before_;
  ExecutorThread loop_;  // outlives the pool, whose work goes on there
  std::unique_ptr<ThreadPool> pool_;
  ClusterKey key_;
  std::unique_ptr<MetaDoor> meta_;
  std::unique_ptr<DataDoor> data_;
  std::unique_ptr<MetaServer> server_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;  // by address
};

// One mounted client of a cluster, on `node` if that is not "".
class MiniMount {
 public:
  MiniMount(MiniCluster* cluster, uint64_t number, RootMap roots = {}, const std::string& node = "",
            int readers = FuseMountOptions().readers, int64_t timeout_ns = 20 * kSecond)
      : cluster_(cluster), kernel_(roots) {
    CHECK(mkdtemp(path_.data()) != nullptr);
    ClientOptions options;
    options.session.addresses = {"meta"};
    options.session.client_name = "mount " + std::to_string(number);
    options.session.client_uuid = Uuid{300, number};
    options.session.node_name = node;
    options.session.timeout_ns = timeout_ns;
    options.session.seed = number;
    ExecutorThread& loop = cluster_->loop();
    loop.Do([&] {
      client_ = std::make_unique<Client>(options, cluster_->meta(), cluster_->data(), cluster_->pool(), kernel_);
      client_->Start();
      FuseAdapterOptions adapter;
      adapter.roots = roots;
      adapter.timeout_ns = timeout_ns;
      adapter.told = [this](InodeId ino) { kernel_.Told(ino); };
      adapter.given = [this](InodeId ino) { kernel_.Given(ino); };
      adapter.forgotten = [this](uint64_t node, uint64_t times) { kernel_.Forgotten(node, times); };
      adapter.names = &kernel_;
      adapter.where = [this, roots](InodeId ino) { return PathBelowRoot(client_->session(), roots, ino); };
      adapter.walk = [at = path_](const std::string& path, InodeId ino) { return WalkTo(at, path, ino); };
      adapter.in_use = [at = path_] { return DirsInUse(at); };
      adapter.warn = [this](const std::string& line) {
        if (!may_warn_) ADD_FAILURE() << "warning: " << line;
      };
      adapter.slow = [n = number](const std::string& line) { std::cerr << "mount " << n << ": " << line << std::endl; };
      adapter_ = std::make_unique<FuseAdapter>(client_->vfs(), loop.executor(), adapter);
    });
    loop.Run([this] { return client_->WaitReady(); }).value();
    MountGuard::Watch(path_);
    FuseMountOptions mount;
    mount.mountpoint = path_;
    mount.fsname = "stria:test";
    mount.options = {"default_permissions", "allow_other"};
    mount.readers = readers;
    mount_ = FuseMount::Mount(*adapter_, kernel_, mount, [this] { ++gone_; }).value();
  }
  ~MiniMount() {
    mount_->Stop();
    ExecutorThread& loop = cluster_->loop();
    loop.Run([this] { return adapter_->Drain(5 * kSecond); });
    mount_.reset();
    auto ended = loop.Run([this] { return client_->Shutdown(); });
    EXPECT_TRUE(ended.ok()) << ended.error();
    loop.Do([this] {
      adapter_.reset();
      client_.reset();
    });
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }
  FuseAdapter& adapter() { return *adapter_; }
  const FuseKernelCache& kernel() const { return kernel_; }
  Client& client() { return *client_; }
  int times_gone() const { return gone_; }
  // Something is about to go wrong that an operator is told of.
  void MayWarn() { may_warn_ = true; }

 private:
  MiniCluster* const cluster_;
  std::atomic<int> gone_ = 0;
  std::atomic<bool> may_warn_ = false;
  // Not TEST_TMPDIR: users other than ours must get there.
  std::string path_ = "/tmp/stria-mount.XXXXXX";
  FuseKernelCache kernel_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<FuseAdapter> adapter_;
  std::unique_ptr<FuseMount> mount_;
};

}  // namespace stria
