// SPDX-License-Identifier: Apache-2.0
#include "node/kubelet/holders.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"

struct holders {
        struct arena arena;
        struct holder *all;
        size_t n_all;
        struct map by_device; /* "<resource>\n<id>" → struct holder * */
        struct map entries;   /* checkpoint entries: "<pod UID>\n<container>\n<resource>" → LISTED or OVER */
        struct map pods;      /* UIDs in the checkpoint */
        size_t n_twice;       /* devices of two pods in the list */
};

static const char LISTED[] = "listed";
static const char OVER[] = "over";

static const char *holders_key_of(struct arena *arena, const char *resource, const char *device)
{
        return arena_printf(arena, "%s\n%s", resource, device);
}

static void holders_add_device(struct holders *holders, struct holder *held, const char *device)
{
        held->devices[held->n_devices++] = arena_strdup(&holders->arena, device);
        map_add(&holders->by_device, holders_key_of(&holders->arena, held->resource, device), held);
}

static struct holder *find_first_holder(const struct holders *holders, const char *resource, const char *device)
{
        const size_t before = strlen(resource);
        const size_t after = strlen(device);
        char usual[256]; /* of every device that is held, each time that something is looked at */
        _free_ char *long_key = before + 1 + after > sizeof(usual) ? xcalloc(1, before + 1 + after) : NULL;
        char *key = long_key ? long_key : usual;

        memcpy(key, resource, before);
        key[before] = '\n';
        memcpy(key + before + 1, device, after);
        return map_find_bytes(&holders->by_device, key, before + 1 + after);
}

/* ---- the list ---- */

static bool is_new_resource(const struct pod_container *container, size_t position)
{
        for (size_t i = 0; i < position; i++)
                if (strcmp(container->devices[i].resource, container->devices[position].resource) == 0)
                        return false;
        return true;
}

static void add_listed(struct holders *holders, const struct pod_container *container, const char *resource)
{
        struct holder *held = &holders->all[holders->n_all++];

        held->pod_namespace = arena_strdup(&holders->arena, container->pod_namespace);
        held->pod = arena_strdup(&holders->arena, container->pod);
        held->container = arena_strdup(&holders->arena, container->container);
        held->resource = arena_strdup(&holders->arena, resource);
        held->devices = ARENA_ARRAY(&holders->arena, const char *, container->n_devices);
        for (size_t i = 0; i < container->n_devices; i++)
                if (strcmp(container->devices[i].resource, resource) == 0)
                        holders_add_device(holders, held, container->devices[i].id);
}

/* By pod; the containers of one stay in their order. */
static int compare_containers(const void *a, const void *b)
{
        const struct pod_container *const first = *(const struct pod_container *const *)a;
        const struct pod_container *const second = *(const struct pod_container *const *)b;
        int result = strcmp(first->pod_namespace, second->pod_namespace);

        if (!result)
                result = strcmp(first->pod, second->pod);
        return result ? result : (first > second) - (first < second);
}

/* kubelet has its pods in another order each time, and the first of two holders is to stay the first. */
static void add_list(struct holders *holders, const struct pod_list *list)
{
        struct arena scratch = ARENA_INIT;
        const struct pod_container **sorted = ARENA_ARRAY(&scratch, const struct pod_container *, list->n_containers);

        for (size_t i = 0; i < list->n_containers; i++)
                sorted[i] = &list->containers[i];
        if (list->n_containers)
                qsort(sorted, list->n_containers, sizeof(*sorted), compare_containers);
        for (size_t i = 0; i < list->n_containers; i++)
                for (size_t j = 0; j < sorted[i]->n_devices; j++)
                        if (is_new_resource(sorted[i], j))
                                add_listed(holders, sorted[i], sorted[i]->devices[j].resource);
        arena_done(&scratch);
}

static bool is_of_one_pod(const struct holder *a, const struct holder *b)
{
        return strcmp(a->pod_namespace, b->pod_namespace) == 0 && strcmp(a->pod, b->pod) == 0;
}

/* The one that has the device, too, of another pod and earlier in the list; NULL: none. */
static struct holder *holders_find_first(const struct holders *holders, const struct holder *held, size_t position)
{
        struct holder *first = find_first_holder(holders, held->resource, held->devices[position]);

        return first == held || is_of_one_pod(first, held) ? NULL : first;
}

/* Before the checkpoint is added: all are of the list. */
static void find_twice(struct holders *holders)
{
        for (size_t i = 0; i < holders->n_all; i++) {
                struct holder *held = &holders->all[i];

                for (size_t j = 0; j < held->n_devices; j++) {
                        struct holder *first = holders_find_first(holders, held, j);

                        if (!first)
                                continue;
                        holders->n_twice++;
                        held->is_second = true;
                        if (strcmp(first->container, held->container) == 0)
                                first->is_disputed = held->is_disputed = true;
                }
        }
}

/* ---- the checkpoint ---- */

static bool holders_has_device(const struct holder *held, const char *device)
{
        for (size_t i = 0; i < held->n_devices; i++)
                if (strcmp(held->devices[i], device) == 0)
                        return true;
        return false;
}

/* Where a device has two holders, only the first is found by it. */
static struct holder *find_second(const struct holders *holders, const struct checkpoint_entry *entry)
{
        for (size_t i = 0; i < holders->n_all; i++) {
                struct holder *held = &holders->all[i];

                if (held->is_second && strcmp(held->resource, entry->resource) == 0 &&
                        strcmp(held->container, entry->container) == 0 && holders_has_device(held, entry->devices[0]))
                        return held;
        }
        return NULL;
}

/* The container in the list that the entry is about: they have a device in common. */
static struct holder *find_listed(const struct holders *holders, const struct checkpoint_entry *entry)
{
        for (size_t i = 0; i < entry->n_devices; i++) {
                struct holder *held = find_first_holder(holders, entry->resource, entry->devices[i]);

                /* A later container may have the devices of an init container that has ended. */
                if (held && held->container && strcmp(held->container, entry->container) == 0)
                        return held;
        }
        return holders->n_twice && entry->n_devices ? find_second(holders, entry) : NULL;
}

static void add_unlisted(
        struct holders *holders, const struct checkpoint_entry *entry, const char *pod_uid, bool is_doubtful)
{
        struct holder *held = &holders->all[holders->n_all++];

        held->pod_uid = pod_uid;
        held->is_doubtful = is_doubtful;
        held->answer = arena_strdup(&holders->arena, entry->answer);
        held->resource = arena_strdup(&holders->arena, entry->resource);
        held->devices = ARENA_ARRAY(&holders->arena, const char *, entry->n_devices);
        for (size_t i = 0; i < entry->n_devices; i++)
                holders_add_device(holders, held, entry->devices[i]);
}

static const char *entry_key(struct arena *arena, const struct checkpoint_entry *entry)
{
        return arena_printf(arena, "%s\n%s\n%s", entry->pod_uid, entry->container, entry->resource);
}

static void holders_note(struct holders *holders, const struct checkpoint_entry *entry, const char *what)
{
        map_add(&holders->entries, entry_key(&holders->arena, entry), (void *)(uintptr_t)what);
}

/* The earlier state of the entry, or NULL. */
static const char *known_of(const struct holders *before, const struct checkpoint_entry *entry)
{
        struct arena scratch = ARENA_INIT;
        const char *known = before ? map_find(&before->entries, entry_key(&scratch, entry)) : NULL;

        arena_done(&scratch);
        return known;
}

/* Marks the entries that the list has, and their pods. */
static void add_uids(struct holders *holders, const struct checkpoint *checkpoint, struct map *alive)
{
        for (size_t i = 0; i < checkpoint->n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint->entries[i];
                struct holder *listed = find_listed(holders, entry);
                const char *pod_uid = arena_strdup(&holders->arena, entry->pod_uid);

                map_add(&holders->pods, pod_uid, holders);
                if (!listed)
                        continue;
                if (!listed->is_disputed) {
                        listed->pod_uid = pod_uid;
                        listed->answer = arena_strdup(&holders->arena, entry->answer);
                }
                holders_note(holders, entry, LISTED);
                map_add(alive, pod_uid, (void *)(uintptr_t)pod_uid);
        }
}

static void add_checkpoint(
        struct holders *holders, const struct checkpoint *checkpoint, const struct holders *before, bool is_whole)
{
        struct map alive = MAP_INIT; /* UID → its copy */

        add_uids(holders, checkpoint, &alive);
        for (size_t i = 0; i < checkpoint->n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint->entries[i];
                const char *known = known_of(before, entry);

                if (find_listed(holders, entry))
                        continue;
                if (known == OVER || (known == LISTED && is_whole)) {
                        holders_note(holders, entry, OVER);
                        continue;
                }
                if (known)
                        holders_note(holders, entry, known);
                add_unlisted(holders, entry, arena_strdup(&holders->arena, entry->pod_uid),
                        !map_find(&alive, entry->pod_uid));
        }
        map_done(&alive);
}

/* ---- public ---- */

struct holders *holders_new(
        const struct pod_list *list, const struct checkpoint *checkpoint, const struct holders *before, bool is_whole)
{
        struct holders *holders = xcalloc(1, sizeof(*holders));
        size_t most = checkpoint ? checkpoint->n_entries : 0;

        for (size_t i = 0; i < list->n_containers; i++)
                most += list->containers[i].n_devices;
        holders->all = ARENA_ARRAY(&holders->arena, struct holder, most);
        add_list(holders, list);
        find_twice(holders);
        if (checkpoint)
                add_checkpoint(holders, checkpoint, before, is_whole);
        return holders;
}

struct holders *holders_free(struct holders *holders)
{
        if (!holders)
                return NULL;
        map_done(&holders->by_device);
        map_done(&holders->entries);
        map_done(&holders->pods);
        arena_done(&holders->arena);
        free(holders);
        return NULL;
}

const struct holder *holders_find(const struct holders *holders, const char *resource, const char *device)
{
        return find_first_holder(holders, resource, device);
}

size_t holders_twice(const struct holders *holders, struct arena *arena, const struct holders_twice **ret)
{
        struct holders_twice *twice = ARENA_ARRAY(arena, struct holders_twice, holders->n_twice);
        size_t count = 0;

        for (size_t i = 0; i < holders->n_all; i++) {
                const struct holder *held = &holders->all[i];

                for (size_t j = 0; held->is_second && j < held->n_devices; j++) {
                        const struct holder *first = holders_find_first(holders, held, j);

                        if (first)
                                twice[count++] = (struct holders_twice){held->resource, held->devices[j], first, held};
                }
        }
        *ret = twice;
        return count;
}

static bool holders_is_named(const char *const *names, size_t count, const char *name)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

size_t holders_doubtful(const struct holders *holders, struct arena *arena, const char *const **ret)
{
        const char **names = ARENA_ARRAY(arena, const char *, holders->n_all);
        size_t count = 0;

        for (size_t i = 0; i < holders->n_all; i++) {
                const struct holder *held = &holders->all[i];

                if (held->is_doubtful && !holders_is_named(names, count, held->resource))
                        names[count++] = arena_strdup(arena, held->resource);
        }
        *ret = names;
        return count;
}

uint64_t holders_doubt(const struct holders *holders)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < holders->n_all; i++) {
                const struct holder *holder = &holders->all[i];
                uint64_t hash = HASH_INIT;

                if (!holder->is_doubtful)
                        continue;
                hash_add(&hash, holder->pod_uid, strlen(holder->pod_uid));
                sum += hash; /* independent of the order */
        }
        return sum;
}

const struct map *holders_pods(const struct holders *holders)
{
        return &holders->pods;
}

/* Its devices without those that another pod, the first of the two, has as well. */
static struct allocations_held own_devices(
        const struct holders *holders, const struct holder *held, struct arena *arena)
{
        struct allocations_held own = {.devices = held->devices, .n_devices = held->n_devices, .answer = held->answer};
        const char **devices;

        if (!held->is_second)
                return own;
        own.devices = devices = ARENA_ARRAY(arena, const char *, held->n_devices);
        own.n_devices = 0;
        for (size_t i = 0; i < held->n_devices; i++)
                if (!holders_find_first(holders, held, i))
                        devices[own.n_devices++] = held->devices[i];
        return own;
}

size_t holders_of(
        const struct holders *holders, const char *resource, struct arena *arena, struct allocations_held **ret)
{
        struct allocations_held *held = ARENA_ARRAY(arena, struct allocations_held, holders->n_all);
        size_t count = 0;

        for (size_t i = 0; i < holders->n_all; i++)
                if (strcmp(holders->all[i].resource, resource) == 0)
                        held[count++] = own_devices(holders, &holders->all[i], arena);
        *ret = held;
        return count;
}

static const char *say_holder(struct arena *arena, const struct holder *holder)
{
        if (holder->pod)
                return arena_printf(arena, "%s/%s/%s", holder->pod_namespace, holder->pod, holder->container);
        return holder->pod_uid ? arena_strdup(arena, holder->pod_uid) : NULL;
}

size_t holders_all(const struct holders *holders, struct arena *arena, size_t n_more, struct rollout_held **ret)
{
        size_t count = n_more;

        for (size_t i = 0; i < holders->n_all; i++)
                count += holders->all[i].n_devices;
        *ret = ARENA_ARRAY(arena, struct rollout_held, count);
        count = 0;
        for (size_t i = 0; i < holders->n_all; i++) {
                const struct holder *held = &holders->all[i];
                const char *holder = say_holder(arena, held);
                const char *pod_uid = held->pod_uid ? arena_strdup(arena, held->pod_uid) : NULL;

                for (size_t j = 0; j < held->n_devices; j++)
                        (*ret)[count++] = (struct rollout_held){.resource = arena_strdup(arena, held->resource),
                                .device = arena_strdup(arena, held->devices[j]),
                                .holder = holder,
                                .pod_uid = pod_uid};
        }
        return count;
}

size_t holders_containers(const struct holders *holders, const struct holder **ret)
{
        *ret = holders->all;
        return holders->n_all;
}
