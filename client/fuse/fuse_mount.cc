#include "client/fuse/fuse_mount.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "client/fuse/mount_table.h"
#include "common/check.h"
#include "common/exec/loop_executor.h"
#include "common/sentence.h"

namespace stria {
namespace {

constexpr size_t kHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);

// The mount whose request this reader's thread processes. libfuse's own user data is the adapter, for the operations; libfuse's
// hooks find the mount here. Replies from other threads need neither.
thread_local FuseMount* reading_mount = nullptr;

// Does nothing, but ends a system call.
constexpr int kKickSignal = SIGUSR2;
void OnKick(int) {}

// libfuse parts options at commas.
std::string Escaped(const std::string& option) {
  std::string out;
  for (const char c : option) out += (c == ',' || c == '\\' ? std::string{'\\', c} : std::string{c});
  return out;
}

// libfuse repeats options, and paths.
void SayWhatLibfuseSays(fuse_log_level, const char* format, va_list args) {
  char said[1024];
  std::vsnprintf(said, sizeof said, format, args);
  std::string_view text = said;
  while (text.ends_with('\n')) text.remove_suffix(1);
  SaySentence("stria-mount", text);
}

// libfuse 3.14 does not know the option.
Result<void> FollowNoSymlinks(const std::string& mountpoint) {
  mount_attr change = {};
  change.attr_set = MOUNT_ATTR_NOSYMFOLLOW;
  if (mount_setattr(AT_FDCWD, mountpoint.c_str(), 0, &change, sizeof change) == 0) return Ok();
  return ErrnoError(errno, "mount with nosymfollow (root can, since Linux 5.14)");
}

bool MayTryAgain(int err) { return err == EINTR || err == EAGAIN || err == ENOENT; }

}  // namespace

FuseMount::FuseMount(FuseAdapter& adapter, FuseKernelCache& kernel, FuseMountOptions options,
                     std::function<void()> on_gone)
    : adapter_(adapter), kernel_(kernel), options_(std::move(options)), on_gone_(std::move(on_gone)),
      buffers_(kHeaderBytes, kMaxWriteBytes, options_.max_idle_buffers, options_.max_buffers) {}

FuseMount::~FuseMount() {
  CHECK(threads_.empty() || stopped_, "Stop comes first");
  for (std::thread& t : threads_) t.join();
  if (session_) fuse_session_destroy(session_);
}

Result<std::unique_ptr<FuseMount>> FuseMount::Mount(FuseAdapter& adapter, FuseKernelCache& kernel,
                                                    FuseMountOptions options, std::function<void()> on_gone) {
  std::unique_ptr<FuseMount> m(new FuseMount(adapter, kernel, std::move(options), std::move(on_gone)));
  auto started = m->Start();
  if (!started.ok()) {
    m->Stop();
    return started.error();
  }
  return m;
}

Result<void> FuseMount::Start() {
  std::string all = "fsname=" + Escaped(options_.fsname) + ",subtype=stria";
  for (const std::string& o : options_.options) all += "," + Escaped(o);
  std::string name = "stria-mount", dash_o = "-o";
  char* argv[] = {name.data(), dash_o.data(), all.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(3, argv);
  fuse_set_log_func(SayWhatLibfuseSays);
  fuse_lowlevel_ops ops = FuseAdapter::Ops();
  ops.init = [](void*, fuse_conn_info* conn) { reading_mount->ChooseFeatures(conn); };
  session_ = fuse_session_new(&args, &ops, sizeof(ops), &adapter_);
  fuse_opt_free_args(&args);
  if (!session_) return Error(FsError::kInval, "the mount options are not understood: " + all);
  if (fuse_session_mount(session_, options_.mountpoint.c_str()) != 0) {
    return Error(FsError::kIo, "cannot mount on " + options_.mountpoint + ": can /dev/fuse be opened?");
  }
  if (options_.no_symlinks) RETURN_IF_ERROR(FollowNoSymlinks(options_.mountpoint));
  fd_ = fuse_session_fd(session_);
  adapter_.SetDevice(fd_);
  entry_ = FindMount(options_.mountpoint);
  fuse_custom_io io = {};
  io.writev = [](int fd, iovec* parts, int count, void*) -> ssize_t {
    return reading_mount ? reading_mount->Send(fd, parts, count) : writev(fd, parts, count);
  };
  io.read = [](int fd, void* to, size_t room, void*) -> ssize_t { return read(fd, to, room); };
  CHECK(fuse_session_custom_io(session_, &io, fd_) == 0);
  struct sigaction kick = {};
  kick.sa_handler = OnKick;
  sigaction(kKickSignal, &kick, nullptr);
  kernel_.Attach(session_);
  readers_ = reading_ = options_.readers;
  for (int i = 0; i < options_.readers; ++i) {
    threads_.emplace_back([this] { ReadLoop(); });
    pthread_setname_np(threads_.back().native_handle(), ("fuse" + std::to_string(i)).c_str());
  }
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait_for(lock, std::chrono::milliseconds(kInitTimeoutMs), [this] { return answered_ || gone_; });
  if (!answered_) return Error(FsError::kTimedOut, "the kernel did not start to use " + options_.mountpoint);
  lock.unlock();
  // The kernel sets its own limit, 128 KiB, when it takes the answer to INIT: larger only from here on.
  if (entry_ && geteuid() == 0) (void)SetReadAhead(*entry_, options_.read_ahead_bytes);
  return Ok();
}

// While libfuse makes its answer to INIT.
void FuseMount::ChooseFeatures(fuse_conn_info* conn) const {
  auto want = [conn](unsigned flags, bool on) {
    conn->want = on ? conn->want | (conn->capable & flags) : conn->want & ~flags;
  };
  want(FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ATOMIC_O_TRUNC, true);
  want(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO, false);  // the kernel asks for each name at each use anyway (ops_dirs.cc)
  want(FUSE_CAP_EXPORT_SUPPORT, true);  // file handles outlive the kernel's inodes (LookupByNumber)
  want(FUSE_CAP_CACHE_SYMLINKS, true);  // a symlink's target never changes, and its number is never used again
  // The mount drops pages when the server says so. Before the kernel reads from pages it checks whether the attributes are still
  // valid, and asks if not (AttrView::PagesGated).
  want(FUSE_CAP_AUTO_INVAL_DATA, true);
  want(FUSE_CAP_EXPLICIT_INVAL_DATA, false);
  want(FUSE_CAP_WRITEBACK_CACHE, false);
  // Requests are read into the mount's own buffers, replies are written from memory.
  want(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE, false);
  want(FUSE_CAP_HANDLE_KILLPRIV, false);  // its second version is added by ExtendInitReply
  want(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS, true);
  // The mount applies the umask: a directory may have a default access control list in its place.
  want(FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK, true);
  conn->max_write = kMaxWriteBytes;
  conn->max_background = options_.max_background;
  conn->congestion_threshold = options_.max_background * 3 / 4;
}

bool FuseMount::WaitReadersEnd(int64_t timeout_ms) {
  std::unique_lock<std::mutex> lock(mu_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return readers_ == 0; });
}

// Ends the connection even if another process still has the filesystem mounted (an open file, a container that was started
// meanwhile and got a copy of all mounts). The kernel ends it only with its last descriptor.
void FuseMount::Disconnect() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(null >= 0 && dup3(null, fd_, O_CLOEXEC) == fd_, "cannot replace a descriptor");
  close(null);
  // A reader that waits in read(2) keeps the old one; a signal takes it out of there.
  while (!WaitReadersEnd(kKickPeriodMs)) {
    for (std::thread& t : threads_) pthread_kill(t.native_handle(), kKickSignal);
  }
}

void FuseMount::Stop() {
  if (threads_.empty() || stopped_) return;
  stopped_ = true;
  fuse_session_exit(session_);  // or libfuse complains that it cannot send answers
  bool gone;
  {
    std::lock_guard<std::mutex> lock(mu_);
    gone = gone_;
  }
  // Another filesystem may be mounted on top of this one, or in its place.
  const std::optional<MountEntry> now = FindMount(options_.mountpoint);
  const bool ours = now && entry_ && now->dev_major == entry_->dev_major && now->dev_minor == entry_->dev_minor;
  if (!gone && ours && !Unmount(options_.mountpoint, false).ok()) {
    (void)Unmount(options_.mountpoint, true);
  }
  (void)WaitReadersEnd(kStopTimeoutMs);
  Disconnect();
  kernel_.Detach();
}

void FuseMount::ReadLoop() {
  reading_mount = this;
  ReaderSlot slot;
  slot.payload_bytes = kMaxWriteBytes;
  FuseAdapter::SetReaderSlot(&slot);
  int err = 0;
  while (true) {
    if (!slot.buffer) slot.buffer = buffers_.Take();
    const ssize_t n = read(fd_, slot.buffer.get(), buffers_.capacity_bytes());
    if (n < 0 && MayTryAgain(errno)) continue;
    if (n <= 0) {
      err = n < 0 ? errno : ENODEV;  // disconnected
      break;
    }
    if (n < static_cast<ssize_t>(sizeof(fuse_in_header))) continue;
    if (options_.wake) options_.wake->Note(BoottimeNs());
    Process(slot.buffer.get(), static_cast<size_t>(n));
    if (std::exchange(slot.taken, false)) slot.buffer.reset();
  }
  FuseAdapter::SetReaderSlot(nullptr);
  reading_mount = nullptr;
  bool last;
  {
    std::lock_guard<std::mutex> lock(mu_);
    gone_ = true;
    last = --reading_ == 0;  // not by `readers_`: the last two may both be here before it sinks
  }
  // ENODEV is how a mount ends.
  if (last && err != ENODEV) adapter_.WarnFromReader(ErrnoError(err, "read requests of " + options_.mountpoint));
  if (last && on_gone_) on_gone_();
  std::lock_guard<std::mutex> lock(mu_);
  --readers_;
  changed_.notify_all();
}

void FuseMount::Process(const uint8_t* request, size_t bytes) {
  fuse_in_header header;
  std::memcpy(&header, request, sizeof(header));
  if (header.opcode == FUSE_INIT && !init_done_) {
    std::memcpy(&init_in_, request + sizeof(header), std::min(bytes - sizeof(header), sizeof(init_in_)));
    init_unique_ = header.unique;
  }
  fuse_buf buf = {};
  buf.size = bytes;
  buf.mem = const_cast<uint8_t*>(request);
  fuse_session_process_buf(session_, &buf);
}

// On a reader's thread.
ssize_t FuseMount::Send(int fd, iovec* parts, int count) {
  if (init_done_ || count != 2 || parts[0].iov_len != sizeof(fuse_out_header) ||
      parts[1].iov_len != sizeof(fuse_init_out)) {
    return writev(fd, parts, count);
  }
  fuse_out_header header;
  std::memcpy(&header, parts[0].iov_base, sizeof(header));
  if (header.unique != init_unique_ || header.error != 0) return writev(fd, parts, count);
  fuse_init_out out;
  std::memcpy(&out, parts[1].iov_base, sizeof(out));
  adapter_.SetFeatures(ExtendInitReply(init_in_, adapter_.wants_passthrough(), &out, sizeof(out)));
  iovec mine[2] = {parts[0], {&out, sizeof(out)}};
  const ssize_t sent = writev(fd, mine, 2);
  if (sent > 0) {
    init_done_ = true;
    std::lock_guard<std::mutex> lock(mu_);
    answered_ = true;
    changed_.notify_all();
  }
  return sent;
}

}  // namespace stria
