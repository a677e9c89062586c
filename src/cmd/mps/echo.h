/*
 * What the control daemons write into their control.log, once more in our log, at level debug: as NVIDIA's component shows it.
 */
#pragma once

#include <uv.h>

#include "mps/wire/status.h"

struct mps_echo;

struct mps_echo *mps_echo_new(uv_loop_t *loop, const char *root);
/* These daemons, from now on. What a daemon wrote before it was heard of is not told. */
void mps_echo_follow(struct mps_echo *echo, const struct mps_status *status);
/* The memory goes when the loop has closed its timer. Accepts NULL, returns NULL. */
struct mps_echo *mps_echo_free(struct mps_echo *echo);
