// SPDX-License-Identifier: Apache-2.0
#include "plan/declared.h"

#include <string.h>

#include "base/mps_value.h"
#include "base/text.h"

#define THREADS_VARIABLE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define PRIORITY_VARIABLE "CUDA_MPS_CLIENT_PRIORITY"
#define MEMORY_VARIABLE "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
/* A longer value is certainly invalid. */
#define VALUE_MAX ((size_t)1024)
#define MIB ((uint64_t)1 << 20)

/* ---- the container ---- */

static const json_t *declared_find(const json_t *list, const char *name)
{
        size_t i;
        const json_t *item;

        json_array_foreach(list, i, item)
        {
                const char *found = json_string_value(json_object_get(item, "name"));

                if (found && strcmp(found, name) == 0)
                        return item;
        }
        return NULL;
}

static const json_t *find_container(const json_t *pod, const char *name)
{
        static const char *const lists[] = {"containers", "initContainers"};
        const json_t *found = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(lists) && !found; i++)
                found = declared_find(json_object_get(json_object_get(pod, "spec"), lists[i]), name);
        return found;
}

/* The literal value of the variable, or NULL; |*ret_is_set|: it has a value, perhaps from elsewhere. */
static const char *variable_of(const json_t *container, const char *name, bool *ret_is_set)
{
        const json_t *variable = declared_find(json_object_get(container, "env"), name);
        const char *value = json_string_value(json_object_get(variable, "value"));

        *ret_is_set = variable && (json_object_get(variable, "valueFrom") || (value && *value));
        if (!value || !*value || strlen(value) > VALUE_MAX || strstr(value, "$("))
                return NULL;
        return value;
}

/* ---- annotations ---- */

/* "<name>.<container>", else |name|. */
static const char *annotation_of(
        struct arena *arena, const json_t *pod, const char *name, const char *container, const char **ret_key)
{
        const json_t *annotations = json_object_get(json_object_get(pod, "metadata"), "annotations");
        const char *const keys[] = {arena_printf(arena, "%s.%s", name, container), name};

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                const char *value = json_string_value(json_object_get(annotations, keys[i]));

                *ret_key = keys[i];
                if (value)
                        return value;
        }
        return NULL;
}

static bool read_percent(struct arena *arena, const char *text, unsigned int *ret_permille)
{
        size_t length = strlen(text);

        if (length > 0 && text[length - 1] == '%')
                length--;
        return length <= VALUE_MAX && mps_value_threads(arena_strndup(arena, text, length), ret_permille) &&
               strspn(text, "0.%") != strlen(text);
}

/* The suffixes of Kubernetes' quantities that are used for memory. */
static bool read_quantity(const char *text, uint64_t *ret_mib)
{
        static const struct {
                const char *suffix;
                uint64_t bytes;
        } units[] = {
                {"Mi", UINT64_C(1) << 20},
                {"Gi", UINT64_C(1) << 30},
                {"Ti", UINT64_C(1) << 40},
                {"M", UINT64_C(1000000)},
                {"G", UINT64_C(1000000000)},
                {"T", UINT64_C(1000000000000)},
        };
        size_t digits = strspn(text, "0123456789");
        char number[8];
        uint64_t value;

        if (digits == 0 || digits >= sizeof(number))
                return false;
        memcpy(number, text, digits);
        number[digits] = '\0';
        if (!text_to_uint(number, CONFIG_MAX_RESERVE_MIB, &value))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                if (strcmp(text + digits, units[i].suffix) == 0) {
                        *ret_mib = value * units[i].bytes >> 20;
                        return *ret_mib > 0 && *ret_mib <= CONFIG_MAX_RESERVE_MIB;
                }
        return false;
}

static char *say_fault(struct arena *arena, const char *kind, const char *key, const char *value, const char *expected)
{
        return arena_printf(arena, "%s %.200s: '%.64s' is not %s, so it is ignored", kind, key, value, expected);
}

/* The first fault counts: an event has room for one. */
static void declared_note(struct declared *said, char *fault)
{
        text_clean(fault);
        if (!said->fault)
                said->fault = fault;
}

static void declared_read_threads(struct declared *said, struct arena *arena, const json_t *pod, const char *container)
{
        const char *key;
        const char *value = annotation_of(arena, pod, DECLARED_THREADS, container, &key);

        if (value && !read_percent(arena, value, &said->threads_permille)) {
                said->threads_permille = 0;
                declared_note(said, say_fault(arena, "the annotation", key, value,
                                            "a percentage above 0 and at most 100, for example 60 or 2.5"));
        }
}

static void declared_read_memory(struct declared *said, struct arena *arena, const json_t *pod, const char *container)
{
        const char *key;
        const char *value = annotation_of(arena, pod, DECLARED_MEMORY, container, &key);

        if (value && !read_quantity(value, &said->memory_mib)) {
                said->memory_mib = 0;
                declared_note(said, say_fault(arena, "the annotation", key, value,
                                            "an amount of memory from 1Mi to 1Ti, for example 512Mi or 20Gi"));
        }
}

/* MPS has two priorities of clients. The container's own variable counts without us. */
static void declared_read_priority(struct declared *said, struct arena *arena, const json_t *pod, const char *container)
{
        const char *key;
        const char *value = annotation_of(arena, pod, DECLARED_PRIORITY, container, &key);
        bool is_set;

        variable_of(find_container(pod, container), PRIORITY_VARIABLE, &is_set);
        if (!value || is_set)
                return;
        if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
                declared_note(said, say_fault(arena, "the annotation", key, value, "0 (normal) or 1 (below normal)"));
        else
                said->priority = strcmp(value, "0") == 0 ? PRIORITY_VARIABLE "=0" : PRIORITY_VARIABLE "=1";
}

/* ---- NVIDIA's dialect ---- */

#define NVIDIA_PREFIX "nvidia.com/container."
#define NVIDIA_VARIABLE "NVIDIA_GPU_MEMORY_"

/* One value of the dialect, and where it stands. */
struct nvidia_memory {
        uint64_t mib; /* 0: there is none that can be used */
        const char *place;
};

static const char *nvidia_annotation(
        struct arena *arena, const json_t *pod, const char *container, const char *key, const char **ret_key)
{
        const json_t *annotations = json_object_get(json_object_get(pod, "metadata"), "annotations");

        *ret_key = arena_printf(arena, NVIDIA_PREFIX "%s.%s", container, key);
        return json_string_value(json_object_get(annotations, *ret_key));
}

static bool read_nvidia_quantity(const char *text, uint64_t *ret_mib)
{
        uint64_t bytes;

        if (strlen(text) > VALUE_MAX || !quantity_value(text, &bytes) || bytes < MIB)
                return false;
        bytes = bytes / MIB + (bytes % MIB != 0);
        if (bytes > CONFIG_MAX_RESERVE_MIB)
                return false;
        *ret_mib = bytes;
        return true;
}

/* |key|: of the annotation, |variable|: of the container. */
static struct nvidia_memory read_nvidia_memory(struct declared *said, struct arena *arena, const json_t *pod,
        const char *container, const char *key, const char *variable)
{
        struct nvidia_memory memory = {0};
        const char *value = nvidia_annotation(arena, pod, container, key, &memory.place);
        bool is_set;

        if (value) {
                memory.place = arena_printf(arena, "the annotation %.200s", memory.place);
                if (!read_nvidia_quantity(value, &memory.mib))
                        declared_note(
                                said, say_fault(arena, "the annotation", memory.place + strlen("the annotation "),
                                              value, "an amount of memory from 1Mi to 1Ti, for example 512Mi or 20Gi"));
                return memory;
        }
        memory.place = arena_printf(arena, "the variable %s", variable);
        value = variable_of(find_container(pod, container), variable, &is_set);
        if (is_set && (!value || !text_to_uint(value, CONFIG_MAX_RESERVE_MIB, &memory.mib) || memory.mib == 0)) {
                memory.mib = 0;
                declared_note(said, say_fault(arena, "the variable", variable, value ? value : "(from elsewhere)",
                                            "a number of MiB from 1 to 1048576 in the pod's own text"));
        }
        return memory;
}

static void read_nvidia_limits(struct declared *said, struct arena *arena, const json_t *pod, const char *container)
{
        struct nvidia_memory limit =
                read_nvidia_memory(said, arena, pod, container, "gpu-memory.limit", NVIDIA_VARIABLE "LIMIT");
        struct nvidia_memory request =
                read_nvidia_memory(said, arena, pod, container, "gpu-memory.request", NVIDIA_VARIABLE "REQUEST");

        if (limit.mib && request.mib > limit.mib) {
                declared_note(
                        said, arena_printf(arena,
                                      "%s: %ju MiB is above the limit, which is %ju MiB by %s, so both are ignored",
                                      request.place, (uintmax_t)request.mib, (uintmax_t)limit.mib, limit.place));
                return;
        }
        if (limit.mib && request.mib && request.mib < limit.mib)
                declared_note(
                        said, arena_printf(arena,
                                      "%s: %ju MiB is below the limit and has no effect: the container gets its limit, "
                                      "%ju MiB by %s, and is accounted with that",
                                      request.place, (uintmax_t)request.mib, (uintmax_t)limit.mib, limit.place));
        if (!limit.mib)
                limit = request;
        if (limit.mib && said->memory_mib && said->memory_mib != limit.mib)
                declared_note(
                        said, arena_printf(arena, "%s: %ju MiB is ignored, since " DECLARED_MEMORY " says %ju MiB",
                                      limit.place, (uintmax_t)limit.mib, (uintmax_t)said->memory_mib));
        else if (limit.mib)
                said->memory_mib = limit.mib;
}

/* The other keys of the dialect have no effect here, which is not passed over in silence. */
static void note_nvidia_others(struct declared *said, struct arena *arena, const json_t *pod, const char *container)
{
        static const struct {
                const char *key;
                const char *usable; /* a value that is as it is here; or NULL */
                const char *expected;
        } others[] = {
                {"gpu-compute.mode", "sm-sharing", "sm-sharing, and containers of this resource share by MPS"},
                {"gpu-compute.portion", NULL, "known here: say " DECLARED_THREADS " in percent"},
                {"gpus.devices", NULL, "known here: kubelet and Warpshare choose the GPU"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                const char *key;
                const char *value = nvidia_annotation(arena, pod, container, others[i].key, &key);

                if (value && (!others[i].usable || strcmp(value, others[i].usable) != 0))
                        declared_note(said, say_fault(arena, "the annotation", key, value, others[i].expected));
        }
}

/* ---- public ---- */

struct declared declared_read(struct arena *arena, const json_t *pod, const char *container)
{
        const json_t *found = find_container(pod, container);
        struct declared said = {.is_known = true};
        const char *threads = variable_of(found, THREADS_VARIABLE, &said.has_own_threads);
        const char *memory = variable_of(found, MEMORY_VARIABLE, &said.has_own_memory);
        uint64_t mib = 0;

        if (threads && !mps_value_threads(threads, &said.threads_permille)) {
                said.threads_permille = 0;
                said.is_unclear = true;
                declared_note(&said, say_fault(arena, "the variable", THREADS_VARIABLE, threads,
                                             "a percentage above 0 and at most 100"));
        }
        if (memory && mps_value_memory(memory, 0, "", &mib)) {
                said.own_memory = arena_strdup(arena, memory);
        } else if (memory) {
                said.is_unclear = true;
                declared_note(
                        &said, say_fault(arena, "the variable", MEMORY_VARIABLE, memory, "a list like 0=8G,1=512M"));
        }
        said.is_unclear |= (said.has_own_threads && !threads) || (said.has_own_memory && !memory) ||
                           json_array_size(json_object_get(found, "envFrom")) > 0;
        if (!said.has_own_threads)
                declared_read_threads(&said, arena, pod, container);
        if (!said.has_own_memory) {
                declared_read_memory(&said, arena, pod, container);
                read_nvidia_limits(&said, arena, pod, container);
        }
        declared_read_priority(&said, arena, pod, container);
        note_nvidia_others(&said, arena, pod, container);
        return said;
}

struct share declared_share(const struct declared *said, const struct mps_part *part, size_t ordinal)
{
        struct share share = share_of(part->resource, part->unit, part->replicas);
        uint64_t memory_mib = said->memory_mib;

        if (said->own_memory)
                mps_value_memory(said->own_memory, (int)ordinal, part->unit->uuid, &memory_mib);
        if (memory_mib)
                share.memory_mib = memory_mib;
        if (said->threads_permille)
                share.threads_permille = said->threads_permille;
        return share_below_ceilings(part->unit, share);
}

/*
 * Variables in Allocate's answer are the limits of one share, and a variable of the pod has precedence over them.
 * Variables set at the container's start have precedence over both, so those that the container has anyway are left
 * out.
 */
unsigned int declared_omits(const struct declared *said, size_t n_parts)
{
        bool is_reported = n_parts > 1;
        unsigned int omits = 0;

        if (said->has_own_threads || (!said->threads_permille && !is_reported))
                omits |= MPS_LIMITS_NO_THREADS;
        if (said->has_own_memory || (!said->memory_mib && !is_reported))
                omits |= MPS_LIMITS_NO_MEMORY;
        return omits;
}
