// SPDX-License-Identifier: Apache-2.0
#include "bench/outage.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/alloc.h"

/*
 * Until an agent that was just started has nothing more to do, and one that served has served for long
 * (base/io/keeper.h).
 */
#define SETTLE_MS 1500U
#define TIMEOUT_MS 20000U

static bool is_back(void *node)
{
        return ((struct node *)node)->back_ns != 0;
}

/* Nothing may happen meanwhile that is not to be measured. */
static int settle(struct node *node, struct error *err)
{
        node->gone_ns = node->back_ns = 0;
        node_pause(node, SETTLE_MS);
        if (node->gone_ns || !node_is_whole(node))
                return error_set(err, ERROR_UNAVAILABLE, "the devices went although nothing was done to the agent");
        return 0;
}

static int wait_back(struct node *node, struct error *err)
{
        if (sim_node_wait(&node->sim, is_back, node, TIMEOUT_MS))
                return 0;
        return error_set(err, ERROR_TIMEOUT, "the devices did not come back within %u ms", TIMEOUT_MS);
}

int outage_of_updates(struct node *node, unsigned int times, struct figure *figure, struct error *err)
{
        for (unsigned int i = 0; i < times; i++) {
                if (sim_node_start_next(&node->sim, err) < 0 || settle(node, err) < 0)
                        return -1;
                sim_node_hand_over(&node->sim);
                if (wait_back(node, err) < 0)
                        return -1;
                figure_add(figure, (double)(node->back_ns - node->gone_ns) / 1e6);
        }
        return 0;
}

/* The agent of the parent that was started. */
static int find_child(pid_t parent, pid_t *ret, struct error *err)
{
        _free_ char *path = xasprintf("/proc/%d/task/%d/children", (int)parent, (int)parent);
        FILE *file = fopen(path, "re");
        int found;

        if (!file)
                return error_errno(err, errno, "open '%s'", path);
        found = fscanf(file, "%d", ret);
        fclose(file);
        return found == 1 ? 0 : error_set(err, ERROR_NOT_FOUND, "the agent has no parent that would start it again");
}

int outage_of_kills(struct node *node, unsigned int times, struct figure *figure, struct error *err)
{
        for (unsigned int i = 0; i < times; i++) {
                int64_t started;
                pid_t agent;

                if (settle(node, err) < 0 || find_child(node->sim.agent->process.pid, &agent, err) < 0)
                        return -1;
                started = clock_ns();
                kill(agent, SIGKILL);
                if (wait_back(node, err) < 0)
                        return -1;
                figure_add(figure, (double)(node->back_ns - started) / 1e6);
        }
        return 0;
}

int outage_of_restarts(struct node *node, unsigned int times, struct figure *figure, struct error *err)
{
        for (unsigned int i = 0; i < times; i++) {
                if (settle(node, err) < 0 || sim_node_restart_agent(&node->sim, err) < 0 || wait_back(node, err) < 0)
                        return -1;
                figure_add(figure, (double)(node->back_ns - node->gone_ns) / 1e6);
        }
        return 0;
}
