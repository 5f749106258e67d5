// How the cost of an operation grows with the size of the store: the real operations on the real store, in one process, without
// a sync per operation. tools/bench/run scaling runs it for several sizes and makes tables of it.
//
//   scale_bench names INODES DIR [OPERATIONS] [MEMORY_MIB]    half of the inodes in one directory, half in those of 1,000
//   scale_bench extents EXTENTS DIR [OPERATIONS] [MEMORY_MIB] per file; as many files as that the measuring changes little
//
// DIR must not exist; it is removed at the end. One JSON object per line: {"progress": 0..1}, {"row", "unit", "value"} and, for
// times, "cpu": microseconds of this thread's CPU beside those of the clock; RocksDB's threads are in neither. Most times are
// the lower quartiles of small batches, so that other work on the machine falls out.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "meta/ops/scale_bench.h"

namespace stria::scale {
namespace {

int Main(int argc, char** argv) {
  const std::string what = argc >= 4 ? argv[1] : "";
  if (what != "names" && what != "extents") {
    std::fprintf(stderr, "usage: scale_bench names|extents NUMBER DIR [OPERATIONS] [MEMORY_MIB]\n");
    return 64;
  }
  Params p;
  p.size = std::strtoull(argv[2], nullptr, 10);
  p.dir = argv[3];
  p.operations = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 5000;
  p.memory_bytes = (argc > 5 ? std::strtoull(argv[5], nullptr, 10) : 512) * kMiB;  // 512 MiB: stria-meta's
  const uint64_t least = what == "names" ? 1000 : 1;
  if (p.size < least || p.operations < 100) {
    std::fprintf(stderr, "scale_bench: at least %llu of them and 100 operations\n", static_cast<unsigned long long>(least));
    return 64;
  }
  if (what == "names") BenchNames(p);
  else BenchExtents(p);
  PrintProgress(1);
  return 0;
}

}  // namespace
}  // namespace stria::scale

int main(int argc, char** argv) { return stria::scale::Main(argc, argv); }
