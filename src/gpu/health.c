#include "gpu/health.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"

/* Faults of a program, or its regular end, not of the board: NVIDIA's Xid catalogue, and k8s-device-plugin 0.20. */
static const unsigned int application_xids[] = {13, 31, 43, 45, 68, 109};

/* From NVIDIA's Xid catalogue, shortened. */
static const struct {
        unsigned int xid;
        const char *name;
} xid_names[] = {
        {13, "graphics engine exception"},
        {31, "GPU memory page fault"},
        {32, "invalid or corrupted push buffer stream"},
        {38, "driver firmware error"},
        {43, "GPU stopped processing"},
        {45, "preemptive cleanup, due to previous errors"},
        {48, "double-bit ECC error"},
        {61, "internal micro-controller breakpoint"},
        {62, "internal micro-controller halt"},
        {63, "ECC page retirement or row remapping recorded"},
        {64, "ECC page retirement or row remapping failed"},
        {68, "video processor exception"},
        {69, "graphics engine class error"},
        {74, "NVLink error"},
        {79, "GPU has fallen off the bus"},
        {92, "high single-bit ECC error rate"},
        {94, "contained ECC error"},
        {95, "uncontained ECC error"},
        {109, "context switch timeout"},
        {119, "GSP RPC timeout"},
        {120, "GSP error"},
        {121, "corrected C2C link error"},
        {123, "power management firmware error"},
        {136, "link training failed"},
        {140, "unrecovered ECC error"},
        {143, "GPU initialization error"},
        {145, "NVLink error"},
        {149, "NVLink error"},
        {154, "GPU recovery action changed"},
        {999, "unknown error"},
};

static void set_bit(uint64_t *bits, uint64_t xid)
{
        bits[xid / 64] |= UINT64_C(1) << (xid % 64);
}

static bool has_bit(const uint64_t *bits, uint64_t xid)
{
        return xid < HEALTH_XIDS && (bits[xid / 64] & UINT64_C(1) << (xid % 64)) != 0;
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
                if (text_to_uint(word, HEALTH_XIDS - 1, &xid)) {
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
        *policy = (struct health_policy){0};
        parse_list(disable, &policy->none, policy->disabled, ignored);
        for (size_t i = 0; i < ARRAY_SIZE(application_xids); i++)
                set_bit(policy->disabled, application_xids[i]);
        parse_list(enable, &policy->all, policy->enabled, ignored);
}

bool health_policy_counts(const struct health_policy *policy, uint64_t xid)
{
        if (policy->all || has_bit(policy->enabled, xid))
                return true;
        return !policy->none && !has_bit(policy->disabled, xid);
}

void health_xid_text(uint64_t xid, char *text, size_t size)
{
        for (size_t i = 0; i < ARRAY_SIZE(xid_names); i++) {
                if (xid_names[i].xid == xid) {
                        snprintf(text, size, "Xid %u (%s)", xid_names[i].xid, xid_names[i].name);
                        return;
                }
        }
        snprintf(text, size, "Xid %llu", (unsigned long long)xid);
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

/* A healthy unit becomes a suspect; a suspect starts its way back from zero. */
static bool set_back(struct health *health, const char *reason, uint64_t now_ms)
{
        bool is_news = !health->suspect || strncmp(health->reason, reason, sizeof(health->reason) - 1) != 0;

        if (!health->suspect)
                health->required = is_relapse(health, now_ms) ? MIN(health->required * 2, HEALTH_MAX_GOOD_PROBES)
                                                              : HEALTH_GOOD_PROBES;
        health->suspect = true;
        health->good = 0;
        snprintf(health->reason, sizeof(health->reason), "%s", reason);
        return is_news;
}

static void probe_after(struct health *health, uint64_t interval_ms, uint64_t now_ms)
{
        health->interval_ms = interval_ms;
        health->probe_at_ms = now_ms + interval_ms;
}

bool health_xid(struct health *health, const struct health_policy *policy, uint64_t xid, uint64_t now_ms)
{
        char reason[sizeof(health->reason)];

        if (!health_policy_counts(policy, xid))
                return false;
        health_xid_text(xid, reason, sizeof(reason));
        return health_fail(health, reason, now_ms);
}

bool health_fail(struct health *health, const char *reason, uint64_t now_ms)
{
        bool is_news = set_back(health, reason, now_ms);

        probe_after(health, health->first_interval_ms, now_ms);
        return is_news;
}

bool health_probe(struct health *health, const char *failure, uint64_t now_ms)
{
        if (failure) {
                uint64_t longest = health->first_interval_ms * HEALTH_MAX_INTERVAL;
                bool was_suspect = health->suspect;
                bool is_news = set_back(health, failure, now_ms);

                probe_after(health, was_suspect ? MIN(health->interval_ms * 2, longest) : health->first_interval_ms,
                        now_ms);
                return is_news;
        }
        if (!health->suspect)
                return false;
        if (++health->good < health->required) {
                probe_after(health, health->first_interval_ms, now_ms);
                return false;
        }
        health->suspect = false;
        health->reason[0] = '\0';
        health->probe_at_ms = HEALTH_NEVER;
        health->returned_at_ms = now_ms;
        return true;
}
