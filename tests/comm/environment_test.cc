// Tests how variables of launchers, as dumped from real ones, are read.
#include "engine/comm/launch/environment.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/base/error.h"

namespace hawser::comm {
namespace environment_test {

using Variables = std::map<std::string, std::string>;

LaunchEnvironment read(const Variables& variables) {
  return read_launch_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refused(const Variables& variables) {
  try {
    read(variables);
    return "accepted";
  } catch (const Error& error) {
    return error.message();
  }
}

/// torchrun 2.x, two processes on each of two nodes: rank 2 of 4.
const Variables kTorchrun = {{"LOCAL_RANK", "0"},
                             {"RANK", "2"},
                             {"GROUP_RANK", "1"},
                             {"ROLE_RANK", "2"},
                             {"ROLE_NAME", "default"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"WORLD_SIZE", "4"},
                             {"GROUP_WORLD_SIZE", "2"},
                             {"ROLE_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node-a"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"},
                             {"TORCHELASTIC_MAX_RESTARTS", "3"},
                             {"TORCHELASTIC_RUN_ID", "finetune"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                             {"OMP_NUM_THREADS", "1"}};

/// Open MPI 4.1.4 on one machine (mpirun -n 2), with the PMIx variables that it also sets.
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                            {"OMPI_UNIVERSE_SIZE", "4"},
                            {"OMPI_MCA_orte_hnp_uri", "416546816.0;tcp://10.1.0.2:52117"},
                            {"OMPI_MCA_ess_base_jobid", "416546817"},
                            {"PMIX_NAMESPACE", "416546817"},
                            {"PMIX_RANK", "1"},
                            {"PMIX_VERSION", "4.2.2rc2"}};

/// srun of Slurm 22.05: five tasks over three nodes; this is the first task of the third node.
const Variables kSlurm = {{"SLURM_JOB_ID", "81234"},
                          {"SLURM_JOBID", "81234"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEPID", "0"},
                          {"SLURM_PROCID", "4"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_NTASKS", "5"},
                          {"SLURM_NPROCS", "5"},
                          {"SLURM_NNODES", "3"},
                          {"SLURM_JOB_NUM_NODES", "3"},
                          {"SLURM_JOB_NODELIST", "gpu[007-009]"},
                          {"SLURM_NODELIST", "gpu[007-009]"},
                          {"SLURM_STEP_NODELIST", "gpu[007-009]"},
                          {"SLURM_STEP_NUM_NODES", "3"},
                          {"SLURM_STEP_NUM_TASKS", "5"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                          {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                          {"SLURMD_NODENAME", "gpu009"},
                          {"SLURM_LAUNCH_NODE_IPADDR", "10.2.0.7"},
                          {"SLURM_SRUN_COMM_HOST", "10.2.0.7"},
                          {"SLURM_SRUN_COMM_PORT", "43025"},
                          {"SLURM_TASK_PID", "7041"}};

/// MPICH 4 (hydra), two processes on one machine.
const Variables kPmi = {{"PMI_RANK", "0"},        {"PMI_SIZE", "2"},        {"PMI_FD", "8"},
                        {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "0"}, {"HYDI_CONTROL_FD", "7"}};

/// srun --mpi=pmix or prterun: PMIx sets no variable with the size.
const Variables kPmix = {
    {"PMIX_RANK", "3"},          {"PMIX_NAMESPACE", "prterun-node-a-714@1"},
    {"PMIX_HOSTNAME", "node-a"}, {"PMIX_SERVER_URI4", "prterun-node-a-714@0.0;tcp4://127.0.0.1:41"},
    {"HAWSER_WORLD_SIZE", "8"},  {"HAWSER_ADDRESS", "node-a:29500"}};

/// A pod of an indexed Job, with the variables that packaging/kubernetes/jobset.yaml adds.
const Variables kKubernetes = {{"JOB_COMPLETION_INDEX", "3"},
                               {"HOSTNAME", "hawser-ranks-0-3"},
                               {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                               {"KUBERNETES_SERVICE_PORT", "443"},
                               {"HAWSER_WORLD_SIZE", "4"},
                               {"HAWSER_ADDRESS", "hawser-ranks-0-0.hawser:29500"},
                               {"HAWSER_JOB", "hawser 5d0c"},
                               {"HAWSER_SECRET_FILE", "/secret/job"}};

struct Case {
  const char* launcher;
  Variables variables;
  int32_t rank, world_size, local_world_size;
  std::string address, job;
};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
std::string at(const std::string& host, const std::string& job) {
  return host + ":" + std::to_string(port_of_job(job));
}

const std::vector<Case>& cases() {
  static const std::string torch_job = "torchrun finetune 29500 1", slurm_job = "slurm 81234.0";
  static const std::vector<Case> all = {
      {"torchrun", kTorchrun, 2, 4, 2, at("node-a", torch_job), torch_job},
      {"torchrun", with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}), 2, 4, 2, "node-a:29500",
       torch_job},
      {"torchrun", with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}}), 2, 4, 4, at("127.0.0.1", torch_job),
       torch_job},
      {"torchrun",  // as Kubeflow's PyTorchJob sets them
       {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"}},
       1,
       3,
       0,
       "job-master-0:23456",
       "torchrun  23456 0"},
      {"openmpi", kOpenMpi, 1, 2, 2, at("127.0.0.1", "openmpi 416546817"), "openmpi 416546817"},
      {"openmpi", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"MASTER_ADDR", "h0"}}), 1, 2, 1,
       at("h0", "openmpi 416546817"), "openmpi 416546817"},
      {"slurm", kSlurm, 4, 5, 1, at("gpu007", slurm_job), slurm_job},
      {"slurm", with(kSlurm, {{"SLURM_STEP_RESV_PORTS", "12034-12038"}}), 4, 5, 1, "gpu007:12034", slurm_job},
      {"slurm", with(kSlurm, {{"HAWSER_PORT", "777"}}), 4, 5, 1, "gpu007:777", slurm_job},
      {"openmpi", with(kSlurm, kOpenMpi), 1, 2, 2, at("127.0.0.1", "openmpi 416546817"), "openmpi 416546817"},
      {"torchrun", with(kSlurm, kTorchrun), 2, 4, 2, at("node-a", torch_job), torch_job},
      {"pmi", kPmi, 0, 2, 2, at("127.0.0.1", "pmi "), "pmi "},
      {"pmix", kPmix, 3, 8, 0, "node-a:29500", "pmix prterun-node-a-714@1"},
      {"kubernetes", kKubernetes, 3, 4, 0, "hawser-ranks-0-0.hawser:29500", "hawser 5d0c"},
      {"hawser",
       {{"HAWSER_RANK", "0"}, {"HAWSER_WORLD_SIZE", "1"}, {"HAWSER_ADDRESS", "[::1]:80"}},
       0,
       1,
       0,
       "[::1]:80",
       ""},
  };
  return all;
}

TEST(Environment, EachLaunchersVariablesSayRankWorldAndAddress) {
  for (size_t i = 0; i < cases().size(); ++i) {
    const Case& c = cases()[i];
    SCOPED_TRACE(::testing::Message() << "case " << i << ", " << c.launcher);
    const LaunchEnvironment found = read(c.variables);
    EXPECT_EQ(found.launcher, c.launcher);
    EXPECT_EQ(found.rank, c.rank);
    EXPECT_EQ(found.world_size, c.world_size);
    EXPECT_EQ(found.local_world_size, c.local_world_size);
    EXPECT_EQ(found.address, c.address);
    EXPECT_EQ(found.job, c.job);
    EXPECT_FALSE(found.read.empty());
    for (const auto& [name, value] : found.read) EXPECT_EQ(c.variables.at(name), value);
  }
}

TEST(Environment, TheUsersOwnVariablesCountMost) {
  const LaunchEnvironment found = read(with(kKubernetes, {{"HAWSER_HOST", "10.0.0.3"},
                                                          {"HAWSER_INTERFACE", "eth1"},
                                                          {"HAWSER_TRUST_NETWORK", "1"},
                                                          {"HAWSER_SHARED_MEMORY", "0"},
                                                          {"HAWSER_LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_EQ(found.host, "10.0.0.3");
  EXPECT_EQ(found.interface, "eth1");
  EXPECT_EQ(found.secret_file, "/secret/job");
  EXPECT_TRUE(found.trust_network);
  EXPECT_FALSE(found.shares_memory);
  EXPECT_TRUE(read(kKubernetes).shares_memory);
  EXPECT_EQ(found.local_world_size, 2);
}

TEST(Environment, WhatIsMissingOrWrongIsNamed) {
  const auto without = [](Variables variables, const char* name) {
    variables.erase(name);
    return variables;
  };
  const struct {
    Variables variables;
    const char* words;
  } wrong[] = {
      {{}, "no launcher started this process"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, "SLURM_STEP_ID"},  // a batch script without srun
      {{{"PMIX_RANK", "0"}}, "has PMIX_RANK but no PMIX_NAMESPACE"},
      {{{"RANK", "0"}}, "has RANK but no WORLD_SIZE"},
      {with(kSlurm, {{"SLURM_PROCID", "one"}}), "SLURM_PROCID is \"one\""},
      {with(kTorchrun, {{"RANK", "-1"}}), "RANK is \"-1\""},
      {with(kTorchrun, {{"RANK", "4"}}), "rank 4 of 4"},
      {without(kTorchrun, "MASTER_PORT"), "has no MASTER_PORT"},
      {without(kPmix, "HAWSER_WORLD_SIZE"), "HAWSER_WORLD_SIZE"},
      {without(kKubernetes, "HAWSER_ADDRESS"), "HAWSER_ADDRESS"},
      // With two machines, the address of rank 0 is unknown.
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}}), "HAWSER_ADDRESS"},
      {with(kKubernetes, {{"HAWSER_TRUST_NETWORK", "yes"}}), "HAWSER_TRUST_NETWORK is \"yes\""},
  };
  for (const auto& [variables, words] : wrong) {
    const std::string message = refused(variables);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

TEST(Environment, SlurmsListsAreRead) {
  const std::pair<const char*, const char*> hosts[] = {
      {"node1", "node1"}, {"node1,node2", "node1"},      {"n[003-005,7],login", "n003"},
      {"n[7,9]", "n7"},   {"r[1-2]c[05-06]x", "r1c05x"}, {"", ""}};
  for (const auto& [list, first] : hosts) EXPECT_EQ(first_slurm_host(list), first) << list;
  const int32_t tasks[] = {4, 4, 3, 1, 0};
  for (int32_t node = 0; node < 5; ++node) EXPECT_EQ(slurm_tasks_of_node("4(x2),3,1", node), tasks[node]);
  for (const char* broken : {"", "x", "(", "2(x", ",,"}) slurm_tasks_of_node(broken, 3);
}

TEST(Environment, PortsOfJobsAreSpread) {
  std::map<int32_t, int> seen;
  for (int i = 0; i < 1000; ++i) {
    const int32_t port = port_of_job("slurm " + std::to_string(80000 + i) + ".0");
    EXPECT_TRUE(port >= 20480 && port < 32768);
    ++seen[port];
  }
  EXPECT_GT(seen.size(), 900u);
}

}  // namespace environment_test
}  // namespace hawser::comm
