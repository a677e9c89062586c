/*
 * Findings, as text for people. Each is an object with "verdict" ("ok", "note", "wrong" or "skipped"), "check" and
 * "found", and perhaps "means" and "todo".
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

size_t findings_count(const json_t *findings, const char *verdict);

/* One finding, at once. */
void findings_print(const json_t *finding, bool has_colours);

/* Call it after the last finding. Prints how many are wrong, or without |is_table| all of them as one JSON object. */
void findings_print_end(json_t *findings, bool is_table);
