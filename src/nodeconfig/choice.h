/*
 * Which of several named configurations is a node's. Pure: the label's value, the names that there are, the default and the
 * fallback strategies in, a name or the reason for none out. It knows neither where names come from nor what they contain.
 *
 * In this order, the first that leads to a configuration counts:
 *
 *   1. the one that the label names;
 *   2. the default, where one is set;
 *   3. the fallback strategies as they are listed: named (the one called "default"), single (the only one there is), empty (none
 *      of them: an empty configuration, which is all defaults).
 *
 * That is NVIDIA's config manager, v0.20, but for three things that only hurt there. It decides before it has seen the
 * label, so that a labelled node begins with the default: here nothing is chosen until the label is known. A label that names what is not
 * there ends it, and so does such a default: here the next rule has its turn, and |misled| says so. And where no rule leads anywhere,
 * the answer is to wait with what is in force, not to end.
 *
 * The answer depends on nothing but the input, not on what was in force before: after a restart it is the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"

/* In the order of config_fallback_words. */
enum config_fallback { CONFIG_FALLBACK_NAMED, CONFIG_FALLBACK_SINGLE, CONFIG_FALLBACK_EMPTY };
#define CONFIG_FALLBACKS 3U

/* What is set once, at start. */
struct config_rules {
        const char *default_name; /* NULL or "": none */
        enum config_fallback fallbacks[CONFIG_FALLBACKS];
        size_t n_fallbacks;
};

/* |list| as options have it: words joined by commas, each once. */
struct config_rules config_rules_of(const char *default_name, const char *list);

/* What is known now. */
struct config_known {
        bool has_label;    /* it is known whether the node has one */
        const char *label; /* its value; NULL or "": it has none */
        bool has_names;    /* they are known */
        const char *const *names;
        size_t n_names;
};

/* By which rule; the words are those of config_reason_name(). */
enum config_reason { CONFIG_BY_LABEL, CONFIG_BY_DEFAULT, CONFIG_BY_NAMED, CONFIG_BY_SINGLE, CONFIG_BY_EMPTY };

struct config_choice {
        enum {
                CONFIG_CHOICE_NONE,  /* wait; |why| says for what */
                CONFIG_CHOICE_NAMED, /* |name| */
                CONFIG_CHOICE_EMPTY,
        } kind;
        const char *name; /* as it stands in |names| */
        enum config_reason reason;
        const char *why;    /* kind NONE only */
        const char *misled; /* what the label or the default names and is not there, one sentence; NULL: nothing */
};

/* Sentences are made in |arena|. */
struct config_choice config_choose(
        const struct config_rules *rules, const struct config_known *known, struct arena *arena);

/*
 * What a start may begin with that cannot know the label yet and has nothing in force: the default, and nothing else, since strategies
 * are for nodes of which it is known that they have no label. Kind NONE where there is no default.
 */
struct config_choice config_choose_early(
        const struct config_rules *rules, const struct config_known *known, struct arena *arena);

const char *config_reason_name(enum config_reason reason); /* "label", "default", "named", "single", "empty" */

/*
 * A file of a folder, or a key of a ConfigMap, that is a configuration: not what begins with "..", which are kubelet's own, and
 * nothing longer than a file name.
 */
bool config_name_counts(const char *name);
