// SPDX-License-Identifier: Apache-2.0
#include "node/kubelet/plugins.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/io/loop.h"
#include "base/io/lock.h"
#include "base/io/dirwatch.h"
#include "node/kubelet/plugin.h"

#define POLL_MS UINT64_C(5000)
#define LOCK_RETRY_MS UINT64_C(200)

struct member {
        struct list link;
        struct plugins *plugins;
        struct plugin *plugin;
        char *name;
        bool wanted; /* in the plan that is being applied */
};

struct plugins {
        struct plugin_place place;
        char *directory;
        char *kubelet_socket;
        struct dirwatch *watch;
        uv_timer_t lock_timer;
        struct deferred settle; /* shows kubelet what has changed in this turn of the loop */
        bool plan_is_new;
        struct lock lock;
        bool is_serving;          /* this agent was the last to have the lock */
        bool lock_refused;        /* logged */
        bool is_removed;          /* the directory, though its path still leads there */
        struct file_mark kubelet; /* its socket, as last seen */
        const struct plan *plan;
        struct list members;
        struct list draining; /* closing; their names are not to be registered again before they are gone */

        void (*on_stranded)(void *data);
        void (*on_serving)(bool is_serving, void *data);
        void *data;
        bool is_closing;
        struct closing closing;
        void (*closed)(void *data);
        void *closed_data;
};

bool plugins_is_serving(const struct plugins *plugins)
{
        return plugins->is_serving;
}

/* ---- members ---- */

static void plugins_free(void *context)
{
        struct plugins *plugins = context;
        void (*closed)(void *) = plugins->closed;
        void *data = plugins->closed_data;

        lock_hand_over(&plugins->lock);
        free(plugins->directory);
        free(plugins->kubelet_socket);
        free(plugins);
        closed(data);
}

static void carry_out_plan(struct plugins *plugins);

static void on_plugin_closed(void *data)
{
        struct member *member = data;
        struct plugins *plugins = member->plugins;

        list_remove(&member->link);
        free(member->name);
        free(member);
        if (!plugins->is_closing && plugins->plan && plugins->lock.fd >= 0)
                carry_out_plan(plugins);
        closing_release(&plugins->closing);
}

static void close_member(struct member *member)
{
        list_remove(&member->link);
        list_append(&member->plugins->draining, &member->link);
        plugin_close(member->plugin, on_plugin_closed, member);
}

static void close_members(struct plugins *plugins)
{
        while (!list_is_empty(&plugins->members))
                close_member(container_of(plugins->members.next, struct member, link));
}

static struct member *find_member(const struct list *members, const char *name)
{
        LIST_FOR_EACH(link, members) {
                struct member *member = container_of(link, struct member, link);

                if (strcmp(member->name, name) == 0)
                        return member;
        }
        return NULL;
}

static struct member *add_member(struct plugins *plugins, const char *name)
{
        struct member *member = xcalloc(1, sizeof(*member));

        member->plugins = plugins;
        member->name = xstrdup(name);
        member->plugin = plugin_new(&plugins->place, name);
        list_append(&plugins->members, &member->link);
        closing_hold(&plugins->closing);
        return member;
}

/* Brings the members in line with the plan; may be called again at any time. */
static void carry_out_plan(struct plugins *plugins)
{
        const struct plan *plan = plugins->plan;
        struct list *next;

        plugins->plan_is_new = false;
        LIST_FOR_EACH(link, &plugins->members)
                container_of(link, struct member, link)->wanted = false;
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];
                struct member *member = find_member(&plugins->members, resource->name);
                bool is_new;

                if (member && !plugin_has_same_options(member->plugin, plan, resource)) {
                        close_member(member);
                        member = NULL;
                }
                is_new = !member;
                if (is_new && find_member(&plugins->draining, resource->name))
                        continue; /* starts when the one before is gone: see node/kubelet/registration.h */
                if (is_new)
                        member = add_member(plugins, resource->name);
                member->wanted = true;
                plugin_set_resource(member->plugin, plan, resource);
                if (is_new && (!plugins->place.kubelet_socket || file_mark_exists(&plugins->kubelet)))
                        plugin_note_kubelet(member->plugin, true);
        }
        for (struct list *link = plugins->members.next; link != &plugins->members; link = next) {
                struct member *member = container_of(link, struct member, link);

                next = link->next;
                if (!member->wanted)
                        close_member(member);
        }
}

/* Everything of one turn of the loop in one message a resource. */
static void settle_plugins(void *data)
{
        struct plugins *plugins = data;

        if (plugins->lock.fd < 0) {
                /* Closes plugins of the previous plan, whose sockets were removed with kubelet's directory. */
                if (plugins->plan_is_new)
                        close_members(plugins);
                plugins->plan_is_new = false; /* who takes the lock carries it out */
                return;
        }
        if (plugins->plan_is_new) {
                carry_out_plan(plugins);
                return;
        }
        LIST_FOR_EACH(link, &plugins->members)
                plugin_refresh(container_of(link, struct member, link)->plugin);
}

void plugins_settle(struct plugins *plugins)
{
        if (plugins->plan_is_new)
                deferred_flush(&plugins->settle);
}

void plugins_apply(struct plugins *plugins, const struct plan *plan)
{
        plugins_settle(plugins);
        /* The previous plan is freed after this call; requests of this turn must not use it. */
        LIST_FOR_EACH(link, &plugins->members)
                plugin_forget_previous(container_of(link, struct member, link)->plugin);
        plugins->plan = plan;
        plugins->plan_is_new = true;
        deferred_schedule(&plugins->settle);
}

void plugins_refresh(struct plugins *plugins)
{
        deferred_schedule(&plugins->settle);
}

void plugins_flush(struct plugins *plugins)
{
        if (!plugins->plan_is_new)
                deferred_flush(&plugins->settle);
}

bool plugins_repeat(struct plugins *plugins, const char *resource)
{
        const struct member *member = find_member(&plugins->members, resource);

        return member && plugin_repeat(member->plugin);
}

/* ---- kubelet's directory ---- */

/* Sockets of an agent that died. Safe, since the lock says that no other agent lives here. */
static void remove_stale_sockets(struct plugins *plugins)
{
        DIR *directory = opendir(plugins->directory);
        const struct dirent *entry;

        if (!directory)
                return;
        while ((entry = readdir(directory))) {
                struct stat status;

                if (strncmp(entry->d_name, PLUGIN_SOCKET_PREFIX, strlen(PLUGIN_SOCKET_PREFIX)) != 0)
                        continue;
                if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISSOCK(status.st_mode))
                        unlinkat(dirfd(directory), entry->d_name, 0);
        }
        closedir(directory);
}

/* Compares kubelet's socket with what was last seen and notifies the plugins. */
static void check_for_kubelet(struct plugins *plugins)
{
        struct file_mark now;

        if (!plugins->place.kubelet_socket)
                return;
        now = file_mark_at(plugins->place.kubelet_socket);
        if (file_mark_is_same(&now, &plugins->kubelet))
                return;
        log_info(file_mark_exists(&now) ? "kubelet's socket is there" : "kubelet's socket is gone",
                LOG_STR("socket", plugins->place.kubelet_socket));
        plugins->kubelet = now;
        LIST_FOR_EACH(link, &plugins->members)
                plugin_note_kubelet(container_of(link, struct member, link)->plugin, file_mark_exists(&now));
}

static void on_lock_timer(uv_timer_t *timer);

static void report_lock(struct plugins *plugins, const char *what, const char *reason)
{
        if (!plugins->lock_refused)
                log_warn(what, LOG_STR("reason", reason));
        plugins->lock_refused = true;
}

static void set_serving(struct plugins *plugins, bool is_serving)
{
        bool is_same = plugins->is_serving == is_serving;

        plugins->is_serving = is_serving;
        if (!is_same && plugins->on_serving)
                plugins->on_serving(is_serving, plugins->data);
}

static void plugins_give_way(struct plugins *plugins)
{
        _free_ char *reason = xasprintf(
                "another warpshare agent holds the lock on '%s'; taking over when it ends", plugins->directory);

        close_members(plugins);
        if (plugins->is_serving)
                plugins->lock_refused = false; /* a missing directory was logged as another reason */
        report_lock(plugins, plugins->is_serving ? "not serving any more" : "not serving yet", reason);
        set_serving(plugins, false);
        uv_timer_start(&plugins->lock_timer, on_lock_timer, LOCK_RETRY_MS, 0);
}

/* Takes the lock if it is not held; with the lock this agent starts to serve. */
static void take_lock(struct plugins *plugins)
{
        struct error err;
        int rc;

        if (lock_is_current(&plugins->lock, plugins->directory))
                return;
        if (plugins->lock.fd >= 0)
                log_warn("kubelet's directory was removed or replaced", LOG_STR("directory", plugins->directory));
        rc = lock_take(&plugins->lock, plugins->directory, &err);
        if (rc == 0) {
                plugins->lock_refused = false;
                uv_timer_stop(&plugins->lock_timer);
                remove_stale_sockets(plugins);
                set_serving(plugins, true);
                if (plugins->plan)
                        carry_out_plan(plugins);
                return;
        }
        if (rc == LOCK_BUSY)
                plugins_give_way(plugins);
        else
                report_lock(plugins, "not serving yet", err.text); /* the watch reports when the directory is there */
}

/* |again|: it was removed the last time, too. */
static void check_directory(struct plugins *plugins, bool again)
{
        bool was_removed = plugins->is_removed;

        plugins->is_removed = file_is_removed_folder(plugins->directory);
        if (!plugins->is_removed) {
                take_lock(plugins);
                check_for_kubelet(plugins);
        } else if (was_removed && again && plugins->on_stranded) {
                plugins->on_stranded(plugins->data);
        } else {
                uv_timer_start(&plugins->lock_timer, on_lock_timer, LOCK_RETRY_MS, 0);
        }
}

static void on_lock_timer(uv_timer_t *timer)
{
        check_directory(container_of(timer, struct plugins, lock_timer), true);
}

static void on_directory_changed(void *data)
{
        check_directory(data, false);
}

/* ---- life ---- */

static uint64_t make_incarnation(void)
{
        const uint64_t now_us = (uint64_t)clock_unix_us();

        return now_us / 1000000 << 20 | now_us % 1000000;
}

int plugins_new(struct plugins **ret, const struct plugins_options *options, struct error *err)
{
        bool registers = options->kubelet_socket[0] != '\0';
        struct plugins *plugins = xcalloc(1, sizeof(*plugins));

        plugins->directory = registers ? file_folder(options->kubelet_socket) : xstrdup(CONFIG_DEVICE_PLUGINS);
        plugins->kubelet_socket = xstrdup(options->kubelet_socket);
        plugins->place = (struct plugin_place){
                .loop = options->loop,
                .directory = plugins->directory,
                .kubelet_socket = registers ? plugins->kubelet_socket : NULL,
                .incarnation = make_incarnation(),
                .health = options->health,
                .broker = options->broker,
                .bind_timeout_ms = options->bind_timeout_ms,
        };
        plugins->lock = (struct lock)LOCK_INIT;
        plugins->on_stranded = options->on_stranded;
        plugins->data = options->data;
        list_init(&plugins->members);
        list_init(&plugins->draining);
        if (dirwatch_new(&plugins->watch, options->loop, plugins->directory,
                    options->poll_ms ? options->poll_ms : POLL_MS, on_directory_changed, plugins, err) < 0) {
                free(plugins->directory);
                free(plugins->kubelet_socket);
                free(plugins);
                return -1;
        }
        uv_timer_init(options->loop, &plugins->lock_timer);
        deferred_init(&plugins->settle, options->loop, settle_plugins, plugins);
        take_lock(plugins);
        check_for_kubelet(plugins);
        plugins->on_serving = options->on_serving;
        *ret = plugins;
        return 0;
}

void plugins_close(struct plugins *plugins, void (*closed)(void *data), void *data)
{
        plugins->is_closing = true;
        plugins->closed = closed;
        plugins->closed_data = data;
        plugins->watch = dirwatch_close(plugins->watch);
        close_members(plugins);
        closing_close(&plugins->closing, &plugins->lock_timer);
        deferred_close(&plugins->settle, &plugins->closing);
        closing_end(&plugins->closing, plugins_free, plugins);
}

const struct device_list *plugins_list(const struct plugins *plugins, const char *resource)
{
        const struct member *member = find_member(&plugins->members, resource);

        return member ? plugin_list(member->plugin) : NULL;
}
