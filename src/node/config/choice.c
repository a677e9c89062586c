// SPDX-License-Identifier: Apache-2.0
#include "node/config/choice.h"

#include <limits.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "config/word.h"

#define NAMED "default"
#define SHOWN_NAMES 10U

bool config_name_counts(const char *name)
{
        return *name && !text_starts_with(name, "..") && strcmp(name, ".") != 0 && !strchr(name, '/') &&
               strlen(name) <= NAME_MAX;
}

struct config_rules config_rules_of(const char *default_name, const char *list)
{
        struct config_rules rules = {.default_name = default_name};

        while (*list && rules.n_fallbacks < CONFIG_FALLBACKS) {
                size_t length = strcspn(list, ",");

                for (unsigned int i = 0; config_fallback_words[i]; i++)
                        if (strlen(config_fallback_words[i]) == length &&
                                memcmp(config_fallback_words[i], list, length) == 0)
                                rules.fallbacks[rules.n_fallbacks++] = (enum config_fallback)i;
                list += length;
                list += *list == ',';
        }
        return rules;
}

const char *config_reason_name(enum config_reason reason)
{
        static const char *const names[] = {
                [CONFIG_BY_LABEL] = "label",
                [CONFIG_BY_DEFAULT] = "default",
                [CONFIG_BY_NAMED] = "named",
                [CONFIG_BY_SINGLE] = "single",
                [CONFIG_BY_EMPTY] = "empty",
        };

        return names[reason];
}

/* ---- the rules ---- */

/* |*ret| is the name in the list. */
static bool choice_take(
        const struct config_known *known, const char *name, enum config_reason reason, struct config_choice *ret)
{
        for (size_t i = 0; i < known->n_names; i++) {
                if (strcmp(known->names[i], name) != 0)
                        continue;
                ret->kind = CONFIG_CHOICE_NAMED;
                ret->name = known->names[i];
                ret->reason = reason;
                return true;
        }
        return false;
}

static bool fall_back(const struct config_known *known, enum config_fallback strategy, struct config_choice *ret)
{
        switch (strategy) {
        case CONFIG_FALLBACK_NAMED:
                return choice_take(known, NAMED, CONFIG_BY_NAMED, ret);
        case CONFIG_FALLBACK_SINGLE:
                return known->n_names == 1 && choice_take(known, known->names[0], CONFIG_BY_SINGLE, ret);
        case CONFIG_FALLBACK_EMPTY:
                ret->kind = CONFIG_CHOICE_EMPTY;
                ret->reason = CONFIG_BY_EMPTY;
                return true;
        }
        return false;
}

static bool name_is_set(const char *name)
{
        return name && *name;
}

/* ---- texts ---- */

static const char *choice_list_names(const struct config_known *known, struct arena *arena)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t shown = MIN(known->n_names, (size_t)SHOWN_NAMES);

        for (size_t i = 0; i < shown; i++)
                strbuf_printf(&text, "%s%.63s", i ? ", " : "", known->names[i]);
        if (known->n_names > shown)
                strbuf_printf(&text, " and %zu more", known->n_names - shown);
        return arena_strdup(arena, text.data);
}

static const char *mislead(const struct config_known *known, const struct config_rules *rules, bool label,
        bool by_default, struct arena *arena)
{
        const char *names = choice_list_names(known, arena);

        if (label && by_default)
                return arena_printf(arena,
                        "neither '%.63s', which the label names, nor the default '%.63s' is there; there are: %s",
                        known->label, rules->default_name, names);
        if (label)
                return arena_printf(
                        arena, "the label names '%.63s', which is not there; there are: %s", known->label, names);
        if (by_default)
                return arena_printf(
                        arena, "the default '%.63s' is not there; there are: %s", rules->default_name, names);
        return NULL;
}

static const char *why_none(const struct config_known *known, const struct config_rules *rules, struct arena *arena)
{
        const char *label = name_is_set(known->label) ? "the node's label names no existing configuration"
                                                      : "the node has no label";

        return arena_printf(arena, "%s, %s and no fallback strategy applies; there are: %s", label,
                name_is_set(rules->default_name) ? "the default is not there" : "no default is set",
                choice_list_names(known, arena));
}

struct config_choice config_choose(
        const struct config_rules *rules, const struct config_known *known, struct arena *arena)
{
        struct config_choice choice = {.kind = CONFIG_CHOICE_NONE};
        bool label_misleads;
        bool default_misleads;

        if (!known->has_names)
                choice.why = "it is not known yet which configurations there are";
        else if (!known->has_label)
                choice.why = "the node's label is not known yet";
        else if (known->n_names == 0)
                choice.why = "there is no configuration at all";
        if (choice.why)
                return choice;
        if (name_is_set(known->label) && choice_take(known, known->label, CONFIG_BY_LABEL, &choice))
                return choice;
        label_misleads = name_is_set(known->label);
        default_misleads = name_is_set(rules->default_name) &&
                           !choice_take(known, rules->default_name, CONFIG_BY_DEFAULT, &choice);
        for (size_t i = 0; choice.kind == CONFIG_CHOICE_NONE && i < rules->n_fallbacks; i++)
                fall_back(known, rules->fallbacks[i], &choice);
        choice.misled = mislead(known, rules, label_misleads, default_misleads, arena);
        if (choice.kind == CONFIG_CHOICE_NONE)
                choice.why = why_none(known, rules, arena);
        return choice;
}

struct config_choice config_choose_early(
        const struct config_rules *rules, const struct config_known *known, struct arena *arena)
{
        struct config_choice choice = {.kind = CONFIG_CHOICE_NONE};

        if (!known->has_names)
                choice.why = "it is not known yet which configurations there are";
        else if (!name_is_set(rules->default_name))
                choice.why = "the node's label is not known yet, and no default is set";
        else if (!choice_take(known, rules->default_name, CONFIG_BY_DEFAULT, &choice))
                choice.why = arena_printf(arena,
                        "the node's label is not known yet, and the default '%.63s' is not there", rules->default_name);
        return choice;
}
