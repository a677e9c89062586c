#include "cluster/why_refused.h"

#include <string.h>

#include "base/text.h"

static const struct refusal {
        const char *says; /* a part of the message */
        const char *means;
        const char *todo;
} refusals[] = {
        /* Warpshare's and NVIDIA's plugin, plan/allocate.c and plan/allocations.c */
        {"maximum request size for shared resources is 1",
                "it asks for several replicas of one that is shared, and more are worth no more than one there "
                "(failRequestsGreaterThanOne)",
                "ask for 1; or let more replicas mean a larger share: MPS with 'provisioning: weighted'"},
        {"but maxPerRequest is", "it asks for more in one container than the configuration allows (maxPerRequest)",
                "ask for as many as the message says, or raise maxPerRequest"},
        {"but all must be of one unit", "it asks for more than one GPU has, and a share comes from one GPU",
                "ask for as many as the message says, or for whole GPUs"},
        {"free replicas: the most is",
                "no single GPU had as many free replicas: the scheduler counts those of the node, and by an "
                "older list",
                "delete it, its controller makes another one; 'reserve: strict' keeps room for each request"},
        {"not healthy", "what it was to get was not healthy at that moment",
                "delete it, its controller makes another one; 'kubectl warpshare doctor NODE' says what is unhealthy"},
        /* kubelet's device manager */
        {"requested number of devices unavailable", "kubelet had fewer free devices than the scheduler had counted",
                "delete it, its controller makes another one; if it comes again, restart the agent of the node"},
        {"no healthy devices present", "all devices of the resource were unhealthy at kubelet",
                "'kubectl warpshare doctor NODE' says why; then delete it, its controller makes another one"},
        {"Node didn't have enough resource", "the node had less than the scheduler had counted",
                "delete it, its controller makes another one"},
        {"unregistered", "the agent was not registered with kubelet at that moment",
                "'kubectl warpshare doctor NODE'; then delete it, its controller makes another one"},
        {"no containers return in allocation response", "the agent gave an empty answer",
                "see the agent's log on that node"},
        {"DeadlineExceeded", "the agent did not answer kubelet in time",
                "'kubectl warpshare doctor NODE'; the agent's log there"},
        {"code = Unavailable", "kubelet did not reach the agent",
                "'kubectl warpshare doctor NODE'; the agent's log there"},
};

static const char *skip(const char *text, const char *prefix)
{
        return text_starts_with(text, prefix) ? text + strlen(prefix) : text;
}

/* Removes the text that kubelet and gRPC put around each message. */
static const char *why_refused_shorten(const char *message, struct arena *arena)
{
        static const char tail[] = ", which is unexpected";
        const char *code;
        size_t length;

        message = skip(message, "Pod was rejected: ");
        message = skip(message, "Allocate failed due to ");
        code = text_starts_with(message, "rpc error: code = ") ? strstr(message, " desc = ") : NULL;
        if (code)
                message = code + strlen(" desc = ");
        length = strlen(message);
        if (length > strlen(tail) && strcmp(message + length - strlen(tail), tail) == 0)
                length -= strlen(tail);
        return arena_strndup(arena, message, length);
}

const char *why_refused(
        const char *reason, const char *message, struct arena *arena, const char **ret_todo, const char **ret_said)
{
        *ret_said = message && *message ? why_refused_shorten(message, arena) : NULL;
        *ret_todo = "delete it, its controller makes another one";
        for (size_t i = 0; message && i < ARRAY_SIZE(refusals); i++)
                if (strstr(message, refusals[i].says)) {
                        *ret_todo = refusals[i].todo;
                        return refusals[i].means;
                }
        return arena_printf(arena, "kubelet's reason is %s", reason ? reason : "not known");
}
