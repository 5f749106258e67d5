#include "client/jobs/job_name.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace stria {
namespace {

using namespace std::string_view_literals;
using namespace std::string_literals;

TEST(JobOfCgroup, Slurm) {
  EXPECT_EQ(JobOfCgroup("0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n"), "slurm:123");
  EXPECT_EQ(JobOfCgroup("0::/system.slice/pc7_slurmstepd.scope/job_5/step_batch/user/task_0\n"), "slurm:5");
  EXPECT_EQ(JobOfCgroup("12:cpuset:/\n5:memory:/slurm/uid_1000/job_42/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service\n"), "slurm:42");
  EXPECT_EQ(JobOfCgroup("5:memory:/slurm_pc7/uid_1000/job_42\n"), "slurm:42");
}

TEST(JobOfCgroup, Condor) {
  EXPECT_EQ(JobOfCgroup("4:memory:/htcondor/condor_var_lib_condor_execute_slot1_1@pc7.example.org\n"), "condor:slot1_1");
  EXPECT_EQ(JobOfCgroup("0::/system.slice/htcondor/condor_scratch_slot12@pc7"), "condor:slot12");
  EXPECT_EQ(JobOfCgroup("0::/system.slice/condor.service/condor_var_lib_condor_execute_slot2_3@pc7\n"), "condor:slot2_3");
  // A job of Slurm around it is the one that cannot be left.
  EXPECT_EQ(JobOfCgroup("4:memory:/htcondor/condor_execute_slot1@p\n5:cpu:/slurm/uid_1/job_9\n"), "slurm:9");
}

TEST(JobOfCgroup, OthersAreOfNoJob) {
  for (const std::string_view text :
       {""sv, "\n"sv, "0::/\n"sv, "0::/user.slice/user-1000.slice/session-3.scope\n"sv, "0::/system.slice/ssh.service\n"sv, "0::/job_12/x\n"sv,
        "0::/system.slice/slurmd.service\n"sv, "0::/slurm/job_\n"sv, "0::/slurm/job_12x\n"sv, "0::/slurm/job_123456789012345678901\n"sv,
        "0::/htcondor/condor_execute\n"sv, "0::/htcondor/condor_slot\n"sv, "0::/htcondor/condor_slot1;rm\n"sv, "0::/htcondor/slot1\n"sv, "::::"sv, "\0\xff/slurm"sv}) {
    EXPECT_EQ(JobOfCgroup(text), "") << text;
  }
}

TEST(JobEnvironment, WhatBatchSystemsSet) {
  const JobEnvironment slurm = ParseJobEnvironment("PATH=/bin\0SLURM_JOB_ID=77\0SLURM_JOB_ID_X=5\0"sv);
  EXPECT_EQ(slurm.slurm_job, "77");
  EXPECT_EQ(slurm.condor_ad, "");
  const JobEnvironment condor = ParseJobEnvironment("_CONDOR_JOB_AD=/var/lib/condor/execute/dir_4/.job.ad\0_CONDOR_SLOT=slot1_2\0"sv);
  EXPECT_EQ(condor.condor_ad, "/var/lib/condor/execute/dir_4/.job.ad");
  EXPECT_EQ(condor.condor_slot, "slot1_2");
}

TEST(JobEnvironment, WhatHasAnotherFormIsLeftOut) {
  const std::string environment = "SLURM_JOB_ID=7 8\0SLURM_JOB_ID=\0XSLURM_JOB_ID=3\0SLURM_JOB_ID\0_CONDOR_JOB_AD=job.ad\0_CONDOR_SLOT=slot1;x\0=\0"s;
  const JobEnvironment e = ParseJobEnvironment(environment);
  EXPECT_EQ(e.slurm_job, "");
  EXPECT_EQ(e.condor_ad, "");
  EXPECT_EQ(e.condor_slot, "");
  EXPECT_EQ(ParseJobEnvironment("_CONDOR_JOB_AD=/" + std::string(5000, 'x')).condor_ad, "");
}

TEST(CondorJobId, OfAnAd) {
  EXPECT_EQ(CondorJobId("Arguments = \"ClusterId = 3\"\nClusterId = 12\nProcId=0\r\nClusterIds = 5\n"), "12.0");
  EXPECT_EQ(CondorJobId("ClusterId = 12\n"), "");
  EXPECT_EQ(CondorJobId("ClusterId = twelve\nProcId = 1\n"), "");
  EXPECT_EQ(CondorJobId(""), "");
}

TEST(JobName, WhatCannotBeLeftWins) {
  JobEnvironment e;
  EXPECT_EQ(JobName("", e, ""), "other");
  e.slurm_job = "5";
  EXPECT_EQ(JobName("", e, ""), "slurm:5");
  EXPECT_EQ(JobName("slurm:7", e, ""), "slurm:7");
  e.condor_ad = "/x/.job.ad";
  EXPECT_EQ(JobName("", e, ""), "slurm:5") << "nothing is known of the other";
  e.condor_slot = "slot1";
  EXPECT_EQ(JobName("", e, ""), "condor:slot1");
  EXPECT_EQ(JobName("condor:slot2", e, ""), "condor:slot2");
  EXPECT_EQ(JobName("condor:slot2", e, "ClusterId = 1\nProcId = 2\n"), "condor:1.2");
  EXPECT_EQ(JobName("slurm:7", e, "ClusterId = 1\nProcId = 2\n"), "slurm:7");
}

}  // namespace
}  // namespace stria
