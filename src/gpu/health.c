#include "gpu/health.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"

static void set_bit(uint64_t *bits, uint64_t xid)
{
        bits[xid / 64] |= UINT64_C(1) << (xid % 64);
}

static void clear_bit(uint64_t *bits, uint64_t xid)
{
        bits[xid / 64] &= ~(UINT64_C(1) << (xid % 64));
}

static bool has_bit(const uint64_t *bits, uint64_t xid)
{
        return xid < XID_MAX && (bits[xid / 64] & UINT64_C(1) << (xid % 64)) != 0;
}

static void parse_element(const char *text, size_t length, bool *all, uint64_t *bits, struct strbuf *ignored)
{
        char word[16];
        uint64_t xid;

        while (length && isspace((unsigned char)*text)) {
                text++;
                length--;
        }
        while (length && isspace((unsigned char)text[length - 1]))
                length--;
        if (length == 0)
                return;
        if (length < sizeof(word)) {
                for (size_t i = 0; i < length; i++)
                        word[i] = (char)tolower((unsigned char)text[i]);
                word[length] = '\0';
                if (strcmp(word, "all") == 0 || strcmp(word, "xids") == 0) {
                        *all = true;
                        return;
                }
                if (text_to_uint(word, XID_MAX - 1, &xid)) {
                        set_bit(bits, xid);
                        return;
                }
        }
        strbuf_printf(ignored, "%s'%.*s'", ignored->size ? ", " : "", (int)MIN(length, (size_t)64), text);
}

static void parse_list(const char *list, bool *all, uint64_t *bits, struct strbuf *ignored)
{
        while (list) {
                size_t length = strcspn(list, ",");

                parse_element(list, length, all, bits, ignored);
                list = list[length] ? list + length + 1 : NULL;
        }
}

void health_policy_parse(struct health_policy *policy, const char *disable, const char *enable, struct strbuf *ignored)
{
        *policy = (struct health_policy){.recover = true};
        parse_list(disable, &policy->none, policy->disabled, ignored);
        parse_list(enable, &policy->all, policy->enabled, ignored);
}

bool health_policy_add_rule(struct health_policy *policy, uint64_t xid, bool unhealthy)
{
        if (xid >= XID_MAX)
                return false;
        set_bit(unhealthy ? policy->ruled_in : policy->ruled_out, xid);
        clear_bit(unhealthy ? policy->ruled_out : policy->ruled_in, xid);
        return true;
}

enum xid_effect health_policy_effect(const struct health_policy *policy, uint64_t xid)
{
        if (has_bit(policy->enabled, xid))
                return XID_UNHEALTHY;
        if (has_bit(policy->disabled, xid) && !policy->all)
                return XID_IGNORED;
        if (has_bit(policy->ruled_in, xid))
                return XID_UNHEALTHY;
        if (has_bit(policy->ruled_out, xid))
                return XID_IGNORED;
        if (policy->all)
                return XID_UNHEALTHY;
        return policy->none ? XID_IGNORED : xid_default_effect(xid);
}

void health_init(struct health *health, uint64_t probe_ms)
{
        *health = (struct health){
                .required = HEALTH_GOOD_PROBES,
                .probe_at_ms = HEALTH_NEVER,
                .returned_at_ms = HEALTH_NEVER,
                .first_interval_ms = probe_ms ? probe_ms : HEALTH_PROBE_MS,
        };
}

static bool is_relapse(const struct health *health, uint64_t now_ms)
{
        return health->returned_at_ms != HEALTH_NEVER && now_ms - health->returned_at_ms < HEALTH_RELAPSE_MS;
}

/* A healthy unit becomes unhealthy; an unhealthy one starts again with zero good probes. */
static bool set_back(struct health *health, const char *reason, uint64_t now_ms)
{
        bool is_news = !health->unhealthy || strncmp(health->reason, reason, sizeof(health->reason) - 1) != 0;

        if (!health->unhealthy)
                health->required = is_relapse(health, now_ms) ? MIN(health->required * 2, HEALTH_MAX_GOOD_PROBES)
                                                              : HEALTH_GOOD_PROBES;
        health->unhealthy = true;
        health->good = 0;
        health->xid = 0;
        snprintf(health->reason, sizeof(health->reason), "%s", reason);
        return is_news;
}

static void probe_after(struct health *health, uint64_t interval_ms, uint64_t now_ms)
{
        health->interval_ms = interval_ms;
        health->probe_at_ms = now_ms + interval_ms;
}

bool health_xid(struct health *health, uint64_t xid, uint64_t now_ms)
{
        char reason[sizeof(health->reason)];
        bool is_news;

        xid_text(xid, reason, sizeof(reason));
        is_news = health_fail(health, reason, now_ms);
        health->xid = xid;
        if (xid_needs_recovery(xid)) {
                health->held_for = xid;
                health->was_gone = false;
        }
        return is_news;
}

bool health_fail(struct health *health, const char *reason, uint64_t now_ms)
{
        bool is_news = set_back(health, reason, now_ms);

        probe_after(health, health->first_interval_ms, now_ms);
        return is_news;
}

/* The interval grows the longer the unit stays unhealthy. */
static void probe_later(struct health *health, bool was_unhealthy, uint64_t now_ms)
{
        uint64_t longest = health->first_interval_ms * HEALTH_MAX_INTERVAL;

        probe_after(health, was_unhealthy ? MIN(health->interval_ms * 2, longest) : health->first_interval_ms, now_ms);
}

/* The probe is good but proves nothing: the reason becomes again the one that must be resolved. */
static bool stay_held(struct health *health, uint64_t now_ms)
{
        char reason[sizeof(health->reason)];
        uint64_t xid = health->held_for;
        bool is_news;

        xid_text(xid, reason, sizeof(reason));
        is_news = set_back(health, reason, now_ms);
        health->xid = xid;
        probe_later(health, true, now_ms);
        return is_news;
}

bool health_probe(struct health *health, enum health_finding finding, const char *failure, uint64_t now_ms)
{
        if (!health_is_good(finding)) {
                bool was_unhealthy = health->unhealthy;
                bool is_news = set_back(health, failure, now_ms);

                health->was_gone = health->was_gone || finding == HEALTH_GONE;
                probe_later(health, was_unhealthy, now_ms);
                return is_news;
        }
        if (!health->unhealthy)
                return false;
        if (finding == HEALTH_CLEARED || health->was_gone)
                health_release(health);
        if (health->held_for)
                return stay_held(health, now_ms);
        if (++health->good < health->required) {
                probe_after(health, health->first_interval_ms, now_ms);
                return false;
        }
        health->unhealthy = false;
        health->reason[0] = '\0';
        health->xid = 0;
        health->probe_at_ms = HEALTH_NEVER;
        health->returned_at_ms = now_ms;
        return true;
}

void health_poll_soon(struct health *health, uint64_t now_ms)
{
        if (!health->unhealthy)
                return;
        health->interval_ms = health->first_interval_ms;
        health->probe_at_ms = now_ms;
}

void health_release(struct health *health)
{
        health->held_for = 0;
        health->was_gone = false;
}
