#include "server/smart.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/temp_dir.h"

namespace stria {
namespace {

namespace fs = std::filesystem;

constexpr char kAta[] = R"({"json_format_version":[1,0],"smartctl":{"version":[7,3],"exit_status":0},
 "device":{"name":"/dev/sda","type":"sat"},"model_name":"ST4000VN008-2DR166","serial_number":"ZDH1ABCD","smart_status":{"passed":true},
 "ata_smart_attributes":{"table":[
  {"id":1,"name":"Raw_Read_Error_Rate","value":79,"thresh":44,"when_failed":"","flags":{"prefailure":true},"raw":{"value":83441224}},
  {"id":5,"name":"Reallocated_Sector_Ct","value":100,"thresh":10,"when_failed":"","flags":{"prefailure":true},"raw":{"value":16}},
  {"id":190,"name":"Airflow_Temperature_Cel","value":30,"thresh":40,"when_failed":"past","flags":{"prefailure":false},"raw":{"value":31}},
  {"id":197,"name":"Current_Pending_Sector","value":100,"thresh":0,"when_failed":"","flags":{"prefailure":false},"raw":{"value":8}}]},
 "power_on_time":{"hours":34567},"temperature":{"current":31}})";
constexpr char kNvme[] = R"({"smartctl":{"exit_status":0},"device":{"name":"/dev/nvme0n1","type":"nvme"},"model_name":"Samsung SSD 980 PRO 1TB",
 "serial_number":"S5GXNF0R","smart_status":{"passed":true,"nvme":{"value":0}},
 "nvme_smart_health_information_log":{"critical_warning":0,"temperature":40,"available_spare":100,"percentage_used":2,"power_on_hours":812,
  "media_errors":0},"temperature":{"current":40},"power_on_time":{"hours":812}})";
constexpr char kFailing[] = R"({"smartctl":{"exit_status":24},"model_name":"WDC WD40","serial_number":"WD-1","smart_status":{"passed":false},
 "ata_smart_attributes":{"table":[{"id":5,"name":"Reallocated_Sector_Ct","value":1,"thresh":140,"when_failed":"now","flags":{"prefailure":true},
  "raw":{"value":1999}}]},"power_on_time":{"hours":60000}})";
constexpr char kVirtual[] = R"({"smartctl":{"version":[7,3],"exit_status":4,"messages":[{"string":"SMART support is: Unavailable"}]},
 "device":{"name":"/dev/vda"},"model_name":"QEMU HARDDISK","smart_support":{"available":false}})";

TEST(ParseSmart, ADiskThatIsWell) {
  const DiskSmart s = ParseSmart("sda", kAta).value();
  EXPECT_EQ(s.device, "sda");
  EXPECT_EQ(s.model, "ST4000VN008-2DR166");
  EXPECT_EQ(s.serial, "ZDH1ABCD");
  EXPECT_EQ(s.power_on_hours, 34567u);
  EXPECT_EQ(s.temperature_c, 31u);
  EXPECT_EQ(s.reallocated, 16u);
  EXPECT_EQ(s.pending, 8u);
  EXPECT_EQ(s.health, SmartHealth::kGood);
  EXPECT_EQ(s.problem, "");
}

TEST(ParseSmart, Nvme) {
  DiskSmart s = ParseSmart("nvme0n1", kNvme).value();
  EXPECT_EQ(s.health, SmartHealth::kGood);
  EXPECT_EQ(s.power_on_hours, 812u);
  EXPECT_EQ(s.temperature_c, 40u);
  std::string hot = kNvme, weak = kNvme, full = kNvme;
  const std::string none = "\"critical_warning\":0";
  hot.replace(hot.find(none), none.size(), "\"critical_warning\":2");
  EXPECT_EQ(ParseSmart("nvme0n1", hot)->health, SmartHealth::kGood) << "hot, and not failing";
  weak.replace(weak.find(none), none.size(), "\"critical_warning\":4");
  s = ParseSmart("nvme0n1", weak).value();
  EXPECT_EQ(s.health, SmartHealth::kFailing);
  EXPECT_NE(s.problem.find("not reliable"), std::string::npos);
  full.replace(full.find(none), none.size(), "\"critical_warning\":9");
  EXPECT_NE(ParseSmart("nvme0n1", full)->problem.find("only be read"), std::string::npos);
}

TEST(ParseSmart, ADiskThatPredictsItsFailure) {
  DiskSmart s = ParseSmart("sdb", kFailing).value();
  EXPECT_EQ(s.health, SmartHealth::kFailing);
  EXPECT_EQ(s.problem, "its attribute Reallocated_Sector_Ct is below the threshold of its maker");
  EXPECT_EQ(s.reallocated, 1999u);
  s = ParseSmart("sdb", R"({"smartctl":{},"smart_status":{"passed":false}})").value();
  EXPECT_EQ(s.health, SmartHealth::kFailing);
  EXPECT_EQ(s.problem, "its own assessment of its health has failed");
}

TEST(ParseSmart, ADiskThatSaysNothingAndWhatIsNone) {
  const DiskSmart s = ParseSmart("vda", kVirtual).value();
  EXPECT_EQ(s.health, SmartHealth::kUnknown);
  EXPECT_EQ(s.model, "QEMU HARDDISK");
  for (const char* bad : {"", "{", "[]", "null", "7", R"({"model_name":"x"})"}) EXPECT_FALSE(ParseSmart("sda", bad).ok()) << bad;
  // Whatever is of another kind than it should be counts as absent.
  const DiskSmart odd =
      ParseSmart("sda", R"({"smartctl":1,"model_name":7,"smart_status":[],"power_on_time":"x","temperature":{"current":-4},"ata_smart_attributes":{"table":[7,{}]}})")
          .value();
  EXPECT_EQ(odd.model, "");
  EXPECT_EQ(odd.temperature_c, 0u);
  EXPECT_EQ(odd.health, SmartHealth::kUnknown);
}

TEST(WorstOf, OfAMirrorTheOneThatIsFailing) {
  const DiskSmart a = ParseSmart("sda", kAta).value(), b = ParseSmart("sdb", kFailing).value(), v = ParseSmart("vda", kVirtual).value();
  EXPECT_EQ(WorstOf({a, b}).device, "sdb");
  EXPECT_EQ(WorstOf({v, a}).device, "sda");
  EXPECT_EQ(WorstOf({v}).device, "vda");
  EXPECT_EQ(WorstOf({}).device, "");
}

// A tree as /sys has it.
class DevicesTest : public testing::Test {
 protected:
  void Device(const std::string& path, unsigned a, unsigned b) {
    fs::create_directories(root() + "/devices/" + path);
    fs::create_directories(root() + "/dev/block");
    fs::create_symlink("../../devices/" + path, root() + "/dev/block/" + std::to_string(a) + ":" + std::to_string(b));
  }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  std::string root() const { return dir_.path() + "/sys"; }
  std::vector<std::string> Below(unsigned a, unsigned b) const { return DevicesBelow(makedev(a, b), root()); }
  using Names = std::vector<std::string>;
  TempDir dir_;
};

TEST_F(DevicesTest, APartitionADiskAMirrorAndNothing) {
  Device("pci/sda", 8, 0);
  Device("pci/sda/sda1", 8, 1);
  Write(root() + "/devices/pci/sda/sda1/partition", "1\n");
  Device("pci/sdb", 8, 16);
  Device("virtual/md0", 9, 0);
  fs::create_directories(root() + "/devices/virtual/md0/slaves");
  fs::create_symlink("../../../pci/sda/sda1", root() + "/devices/virtual/md0/slaves/sda1");
  fs::create_symlink("../../../pci/sdb", root() + "/devices/virtual/md0/slaves/sdb");
  Device("virtual/dm-0", 253, 0);
  fs::create_directories(root() + "/devices/virtual/dm-0/slaves");
  fs::create_symlink("../../md0", root() + "/devices/virtual/dm-0/slaves/md0");
  fs::create_directories(root() + "/devices/pci/sdb/slaves");
  EXPECT_EQ(Below(8, 0), Names{"sda"});
  EXPECT_EQ(Below(8, 1), Names{"sda"});
  EXPECT_EQ(Below(253, 0), (Names{"sda", "sdb"}));
  EXPECT_EQ(Below(7, 3), Names{}) << "there is none";
  EXPECT_EQ(Below(0, 44), Names{}) << "a filesystem on no device";
}

TEST_F(DevicesTest, ALoopDeviceLiesOnWhatItsFileLiesOn) {
  struct stat st {};
  ASSERT_EQ(::stat(dir_.path().c_str(), &st), 0);
  if (major(st.st_dev) == 0) GTEST_SKIP() << "the test's directory is on no device";
  Device("pci/sdz", major(st.st_dev), minor(st.st_dev));
  Device("virtual/loop0", 7, 0);
  Write(dir_.path() + "/image", "");
  Write(root() + "/devices/virtual/loop0/loop/backing_file", dir_.path() + "/image\n");
  if (major(st.st_dev) != 7) EXPECT_EQ(Below(7, 0), Names{"sdz"});
}

TEST_F(DevicesTest, APathThatComesLaterIsLookedAtSoon) {
  struct stat st {};
  ASSERT_EQ(::stat(dir_.path().c_str(), &st), 0);
  if (major(st.st_dev) == 0) GTEST_SKIP() << "the test's directory is on no device";
  Device("pci/sdz", major(st.st_dev), minor(st.st_dev));
  SmartOptions options;
  options.directory = dir_.path() + "/out";
  options.sys = root();
  options.period_ns = 3600 * kSecond;
  Write(options.directory + "/sdz.json", kAta);
  SmartWatch watch({dir_.path() + "/nowhere"}, options);
  watch.Add(dir_.path());
  for (int i = 0; i < 1200 && watch.Of(1).device.empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(watch.Of(1).serial, "ZDH1ABCD");
  EXPECT_EQ(watch.Of(0).device, "");
}

TEST_F(DevicesTest, WhatIsOldOrBrokenSaysNothing) {
  struct stat st {};
  ASSERT_EQ(::stat(dir_.path().c_str(), &st), 0);
  if (major(st.st_dev) == 0) GTEST_SKIP() << "the test's directory is on no device";
  Device("pci/sdz", major(st.st_dev), minor(st.st_dev));
  SmartOptions options;
  options.directory = dir_.path() + "/out";
  options.sys = root();
  EXPECT_EQ(LookAtSmart(dir_.path(), options).device, "");
  Write(options.directory + "/sdz.json", kAta);
  EXPECT_EQ(LookAtSmart(dir_.path(), options).serial, "ZDH1ABCD");
  EXPECT_EQ(LookAtSmart(dir_.path() + "/nowhere", options).device, "");
  fs::last_write_time(options.directory + "/sdz.json", fs::file_time_type::clock::now() - std::chrono::hours(48));
  EXPECT_EQ(LookAtSmart(dir_.path(), options).device, "") << "it is of the day before yesterday";
  Write(options.directory + "/sdz.json", "half of i");
  EXPECT_EQ(LookAtSmart(dir_.path(), options).device, "");
  options.directory = "";
  EXPECT_EQ(LookAtSmart(dir_.path(), options).device, "");
  SmartWatch watch({dir_.path()}, options);
  watch.Add(dir_.path());
  EXPECT_EQ(watch.Of(0).device, "");
  EXPECT_EQ(watch.Of(1).device, "");
  EXPECT_EQ(watch.Of(7).device, "");
}

}  // namespace
}  // namespace stria
