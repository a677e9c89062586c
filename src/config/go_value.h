// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers and durations as Go's standard library reads them, since that is what users of NVIDIA's programs write. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * strconv.ParseInt with base 0: a sign, then decimal, or octal after "0" or "0o", hexadecimal after "0x", binary after
 * "0b"; a '_' may stand between digits and after the prefix. The text is |length| bytes. False if it is anything else,
 * or does not fit.
 */
bool go_int_parse(const char *text, size_t length, int64_t *ret);

/*
 * time.ParseDuration, in nanoseconds: an optional sign, then numbers with optional fraction and a unit (ns, us or µs,
 * ms, s, m, h) each, or "0" alone; and "infinite", NVIDIA's word for the greatest value.
 */
bool go_duration_parse(const char *text, int64_t *ret_ns);
