/*
 * The commands of the program. Each is one file of this folder, takes the arguments after its own name (argv[0] is the name
 * itself) and returns the exit status of the process.
 */
#pragma once

int command_agent(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_device_plugin(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_mps(int argc, char **argv);
int command_mps_control_daemon(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_probe(int argc, char **argv);

/* Exit statuses beside 0. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };
