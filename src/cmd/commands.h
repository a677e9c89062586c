/*
 * The commands of the program. Each is one file of this folder, takes the arguments after its own name (argv[0] is the name
 * itself) and returns the exit status of the process. What it understands is in its command line, of which the manual and the
 * completion of shells are made.
 */
#pragma once

#include "cli/command_line.h"

struct command {
        const char *name;
        const char *summary; /* one line */
        int (*run)(int argc, char **argv);
        const struct command_line *line;
        const struct command *below; /* the commands that may follow its name; NULL: none */
};

/* Tables of commands end with one that has no name. */
extern const struct command command_table[];
/* The program itself: what is below it is |command_table|. It is run by main. */
extern const struct command command_main;

/* NULL: no such command. */
const struct command *command_find(const struct command *table, const char *name);

int command_agent(int argc, char **argv);
int command_config_manager(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_device_plugin(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_gpu_feature_discovery(int argc, char **argv);
int command_labels(int argc, char **argv);
int command_mps(int argc, char **argv);
int command_mps_control_daemon(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_probe(int argc, char **argv);
int command_uninstall(int argc, char **argv);

extern const struct command_line command_agent_line;
extern const struct command_line command_config_manager_line;
extern const struct command_line command_demo_line;
extern const struct command_line command_device_plugin_line;
extern const struct command_line command_doctor_line;
extern const struct command_line command_gpu_feature_discovery_line;
extern const struct command_line command_labels_line;
extern const struct command_line command_mps_line;
extern const struct command_line command_mps_control_daemon_line;
extern const struct command_line command_plan_line;
extern const struct command_line command_probe_line;
extern const struct command_line command_uninstall_line;

extern const struct command command_mps_table[];
extern const struct command command_mps_control_daemon_table[];

/* Exit statuses beside 0. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };
