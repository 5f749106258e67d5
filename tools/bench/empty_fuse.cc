// A FUSE filesystem with nothing behind it, for the benchmark: the ceiling that the kernel's side of FUSE leaves. Files of one
// directory, whose bytes repeat the last write to their first 4 MiB. The kernel keeps them in its page cache, and reads ahead
// and transfers as much at a time as for stria-mount.
//
// usage: empty_fuse MOUNTPOINT; ends when it is unmounted, or told to. One thread.
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr size_t kPeriodBytes = 4 << 20;
constexpr unsigned kRequestBytes = 1 << 20;
constexpr double kForeverSeconds = 86'400;

struct File {
  std::string name;
  off_t size = 0;
  std::vector<char> bytes = std::vector<char>(kPeriodBytes);
};
std::map<fuse_ino_t, File> files;
fuse_ino_t next_ino = FUSE_ROOT_ID + 1;

struct stat Attr(fuse_ino_t ino) {
  struct stat st = {};
  st.st_ino = ino;
  st.st_nlink = 1;
  if (ino == FUSE_ROOT_ID) {
    st.st_mode = S_IFDIR | 0777;
  } else {
    st.st_mode = S_IFREG | 0666;
    st.st_size = files[ino].size;
  }
  return st;
}
fuse_ino_t Find(const char* name) {
  for (const auto& [ino, f] : files) {
    if (f.name == name) return ino;
  }
  return 0;
}
fuse_entry_param Entry(fuse_ino_t ino) {
  fuse_entry_param e = {};
  e.ino = ino;
  e.attr = Attr(ino);
  e.attr_timeout = e.entry_timeout = kForeverSeconds;
  return e;
}

void Init(void*, fuse_conn_info* conn) {
  conn->max_write = kRequestBytes;
  conn->max_readahead = kRequestBytes;
  conn->want &= ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_AUTO_INVAL_DATA);
}
void Lookup(fuse_req_t req, fuse_ino_t, const char* name) {
  const fuse_ino_t ino = Find(name);
  if (ino == 0) {
    fuse_reply_err(req, ENOENT);
    return;
  }
  const fuse_entry_param e = Entry(ino);
  fuse_reply_entry(req, &e);
}
void GetAttr(fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
  const struct stat st = Attr(ino);
  fuse_reply_attr(req, &st, kForeverSeconds);
}
void SetAttr(fuse_req_t req, fuse_ino_t ino, struct stat* attr, int set, fuse_file_info*) {
  if ((set & FUSE_SET_ATTR_SIZE) != 0 && ino != FUSE_ROOT_ID) files[ino].size = attr->st_size;
  const struct stat st = Attr(ino);
  fuse_reply_attr(req, &st, kForeverSeconds);
}
void Open(fuse_req_t req, fuse_ino_t, fuse_file_info* fi) {
  fi->keep_cache = 1;
  fuse_reply_open(req, fi);
}
void Create(fuse_req_t req, fuse_ino_t, const char* name, mode_t, fuse_file_info* fi) {
  fuse_ino_t ino = Find(name);
  if (ino == 0) {
    ino = next_ino++;
    files[ino].name = name;
  }
  fi->keep_cache = 1;
  const fuse_entry_param e = Entry(ino);
  fuse_reply_create(req, &e, fi);
}
void Unlink(fuse_req_t req, fuse_ino_t, const char* name) {
  files.erase(Find(name));
  fuse_reply_err(req, 0);
}
void Read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  File& f = files[ino];
  const off_t end = std::min<off_t>(f.size, offset + static_cast<off_t>(size));
  std::vector<iovec> parts;
  while (offset < end) {
    const size_t at = static_cast<size_t>(offset) % kPeriodBytes;
    const size_t n = std::min(kPeriodBytes - at, static_cast<size_t>(end - offset));
    parts.push_back({f.bytes.data() + at, n});
    offset += static_cast<off_t>(n);
  }
  fuse_reply_iov(req, parts.data(), static_cast<int>(parts.size()));
}
void Write(fuse_req_t req, fuse_ino_t ino, const char* bytes, size_t size, off_t offset, fuse_file_info*) {
  File& f = files[ino];
  const size_t at = static_cast<size_t>(offset);
  if (at < kPeriodBytes) memcpy(f.bytes.data() + at, bytes, std::min(size, kPeriodBytes - at));
  f.size = std::max<off_t>(f.size, offset + static_cast<off_t>(size));
  fuse_reply_write(req, size);
}
void Fsync(fuse_req_t req, fuse_ino_t, int, fuse_file_info*) { fuse_reply_err(req, 0); }

// As far as stria-mount has the kernel read ahead: more than it does by itself for FUSE.
void ReadAhead(const char* mountpoint, int kib) {
  struct stat st;
  if (stat(mountpoint, &st) != 0) return;
  std::ofstream("/sys/class/bdi/" + std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev)) + "/read_ahead_kb") << kib;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: empty_fuse MOUNTPOINT\n");
    return 2;
  }
  fuse_lowlevel_ops ops = {};
  ops.init = Init;
  ops.lookup = Lookup;
  ops.getattr = GetAttr;
  ops.setattr = SetAttr;
  ops.open = Open;
  ops.create = Create;
  ops.unlink = Unlink;
  ops.read = Read;
  ops.write = Write;
  ops.fsync = Fsync;
  char* names[] = {argv[0], const_cast<char*>("-ofsname=empty,default_permissions"), nullptr};
  fuse_args args = FUSE_ARGS_INIT(2, names);
  fuse_session* session = fuse_session_new(&args, &ops, sizeof ops, nullptr);
  if (session == nullptr || fuse_set_signal_handlers(session) != 0 || fuse_session_mount(session, argv[1]) != 0) return 1;
  // stat() needs an answer of the loop below.
  const pid_t child = fork();
  if (child == 0) {
    ReadAhead(argv[1], 4096);
    _exit(0);
  }
  const int done = fuse_session_loop(session);
  fuse_session_unmount(session);
  fuse_remove_signal_handlers(session);
  fuse_session_destroy(session);
  fuse_opt_free_args(&args);
  return done == 0 ? 0 : 1;
}
