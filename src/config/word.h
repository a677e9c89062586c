// SPDX-License-Identifier: Apache-2.0
/*
 * Words with a fixed meaning: the values of choices, wherever they stand (command line, environment, file).
 *
 * Each list ends with NULL; the position of a word is the value of its enum in config/config.h.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

extern const char *const sharing_strategy_words[];
extern const char *const provisioning_words[];
extern const char *const placement_words[];
extern const char *const sharing_scope_words[];
extern const char *const daemon_scope_words[];
extern const char *const guard_mode_words[];
extern const char *const reserve_words[];
extern const char *const mps_tier_words[];
extern const char *const tier_limit_words[]; /* "auto", then those of mps_tier_words */
extern const char *const mig_strategy_words[];
extern const char *const discovery_words[];
extern const char *const id_strategy_words[];
extern const char *const xid_action_words[];      /* "ignore", "unhealthy" */
extern const char *const config_fallback_words[]; /* node/config/choice.h */
extern const char *const labels_output_words[];
extern const char *const metrics_asked_words[];
extern const char *const node_page_words[];
extern const char *const events_words[];
extern const char *const usage_words[];            /* "off", "5s"; in the order of the seconds in config/config.c */
extern const char *const dra_daemon_scope_words[]; /* by enum daemon_scope, which has one more */
extern const char *const dra_fallback_words[];
extern const char *const dra_one_form_words[];
extern const char *const dra_unenforced_words[];
extern const char *const dra_unhealthy_words[];
extern const char *const restart_words[];     /* base/io/keeper.h */
extern const char *const device_list_words[]; /* the position is that of the bit */

/*
 * The position among |choices| of the word of |length| bytes at |text|. Errors begin with it: "'x' is not a known
 * value, use uuid or index".
 */
int word_check(
        const char *text, size_t length, const char *const *choices, size_t *ret_position, struct error *err) MUST_USE;
