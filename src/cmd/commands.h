// SPDX-License-Identifier: Apache-2.0
/*
 * The commands of the program, and how each is carried out: its line is read, its function called, and what failed is
 * printed. Each is one file of this folder, or a folder of its own.
 */
#pragma once

#include "cmd/cli/command.h"

extern const struct command *const command_table[]; /* NULL-terminated */
/* The program itself, with |command_table| as its commands. main() runs it. */
extern const struct command command_main;

/* |argv| begins with the name of |command|, or the word that follows it. Returns the exit status. */
int command_run(const struct command *command, int argc, char **argv);

extern const struct command command_agent;
extern const struct command command_config_manager;
extern const struct command command_dashboard;
extern const struct command command_demo;
extern const struct command command_device_plugin;
extern const struct command command_doctor;
extern const struct command command_gpu_feature_discovery;
extern const struct command command_kubectl;
extern const struct command command_kubectl_dashboard;
extern const struct command command_kubectl_pools;
extern const struct command command_labels;
extern const struct command command_mig;
extern const struct command command_mps;
extern const struct command command_mps_control_daemon;
extern const struct command command_nvidia_mig_manager;
extern const struct command command_nvidia_mig_parted;
extern const struct command command_plan;
extern const struct command command_probe;
extern const struct command command_run_in_share;
extern const struct command command_top;
extern const struct command command_uninstall;
