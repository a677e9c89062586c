/*
 * The commands of the program. Each is one file of this folder, or a folder of its own.
 */
#pragma once

#include "cmd/cli/command.h"

/* A table of commands ends with an entry without a name. */
extern const struct command command_table[];
/* The program itself, with |command_table| as its commands. main() runs it. */
extern const struct command command_main;

int command_agent(int argc, char **argv);
int command_config_manager(int argc, char **argv);
int command_dashboard(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_device_plugin(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_gpu_feature_discovery(int argc, char **argv);
int command_kubectl(int argc, char **argv);
int command_labels(int argc, char **argv);
int command_mig(int argc, char **argv);
int command_mps(int argc, char **argv);
int command_mps_control_daemon(int argc, char **argv);
int command_nvidia_mig_manager(int argc, char **argv);
int command_nvidia_mig_parted(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_probe(int argc, char **argv);
int command_run(int argc, char **argv);
int command_top(int argc, char **argv);
int command_uninstall(int argc, char **argv);

extern const struct command_line command_agent_line;
extern const struct command_line command_config_manager_line;
extern const struct command_line command_dashboard_line;
extern const struct command_line command_demo_line;
extern const struct command_line command_device_plugin_line;
extern const struct command_line command_doctor_line;
extern const struct command_line command_gpu_feature_discovery_line;
extern const struct command_line command_kubectl_line;
extern const struct command_line command_labels_line;
extern const struct command_line command_mig_line;
extern const struct command_line command_mps_line;
extern const struct command_line command_mps_control_daemon_line;
extern const struct command_line command_nvidia_mig_manager_line;
extern const struct command_line command_nvidia_mig_parted_line;
extern const struct command_line command_plan_line;
extern const struct command_line command_probe_line;
extern const struct command_line command_run_line;
extern const struct command_line command_top_line;
extern const struct command_line command_uninstall_line;

extern const struct command command_kubectl_table[];
extern const struct command command_mig_table[];
extern const struct command command_mps_table[];
extern const struct command command_mps_control_daemon_table[];
extern const struct command command_nvidia_mig_parted_table[];
