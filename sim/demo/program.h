// SPDX-License-Identifier: Apache-2.0
/*
 * Programs that the demonstration starts: commands of warpshare, whose output it shows, and programs in the containers
 * of its pods, which hold memory of a GPU until they are ended.
 *
 * The programs run outside the containers: a variable with a path that is mounted has the path on the node. The node
 * has a /proc of its own, in which a program has its container's cgroup; so the agent finds whose it is.
 */
#pragma once

#include "sim/demo/pod.h"

/*
 * What the program writes, for the caller to free, and its exit status; NULL: it could not be run, which has been said.
 * argv[0] is the path.
 */
char *demo_output(struct demo *demo, const char *const *argv, const char *const *environment, int *ret_status);

/* Prints a command, and |text| below it; a line that is too long goes on below, |indent| columns further right. */
void demo_print(const struct demo *demo, const char *command, const char *text, unsigned int indent);

/* The variables of the pod's container, and |more|, which ends with NULL. In |arena|. */
const char *const *demo_environment(struct arena *arena, const struct demo_pod *pod, const char *const *more);

/* Has |memory_mib| of the pod's GPU; ended by demo_program_end(), which accepts a zeroed one. */
struct demo_program {
        uv_process_t process;
        bool runs;
};

bool demo_program_start(
        struct demo *demo, struct demo_program *program, const struct demo_pod *pod, unsigned int memory_mib);
void demo_program_end(struct demo *demo, struct demo_program *program);
