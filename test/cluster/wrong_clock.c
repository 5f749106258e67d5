// Preloaded (LD_PRELOAD), gives a process a wall clock that is wrong by what the file $WRONG_CLOCK says: 8 bytes,
// nanoseconds, in this machine's byte order. Whoever writes the file makes the clock jump. Clocks that never jump are
// left alone. (libfaketime cannot be loaded together with jemalloc.)
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* offset;

__attribute__((constructor)) static void Open(void) {
  const char* path = getenv("WRONG_CLOCK");
  const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void* at = mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t clock, struct timespec* to) {
  if (syscall(SYS_clock_gettime, clock, to) != 0) return -1;
  if (!offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return 0;
  const int64_t ns = to->tv_sec * INT64_C(1000000000) + to->tv_nsec + *offset;
  to->tv_sec = ns / 1000000000;
  to->tv_nsec = ns % 1000000000;
  return 0;
}

int gettimeofday(struct timeval* to, void* zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
