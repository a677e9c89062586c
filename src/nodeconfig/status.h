/*
 * Which configuration this node uses, and whether the newest one was accepted: log, annotation, metric and event all
 * use this.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CONFIG_HASH ((size_t)16) /* digits that are shown, of SHA-256: "sha256sum | cut -c1-16" */

enum config_verdict {
        CONFIG_WAITING,  /* none can be chosen yet; |why| */
        CONFIG_ACCEPTED, /* the newest one is in use */
        CONFIG_REFUSED,  /* the newest cannot be used; |why| */
};

struct config_status {
        const char *name;   /* of the configuration in use; NULL: none is */
        const char *source; /* where it came from: "ConfigMap gpu/configs", "folder '/available-configs'", "file" */
        const char *by;     /* the rule that chose it: "label", "default", …; "last good"; "file" */
        char hash[CONFIG_HASH + 1];
        uint64_t generation; /* how many were accepted so far, including this one */
        enum config_verdict verdict;
        const char *why;
};

static inline const char *config_verdict_name(enum config_verdict verdict)
{
        static const char *const names[] = {
                [CONFIG_WAITING] = "waiting", [CONFIG_ACCEPTED] = "accepted", [CONFIG_REFUSED] = "refused"};

        return names[verdict];
}
