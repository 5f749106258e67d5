// Debian's RocksDB is not compiled with the thread sanitizer, which therefore does not see the atomic count of a Version's
// users, and takes the last of them to free it for a race with one that has read before. Nothing else of RocksDB is passed
// over: our FileSystem is called by it.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_suppressions() { return "race:rocksdb::Version::Unref\n"; }
#endif
#endif
