// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses the configuration of a node from several named ones. Pure. Input: the label's value, the existing names, the
 * default and the fallback strategies; output: a name, or the reason for none. It does not know where names come from
 * or what the configurations contain.
 *
 * In this order, the first that leads to a configuration counts:
 *
 *   1. the one that the label names;
 *   2. the default, if one is set;
 *   3. the fallback strategies as they are listed: named (the one called "default"), single (the only one there is),
 *      empty (none of them: an empty configuration, which is all defaults).
 *
 * This is how NVIDIA's config manager v0.20 works, with three differences. NVIDIA's decides before it knows the label,
 * so a labelled node starts with the default: here nothing is chosen until the label is known. NVIDIA's exits if the
 * label or the default names a missing configuration: here the next rule applies, and |misled| says why. And if no rule
 * gives a configuration, the result is to keep the present one and wait, instead of exiting.
 *
 * The result depends only on the input, not on the present configuration, so it is the same after a restart.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"

/* In the order of config_fallback_words. */
enum config_fallback { CONFIG_FALLBACK_NAMED, CONFIG_FALLBACK_SINGLE, CONFIG_FALLBACK_EMPTY };
#define CONFIG_FALLBACKS 3U

/* Settings that do not change after the start. */
struct config_rules {
        const char *default_name; /* NULL or "": none */
        enum config_fallback fallbacks[CONFIG_FALLBACKS];
        size_t n_fallbacks;
};

/* |list| as in the options: words separated by commas, each once. */
struct config_rules config_rules_of(const char *default_name, const char *list);

/* The present facts. */
struct config_known {
        bool has_label;    /* the API server has answered whether the node has the label */
        const char *label; /* its value; NULL or "": the node does not have it */
        bool has_names;    /* the names are known */
        const char *const *names;
        size_t n_names;
};

/* The rule that chose; the words are those of config_reason_name(). */
enum config_reason { CONFIG_BY_LABEL, CONFIG_BY_DEFAULT, CONFIG_BY_NAMED, CONFIG_BY_SINGLE, CONFIG_BY_EMPTY };

struct config_choice {
        enum {
                CONFIG_CHOICE_NONE,  /* wait; |why| says what for */
                CONFIG_CHOICE_NAMED, /* |name| */
                CONFIG_CHOICE_EMPTY,
        } kind;
        const char *name; /* one of |names| */
        enum config_reason reason;
        const char *why;    /* only for kind NONE */
        const char *misled; /* the label or the default names a missing one: a sentence; else NULL */
};

/* Texts are made in |arena|. */
struct config_choice config_choose(
        const struct config_rules *rules, const struct config_known *known, struct arena *arena);

/*
 * The choice at a start when the label is not known yet and an earlier configuration does not exist: only the default,
 * since the strategies are for nodes that are known to lack the label. Kind NONE without a default.
 */
struct config_choice config_choose_early(
        const struct config_rules *rules, const struct config_known *known, struct arena *arena);

const char *config_reason_name(enum config_reason reason); /* "label", "default", "named", "single", "empty" */

/*
 * True if a file in a folder, or a key of a ConfigMap, is a configuration: its name does not begin with "..", as
 * kubelet's own entries do, and is not longer than a file name may be.
 */
bool config_name_counts(const char *name);
