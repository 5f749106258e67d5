#include "client/fuse/request.h"

#include <linux/fuse.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "client/fuse/fuse_adapter.h"
#include "client/fuse/kernel_names.h"

namespace stria {
namespace {

constexpr size_t kMaxReplyParts = 256;  // well below IOV_MAX

// Errors that mean something to the application are its own affair; the others are the operator's.
bool IsForTheOperator(FsError code) {
  return code == FsError::kIo || code >= FsError::kTimedOut;
}

// The kernel's answer to a reply: it may have given up waiting (ENOENT), or be gone.
bool Wanted(int reply_result) { return reply_result == 0; }

}  // namespace

// Every fuse_req_t must be answered, or libfuse keeps it for ever: the mount is being torn down.
FuseRequest::~FuseRequest() {
  if (req_) Fail(FsError::kIo);
}

fuse_req_t FuseRequest::Take() {
  if (req_) {
    const int64_t took_ns = Executor::Current().NowNs() - asked_.at_ns;
    adapter_.times_.Add(asked_.opcode, took_ns);
    if (use_) {
      ++use_->io.operations;
      if (asked_.opcode != FUSE_SETLKW) use_->io.waited_ns += took_ns;
    }
  }
  return std::exchange(req_, nullptr);
}

std::optional<std::string> FuseRequest::JobsSoFar() const {
  if (!adapter_.options_.jobs) return std::nullopt;
  return adapter_.options_.jobs->Text(Executor::Current().NowNs());
}

std::string FuseAsked::ToString() const {
  const char* name = "request";
  switch (opcode) {
    case FUSE_LOOKUP: name = "lookup in directory"; break;
    case FUSE_GETATTR: name = "stat of"; break;
    case FUSE_SETATTR: name = "change of attributes of"; break;
    case FUSE_MKDIR:
    case FUSE_MKNOD:
    case FUSE_CREATE:
    case FUSE_SYMLINK: name = "creation in directory"; break;
    case FUSE_UNLINK:
    case FUSE_RMDIR: name = "removal in directory"; break;
    case FUSE_RENAME:
    case FUSE_RENAME2: name = "rename from directory"; break;
    case FUSE_LINK: name = "link into directory"; break;
    case FUSE_OPEN: name = "open of"; break;
    case FUSE_READ: name = "read of"; break;
    case FUSE_WRITE: name = "write to"; break;
    case FUSE_FLUSH: name = "close of"; break;
    case FUSE_RELEASE: name = "last close of"; break;
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR: name = "fsync of"; break;
    case FUSE_FALLOCATE: name = "fallocate of"; break;
    case FUSE_COPY_FILE_RANGE: name = "copy from"; break;
    case FUSE_READDIR: name = "listing of directory"; break;
    default: return "request " + std::to_string(opcode) + " of inode " + std::to_string(ino.v);
  }
  return std::string(name) + " inode " + std::to_string(ino.v);
}

bool FuseRequest::Fail(FsError code) {
  if (req_ && may_be_judged_again_ && (code == FsError::kAccess || code == FsError::kPerm)) {
    refused_ = code;
    return false;
  }
  fuse_req_t req = Take();
  // Servers that do not answer give EIO: programs do not expect ETIMEDOUT of a file.
  const int error = ToErrno(code == FsError::kTimedOut ? FsError::kIo : code);
  return req && Wanted(fuse_reply_err(req, LookupErrno(code, name_kept_, error)));
}

bool FuseRequest::Fail(const Error& error) {
  if (req_ && IsForTheOperator(error.code)) adapter_.Warn(error);
  return Fail(error.code);
}

namespace {
EntryOut Unkept(EntryOut entry) {
  entry.attr_valid_ns = 0;
  return entry;
}
}  // namespace

bool FuseRequest::Entry(const Result<EntryOut>& entry, bool changed, int64_t name_valid_ns) {
  if (!entry.ok()) return Fail(entry.error());
  fuse_req_t req = Take();
  if (!req) return false;
  const EntryOut given = changed ? Unkept(*entry) : *entry;
  adapter_.Told(given);
  adapter_.Given(given.attr.ino);
  adapter_.vfs().kernel_side().SizeShown(given.attr.ino, given.attr.size);
  fuse_entry_out out = MakeEntryOut(given, adapter_.roots(), name_valid_ns);
  adapter_.owner().Apply(&out.attr);
  const bool wanted = Wanted(fuse_reply_buf(req, reinterpret_cast<const char*>(&out), sizeof(out)));
  if (!wanted) adapter_.TakeBack(given.attr.ino);
  return wanted;
}

bool FuseRequest::Attributes(const Result<EntryOut>& entry, bool changed) {
  if (!entry.ok()) return Fail(entry.error());
  fuse_req_t req = Take();
  if (!req) return false;
  adapter_.vfs().kernel_side().SizeShown(entry->attr.ino, entry->attr.size);
  fuse_attr_out out = MakeAttrOut(changed ? Unkept(*entry) : *entry);
  adapter_.owner().Apply(&out.attr);
  return Wanted(fuse_reply_buf(req, reinterpret_cast<const char*>(&out), sizeof(out)));
}

// libfuse 3.14 does not know all flags of an open reply, so the replies are made here.
bool FuseRequest::Opened(const EntryOut* entry, uint64_t handle, uint32_t open_flags, int32_t backing) {
  fuse_req_t req = Take();
  if (!req) return false;
  struct {
    fuse_entry_out entry;
    fuse_open_out open;
  } out = {};
  static_assert(sizeof(out) == sizeof(fuse_entry_out) + sizeof(fuse_open_out));
  out.open.fh = handle;
  out.open.open_flags = open_flags;
  out.open.padding = static_cast<uint32_t>(backing);  // backing_id, newer than the system's linux/fuse.h
  if (!entry) return Wanted(fuse_reply_buf(req, reinterpret_cast<const char*>(&out.open), sizeof(out.open)));
  adapter_.Given(entry->attr.ino);
  adapter_.vfs().kernel_side().SizeShown(entry->attr.ino, entry->attr.size);
  out.entry = MakeEntryOut(Unkept(*entry), adapter_.roots());
  adapter_.owner().Apply(&out.entry.attr);
  const bool wanted = Wanted(fuse_reply_buf(req, reinterpret_cast<const char*>(&out), sizeof(out)));
  if (!wanted) adapter_.TakeBack(entry->attr.ino);
  return wanted;
}

bool FuseRequest::Bytes(std::string_view bytes) {
  fuse_req_t req = Take();
  return req && Wanted(fuse_reply_buf(req, bytes.data(), bytes.size()));
}

bool FuseRequest::Data(BufferChain bytes) {
  fuse_req_t req = Take();
  if (!req) return false;
  if (use_ && asked_.opcode == FUSE_READ) use_->io.read_bytes += bytes.size();
  const bool large = bytes.size() >= FuseAdapter::kReplyElsewhereBytes;
  if (bytes.parts().size() > kMaxReplyParts) bytes = BufferChain(bytes.Flatten());
  auto send = [req, bytes = std::move(bytes)] {
    std::vector<iovec> parts;
    parts.reserve(bytes.parts().size());
    for (const Buffer& b : bytes.parts()) parts.push_back({const_cast<uint8_t*>(b.data()), b.size()});
    return Wanted(fuse_reply_iov(req, parts.data(), static_cast<int>(parts.size())));
  };
  if (!large) return send();
  adapter_.replies().Submit(std::move(send));
  return true;
}

bool FuseRequest::Written(uint64_t bytes) {
  fuse_req_t req = Take();
  if (req && use_ && asked_.opcode == FUSE_WRITE) use_->io.written_bytes += bytes;
  return req && Wanted(fuse_reply_write(req, bytes));
}

bool FuseRequest::Xattr(std::string_view value, size_t room) {
  if (room != 0 && value.size() > room) return Fail(FsError::kRange);
  fuse_req_t req = Take();
  if (!req) return false;
  if (room == 0) return Wanted(fuse_reply_xattr(req, value.size()));
  return Wanted(fuse_reply_buf(req, value.data(), value.size()));
}

bool FuseRequest::StatFs(const StatFsReply& reply) {
  fuse_req_t req = Take();
  if (!req) return false;
  const struct statvfs out = MakeStatVfs(reply);
  return Wanted(fuse_reply_statfs(req, &out));
}

bool FuseRequest::Link(const std::string& target) {
  fuse_req_t req = Take();
  return req && Wanted(fuse_reply_readlink(req, target.c_str()));
}

bool FuseRequest::Lock(const struct flock& lock) {
  fuse_req_t req = Take();
  return req && Wanted(fuse_reply_lock(req, &lock));
}

void FuseRequest::WhenInterrupted(std::function<void()> fn) {
  when_interrupted_ = std::move(fn);
  if (interrupted_) when_interrupted_();
}

bool FuseRequest::Offset(uint64_t offset) {
  fuse_req_t req = Take();
  return req && Wanted(fuse_reply_lseek(req, static_cast<off_t>(offset)));
}

}  // namespace stria
