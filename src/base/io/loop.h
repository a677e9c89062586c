/*
 * A loop of libuv: its beginning, and turning it until something has come true, for what does one thing after the
 * other.
 *
 * uv_run(UV_RUN_ONCE) in a while will not do (libuv 1.44): timers that are due run at the beginning of such a turn, and
 * then it waits for a descriptor although one of them has made the condition true. With no other timer that is for
 * ever.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* A process without a loop can do nothing: where the system has no descriptor for one, it says so and ends. */
void loop_init(uv_loop_t *loop);

typedef bool loop_condition_fn(void *data);

/*
 * Whether |is_true| holds in the end: at once, or within |timeout_ms| (0: no limit). It is asked often, and must only
 * look. Two handles are closed in a later turn of the loop.
 */
bool loop_run_until(uv_loop_t *loop, loop_condition_fn *is_true, void *data, uint64_t timeout_ms);
