#include "proto/bulk_loop.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "common/check.h"

namespace stria {
namespace {
constexpr int kMaxEvents = 64;  // taken at once
}  // namespace

BulkLoop::BulkLoop(const std::string& thread_name)
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(epoll_fd_ >= 0 && wake_fd_ >= 0, "out of descriptors");
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = wake_fd_;
  CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event) == 0);
  thread_ = std::thread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), thread_name.substr(0, 15).c_str());
}

BulkLoop::~BulkLoop() {
  Stop();
  close(epoll_fd_);
  close(wake_fd_);
}

void BulkLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof one);  // full means that it wakes anyway
}

void BulkLoop::Run(std::function<void()> fn) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (stop_) return;
    posted_.push_back(std::move(fn));
    wake = sleeping_;
    sleeping_ = false;
  }
  if (wake) Wake();
}

void BulkLoop::Stop() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  Wake();
  CHECK(std::this_thread::get_id() != thread_.get_id(), "a loop cannot wait for its own end (Executor::EndHelp)");
  if (thread_.joinable()) thread_.join();
  posted_.clear();
  by_fd_.clear();
}

void BulkLoop::Watch(int fd, std::shared_ptr<Watcher> watcher) {
  if (by_fd_.size() <= static_cast<size_t>(fd)) by_fd_.resize(static_cast<size_t>(fd) + 1);
  by_fd_[static_cast<size_t>(fd)] = std::move(watcher);
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.fd = fd;
  CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0, "cannot watch a socket");
}

void BulkLoop::Forget(int fd) {
  (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  if (by_fd_.size() > static_cast<size_t>(fd)) by_fd_[static_cast<size_t>(fd)].reset();
}

void BulkLoop::Loop() {
  epoll_event events[kMaxEvents];
  std::vector<std::function<void()>> batch;
  while (true) {
    bool more;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stop_) return;
      more = !posted_.empty();
      sleeping_ = !more;
    }
    const int n = epoll_wait(epoll_fd_, events, kMaxEvents, more ? 0 : -1);
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stop_) return;
      sleeping_ = false;
      batch.swap(posted_);
    }
    for (int i = 0; i < n; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_fd_) {
        uint64_t count;
        (void)!read(wake_fd_, &count, sizeof count);
        continue;
      }
      // A copy: it may be forgotten while it is told.
      const std::shared_ptr<Watcher> watcher = by_fd_[static_cast<size_t>(fd)];
      if (!watcher) continue;
      const uint32_t e = events[i].events;
      const bool ended = (e & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
      watcher->OnReady(ended || (e & EPOLLIN) != 0, (e & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0, ended);
    }
    for (auto& fn : batch) fn();
    batch.clear();
  }
}

}  // namespace stria
