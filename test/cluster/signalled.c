// What a program does on a mount while signals reach it. Every call must do just what it does without them.
//
//   signalled loop DIR SECONDS   all calls, over and over; a handled signal every few milliseconds, stops, a debugger.
//                                Each call that fails is a line "CALL: why"; the last line is "N rounds". Exit 1 if one failed.
//   signalled one CALL DIR       prepares, says "ready", waits for a line and makes one call, with handled signals meanwhile;
//                                then says "CALL: ok" or "CALL: why". DIR has "file", "cold", "gone" and "sub".
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define BYTES 300000
static char bytes[BYTES], back[BYTES];
static int failed;

static void Nothing(int s) { (void)s; }

static void Handle(int sig, int flags) {
  struct sigaction a = {0};
  a.sa_handler = Nothing;
  a.sa_flags = flags;
  sigaction(sig, &a, 0);
}

static void Tick(void) {
  Handle(SIGALRM, SA_RESTART);
  struct itimerval every = {{0, 20000}, {0, 20000}};
  setitimer(ITIMER_REAL, &every, 0);
}

static void Pause(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
}

// -1 with a reason, or whatever else.
static long Check(const char* call, long result) {
  if (result != -1) return result;
  const int error = errno;
  failed = 1;
  printf("%s: %s\n", call, strerror(error));
  fflush(stdout);
  return result;
}

static void Whole(const char* call, long result) {
  if (Check(call, result) == BYTES || result == -1) return;
  failed = 1;
  printf("%s: %ld bytes\n", call, result);
}

// ---- signals from others

static void Signal(pid_t to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int n = 0;; ++n) {
    Pause(10);
    kill(to, SIGURG);
    kill(to, SIGCHLD);
    if (n % 20 != 0) continue;
    kill(to, SIGSTOP);
    Pause(5);
    kill(to, SIGCONT);
  }
}

static void Trace(pid_t whom) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (1) {
    Pause(300);
    if (ptrace(PTRACE_SEIZE, whom, 0, 0) != 0) continue;
    ptrace(PTRACE_INTERRUPT, whom, 0, 0);
    int status = 0;
    if (waitpid(whom, &status, __WALL) != whom || !WIFSTOPPED(status)) _exit(0);
    ptrace(PTRACE_DETACH, whom, 0, status >> 16 ? 0 : WSTOPSIG(status));
  }
}

static pid_t Start(void (*run)(pid_t), pid_t whom) {
  const pid_t child = fork();
  if (child == 0) {
    run(whom);
    _exit(0);
  }
  return child;
}

// ---- all calls

static void Round(long n) {
  char name[64], other[64];
  snprintf(name, sizeof name, "e%ld", n % 50);
  snprintf(other, sizeof other, "x%ld", n % 7);
  const int fd = (int)Check("open O_EXCL", open(name, O_CREAT | O_EXCL | O_RDWR, 0644));
  if (fd == -1) return;
  Whole("pwrite", pwrite(fd, bytes, BYTES, 0));
  Check("fdatasync", fdatasync(fd));
  memset(back, 1, BYTES);
  Whole("pread", pread(fd, back, BYTES, 0));
  if (memcmp(bytes, back, BYTES) != 0) errno = EBADMSG, Check("pread", -1);
  Check("fsync", fsync(fd));
  Check("fallocate", fallocate(fd, 0, 0, BYTES + 1));
  Check("ftruncate", ftruncate(fd, 1000));
  Check("fchmod", fchmod(fd, 0600));
  Check("setxattr", fsetxattr(fd, "user.x", "1", 1, 0));
  Check("getxattr", fgetxattr(fd, "user.x", back, 1));
  Check("flock", flock(fd, LOCK_EX | LOCK_NB));
  Whole("pwrite", pwrite(fd, bytes, BYTES, 7));
  Check("close", close(fd));
  struct stat st;
  Check("stat", stat(name, &st));
  Check("utimensat", utimensat(AT_FDCWD, name, 0, 0));
  Check("link", link(name, "linked"));
  Check("rename", rename(name, other));
  Check("symlink", symlink(other, "symlink"));
  Check("readlink", readlink("symlink", back, 100));
  Check("mkdir", mkdir("dd", 0755));
  DIR* dir = opendir("dd");
  Check("opendir", dir ? 0 : -1);
  if (dir) {
    errno = 0;
    while (readdir(dir)) {}
    Check("readdir", errno ? -1 : 0);
    closedir(dir);
  }
  const int again = (int)Check("open", open(other, O_RDONLY));
  if (again != -1) {
    void* at = mmap(0, BYTES, PROT_READ, MAP_SHARED, again, 0);
    if (Check("mmap", at == MAP_FAILED ? -1 : 0) == 0) {
      if (memcmp((char*)at + 7, bytes, BYTES - 7) != 0) errno = EBADMSG, Check("mmap", -1);
      munmap(at, BYTES);
    }
    Check("close", close(again));
  }
  struct statvfs fs;
  Check("statvfs", statvfs(".", &fs));
  Check("unlink", unlink("symlink"));
  Check("unlink", unlink("linked"));
  Check("rmdir", rmdir("dd"));
  Check("unlink", unlink(other));
}

static int Loop(int seconds) {
  Handle(SIGURG, 0);
  Handle(SIGCHLD, 0);
  Tick();
  const pid_t children[] = {Start(Signal, getpid()), Start(Trace, getpid())};
  const time_t end = time(0) + seconds;
  long rounds = 0;
  while (time(0) < end && !failed) Round(rounds++);
  for (int i = 0; i < 2; ++i) kill(children[i], SIGKILL);
  printf("%ld rounds\n", rounds);
  return failed;
}

// ---- one call

static int One(const char* call) {
  const int file = open("file", O_RDWR), cold = open("cold", O_RDONLY);
  if (file == -1 || cold == -1) return perror("open"), 2;
  Tick();
  printf("ready\n");
  fflush(stdout);
  char line[16];
  while (!fgets(line, sizeof line, stdin)) {
    if (feof(stdin)) return 2;
    clearerr(stdin);
  }
  long r = -2;
#define CALL(name, what) if (strcmp(call, name) == 0) r = (what)
  CALL("open", open("new", O_CREAT | O_EXCL | O_RDWR, 0644));
  CALL("mkdir", mkdir("made", 0755));
  CALL("rename", rename("gone", "moved"));
  CALL("unlink", unlink("gone"));
  CALL("rmdir", rmdir("sub"));
  CALL("link", link("gone", "linked"));
  CALL("symlink", symlink("gone", "symlink"));
  CALL("chmod", chmod("gone", 0600));
  CALL("setxattr", setxattr("gone", "user.x", "1", 1, 0));
  CALL("truncate", truncate("gone", 3));
  CALL("ftruncate", ftruncate(file, 3));
  CALL("fallocate", fallocate(file, 0, 0, 10 * BYTES));
  CALL("pread", pread(cold, back, BYTES, 0));
  CALL("copy", copy_file_range(cold, 0, file, 0, BYTES, 0));
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  CALL("lock", fcntl(file, F_SETLKW, &lock));
  if (strcmp(call, "fault") == 0) {
    const volatile char* at = mmap(0, BYTES, PROT_READ, MAP_SHARED, cold, 0);
    r = at[BYTES / 2] == 1 ? 1 : 0;
  }
  if (strcmp(call, "fsync") == 0) r = pwrite(file, bytes, BYTES, 0) == BYTES ? fsync(file) : -1;
  if (strcmp(call, "close") == 0) r = pwrite(file, bytes, BYTES, 0) == BYTES ? close(file) : -1;
  if (strcmp(call, "exit") == 0) {  // nothing is said after it
    r = pwrite(file, bytes, BYTES, 0);
    printf("exit: %s\n", r == BYTES ? "ok" : "short");
    fflush(stdout);
    _exit(0);
  }
  printf("%s: %s\n", call, r == -2 ? "no such call" : r == -1 ? strerror(errno) : "ok");
  fflush(stdout);
  _exit(0);
}

int main(int count, char** words) {
  for (int i = 0; i < BYTES; ++i) bytes[i] = (char)('a' + i % 23);
  if (count == 4 && chdir(words[strcmp(words[1], "one") == 0 ? 3 : 2]) == 0) {
    if (strcmp(words[1], "one") == 0) return One(words[2]);
    return Loop(atoi(words[3]));
  }
  fprintf(stderr, "signalled loop DIR SECONDS, or signalled one CALL DIR\n");
  return 64;
}
