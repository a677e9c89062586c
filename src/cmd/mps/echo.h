/* Copies the lines of the control daemons' control.log into our log, at level debug, as NVIDIA's component does. */
#pragma once

#include <uv.h>

#include "mps/wire/status.h"

struct mps_echo;

struct mps_echo *mps_echo_new(uv_loop_t *loop, const char *root);
/* Sets the daemons. What a daemon wrote before that is not copied. */
void mps_echo_follow(struct mps_echo *echo, const struct mps_status *status);
/* The memory is freed when the loop has closed its timer. Accepts NULL, returns NULL. */
struct mps_echo *mps_echo_free(struct mps_echo *echo);
