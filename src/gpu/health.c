// SPDX-License-Identifier: Apache-2.0
#include "gpu/health.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"

/* ---- xid ---- */

/* How NVIDIA's plugin treats every Xid that it does not know as an application error. */
#define COUNTS(number, class, name)                                                                                    \
        {                                                                                                              \
                number, XID_##class, XID_UNHEALTHY, name                                                               \
        }

/* sorted by number for a binary search */
static const struct xid table[] = {
        COUNTS(8, RESTART, "GPU stopped processing"),
        COUNTS(11, APPLICATION, "invalid or corrupted push buffer stream"),
        {13, XID_APPLICATION, XID_IGNORED, "graphics engine exception"},
        {14, XID_INFORMATIONAL, XID_IGNORED, "error made up for a test"},
        COUNTS(25, APPLICATION, "invalid or illegal push buffer stream"),
        {31, XID_APPLICATION, XID_IGNORED, "GPU memory page fault"},
        COUNTS(32, APPLICATION, "invalid or corrupted push buffer stream"),
        COUNTS(37, INFORMATIONAL, "driver firmware error"),
        COUNTS(38, INFORMATIONAL, "driver firmware error"),
        COUNTS(39, RESTART, "copy engine 0 error"),
        COUNTS(40, RESTART, "copy engine 1 error"),
        COUNTS(41, RESTART, "copy engine 2 error"),
        {43, XID_APPLICATION, XID_IGNORED, "GPU stopped processing"},
        COUNTS(44, INFORMATIONAL, "graphics engine fault during context switch"),
        {45, XID_APPLICATION, XID_IGNORED, "preemptive cleanup, due to previous errors"},
        COUNTS(46, RESET, "GPU stopped processing"),
        COUNTS(48, RESET, "double-bit ECC error"),
        COUNTS(54, SERVICE, "auxiliary power is not connected"),
        COUNTS(60, RESTART, "video processor exception"),
        COUNTS(61, RESET, "internal micro-controller breakpoint"),
        COUNTS(62, RESET, "internal micro-controller halt"),
        COUNTS(63, INFORMATIONAL, "ECC page retirement or row remapping recorded"),
        COUNTS(64, RESET, "ECC page retirement or row remapping failed"),
        COUNTS(66, INFORMATIONAL, "illegal access by the driver"),
        COUNTS(67, INFORMATIONAL, "illegal access by the driver"),
        {68, XID_RESTART, XID_IGNORED, "video decoder 0 exception"},
        COUNTS(69, APPLICATION, "graphics engine class error"),
        COUNTS(70, RESTART, "copy engine 3 error"),
        COUNTS(71, RESTART, "copy engine 4 error"),
        COUNTS(72, RESTART, "copy engine 5 error"),
        COUNTS(74, RESET, "NVLink error"),
        COUNTS(75, RESTART, "copy engine 6 error"),
        COUNTS(76, RESTART, "copy engine 7 error"),
        COUNTS(77, RESTART, "copy engine 8 error"),
        COUNTS(78, SERVICE, "vGPU start error"),
        COUNTS(79, SERVICE, "GPU has fallen off the bus"),
        COUNTS(80, APPLICATION, "corrupted data sent to the GPU"),
        COUNTS(82, RESTART, "JPEG engine 0 error"),
        COUNTS(83, RESTART, "video decoder 1 error"),
        COUNTS(84, RESTART, "video decoder 2 error"),
        COUNTS(85, RESTART, "copy engine 9 error"),
        COUNTS(86, RESTART, "optical flow engine 0 exception"),
        COUNTS(88, RESTART, "video decoder 3 error"),
        COUNTS(89, RESTART, "video decoder 4 error"),
        COUNTS(92, INFORMATIONAL, "high single-bit ECC error rate"),
        COUNTS(93, INFORMATIONAL, "InfoROM wear limit exceeded"),
        COUNTS(94, RESTART, "contained ECC error"),
        COUNTS(95, RESET, "uncontained ECC error"),
        COUNTS(96, RESTART, "video decoder 5 error"),
        COUNTS(97, RESTART, "video decoder 6 error"),
        COUNTS(98, RESTART, "video decoder 7 error"),
        COUNTS(99, RESTART, "JPEG engine 1 error"),
        COUNTS(100, RESTART, "JPEG engine 2 error"),
        COUNTS(101, RESTART, "JPEG engine 3 error"),
        COUNTS(102, RESTART, "JPEG engine 4 error"),
        COUNTS(103, RESTART, "JPEG engine 5 error"),
        COUNTS(104, RESTART, "JPEG engine 6 error"),
        COUNTS(105, RESTART, "JPEG engine 7 error"),
        {106, XID_INFORMATIONAL, XID_IGNORED, "management bus test message"},
        {107, XID_INFORMATIONAL, XID_IGNORED, "management bus test message"},
        COUNTS(108, INFORMATIONAL, "NVLink remote translation error"),
        {109, XID_RESET, XID_CHECK, "context switch timeout"},
        COUNTS(110, RESET, "security fault"),
        COUNTS(119, RESET, "GSP RPC timeout"),
        COUNTS(120, RESET, "GSP error"),
        COUNTS(121, INFORMATIONAL, "corrected C2C link error"),
        COUNTS(122, SERVICE, "firmware flash cannot be read"),
        COUNTS(123, SERVICE, "firmware flash cannot be written"),
        COUNTS(124, SERVICE, "firmware flash cannot be erased"),
        COUNTS(125, SERVICE, "InfoROM file system error"),
        COUNTS(126, RESTART, "copy engine 10 error"),
        COUNTS(127, RESTART, "copy engine 11 error"),
        COUNTS(128, RESTART, "copy engine 12 error"),
        COUNTS(129, RESTART, "copy engine 13 error"),
        COUNTS(130, RESTART, "copy engine 14 error"),
        COUNTS(131, RESTART, "copy engine 15 error"),
        COUNTS(132, RESTART, "copy engine 16 error"),
        COUNTS(133, RESTART, "copy engine 17 error"),
        COUNTS(134, RESTART, "copy engine 18 error"),
        COUNTS(135, RESTART, "copy engine 19 error"),
        COUNTS(136, RESET, "link training failed"),
        COUNTS(137, INFORMATIONAL, "NVLink privilege error"),
        COUNTS(139, RESTART, "optical flow engine 1 error"),
        COUNTS(140, RESET, "unrecovered ECC error"),
        COUNTS(141, INFORMATIONAL, "CUDA fast path error"),
        COUNTS(142, SERVICE, "video encoder 3 error"),
        COUNTS(143, RESET, "GPU initialization error"),
        {144, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {145, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {146, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {147, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {148, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {149, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {150, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        COUNTS(151, SERVICE, "key rotation error"),
        COUNTS(152, INFORMATIONAL, "deep learning accelerator memory error"),
        COUNTS(153, INFORMATIONAL, "deep learning accelerator timeout"),
        {154, XID_INFORMATIONAL, XID_CHECK, "GPU recovery action changed"},
        COUNTS(155, RESET, "NVLink error defined by software"),
        COUNTS(156, RESET, "resource retired"),
        COUNTS(157, INFORMATIONAL, "resource could not be retired"),
        COUNTS(158, RESET, "fatal timeout"),
        COUNTS(159, UNCLASSED, "coherent link error"),
        COUNTS(160, INFORMATIONAL, "memory channel retired"),
        COUNTS(161, INFORMATIONAL, "memory channel could not be retired"),
        COUNTS(162, INFORMATIONAL, "power smoothing is on again"),
        COUNTS(163, INFORMATIONAL, "power smoothing is off"),
        COUNTS(164, INFORMATIONAL, "power smoothing circuit is near its end of life"),
        COUNTS(165, INFORMATIONAL, "power smoothing circuit is at its end of life"),
        COUNTS(166, INFORMATIONAL, "traffic before the link was encrypted"),
        COUNTS(167, UNCLASSED, "PCIe fatal timeout"),
        COUNTS(168, UNCLASSED, "GPU memory capacity reduced"),
        COUNTS(169, UNCLASSED, "internal micro-controller halt"),
        COUNTS(170, INFORMATIONAL, "interrupt during confidential computing"),
        COUNTS(171, UNCLASSED, "uncorrectable DRAM error"),
        COUNTS(172, UNCLASSED, "uncorrectable SRAM error"),
        COUNTS(999, UNCLASSED, "unknown error"),
};

static const char *const advice[] = {
        [XID_UNCLASSED] = "",
        [XID_INFORMATIONAL] = "",
        [XID_APPLICATION] = ": a fault of the program",
        [XID_RESTART] = ": restart the programs on the GPU",
        [XID_RESET] = ": the GPU needs a reset",
        [XID_SERVICE] = ": reboot the node, or repair it",
};

static int compare_xid(const void *number, const void *xid)
{
        const uint64_t a = *(const uint64_t *)number;
        const uint64_t b = ((const struct xid *)xid)->number;

        return (a > b) - (a < b);
}

const struct xid *xid_find(uint64_t number)
{
        return bsearch(&number, table, ARRAY_SIZE(table), sizeof(*table), compare_xid);
}

enum xid_effect xid_default_effect(uint64_t number)
{
        const struct xid *xid = xid_find(number);

        return xid ? xid->effect : XID_UNHEALTHY;
}

bool xid_needs_recovery(uint64_t number)
{
        const struct xid *xid = xid_find(number);

        return xid && (xid->class == XID_RESET || xid->class == XID_SERVICE);
}

void xid_text(uint64_t number, char *text, size_t size)
{
        const struct xid *xid = xid_find(number);

        if (xid)
                snprintf(text, size, "Xid %u (%s)%s", xid->number, xid->name, advice[xid->class]);
        else
                snprintf(text, size, "Xid %llu", (unsigned long long)number);
}

static void parse_element(const char *text, size_t length, bool *all, enum health_rule rule,
        struct health_policy *policy, struct strbuf *ignored)
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
                        policy->named[xid] = (unsigned char)rule;
                        return;
                }
        }
        strbuf_printf(ignored, "%s'%.*s'", ignored->size ? ", " : "", (int)MIN(length, (size_t)64), text);
}

static void parse_list(
        const char *list, bool *all, enum health_rule rule, struct health_policy *policy, struct strbuf *ignored)
{
        while (list) {
                size_t length = strcspn(list, ",");

                parse_element(list, length, all, rule, policy, ignored);
                list = list[length] ? list + length + 1 : NULL;
        }
}

void health_policy_parse(struct health_policy *policy, const char *disable, const char *enable, struct strbuf *ignored)
{
        *policy = (struct health_policy){.recover = true};
        parse_list(disable, &policy->none, HEALTH_IGNORES, policy, ignored);
        parse_list(enable, &policy->all, HEALTH_COUNTS, policy, ignored);
}

bool health_policy_add_rule(struct health_policy *policy, uint64_t xid, bool unhealthy)
{
        if (xid >= XID_MAX)
                return false;
        policy->ruled[xid] = unhealthy ? HEALTH_COUNTS : HEALTH_IGNORES;
        return true;
}

enum xid_effect health_policy_effect(const struct health_policy *policy, uint64_t xid)
{
        const bool is_known = xid < XID_MAX;
        const enum health_rule named = is_known ? (enum health_rule)policy->named[xid] : HEALTH_UNRULED;
        const enum health_rule ruled = is_known ? (enum health_rule)policy->ruled[xid] : HEALTH_UNRULED;

        if (named == HEALTH_COUNTS)
                return XID_UNHEALTHY;
        if (named == HEALTH_IGNORES && !policy->all)
                return XID_IGNORED;
        if (ruled != HEALTH_UNRULED)
                return ruled == HEALTH_COUNTS ? XID_UNHEALTHY : XID_IGNORED;
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
