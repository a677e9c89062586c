// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "mps/supervisor/process.h"
#include "plan/allocations.h"

#define OWNERS_MAX ((size_t)32) /* of hung processes at once; one more takes the place of the oldest */

struct environments {
        struct worker *worker;
        uv_loop_t *loop;
        char *root;
        struct list asked;
        struct owner {
                char *pod_uid; /* NULL: of no pod */
                uid_t uid;
                uint64_t until; /* of the loop's clock; 0: no owner */
        } left_out[OWNERS_MAX];
        size_t n_hung; /* since the beginning */
};

/* ---- in the worker ---- */

/* "35" or "33.3", above 0 and at most 100, as CUDA takes it; 0: nothing of that kind. */
static unsigned int read_percentage(const char *value)
{
        char *end;
        const double percentage = strtod(value, &end);

        if (end == value || *end || !(percentage > 0 && percentage <= 100))
                return 0;
        return MAX((unsigned int)(percentage * 10 + 0.5), 1U);
}

void environment_read(struct environment *ret, const char *root, pid_t pid, uint64_t start_time)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *value;

        process_read_environment(&text, root, pid, start_time);
        *ret = (struct environment){.is_known = text.size > 0 && text.size < PROCESS_ENVIRONMENT_MAX};
        value = process_find_variable(&text, ENVIRONMENT_ALLOCATION);
        if (value && allocations_is_id(value) && strlen(value) < sizeof(ret->allocation))
                strcpy(ret->allocation, value);
        value = process_find_variable(&text, ENVIRONMENT_THREADS);
        ret->asked_permille = value ? read_percentage(value) : 0;
}

static void environment_serve(const void *message, size_t size UNUSED, struct strbuf *answer, const void *data)
{
        const struct environment_process *process = message;
        struct environment environment;

        environment_read(&environment, data, process->pid, process->start_time);
        strbuf_append(answer, &environment, sizeof(environment));
}

/* ---- whose processes are left out ---- */

static bool is_owner(const struct owner *owner, const struct environment_question *question)
{
        return text_is_same(owner->pod_uid, question->pod_uid) && (owner->pod_uid || owner->uid == question->uid);
}

static bool is_left_out(const struct environments *environments, const struct environment_question *question)
{
        for (size_t i = 0; i < OWNERS_MAX; i++)
                if (environments->left_out[i].until > uv_now(environments->loop) &&
                        is_owner(&environments->left_out[i], question))
                        return true;
        return false;
}

static const struct owner *leave_out(struct environments *environments, const struct environment_question *question)
{
        struct owner *owner = &environments->left_out[environments->n_hung++ % OWNERS_MAX];

        free(owner->pod_uid);
        *owner = (struct owner){.pod_uid = question->pod_uid ? xstrdup(question->pod_uid) : NULL,
                .uid = question->uid,
                .until = uv_now(environments->loop) + ENVIRONMENT_LEFT_OUT_MS};
        log_warn("the environment of a process cannot be read, it lets its reader hang: the processes of its owner are "
                 "left out for a minute",
                LOG_INT("pid", question->process.pid), LOG_STR("pod", question->pod_uid),
                LOG_INT("user", question->uid));
        return owner;
}

/* ---- questions ---- */

static void environment_question_end(struct environment_question *question, const struct environment *environment)
{
        list_remove(&question->link);
        question->done(question, environment);
}

/* Ends the questions that wait for the worker. A callback may cancel others of the list. */
static void end_questions_of(struct environments *environments, const struct owner *owner)
{
        static const struct environment unknown;
        struct list theirs = LIST_INIT(theirs);
        struct list *next;

        for (struct list *link = environments->asked.next; link != &environments->asked; link = next) {
                struct environment_question *question = container_of(link, struct environment_question, link);

                next = link->next;
                if (!is_owner(owner, question))
                        continue;
                worker_cancel(environments->worker, &question->request);
                list_remove(link);
                list_append(&theirs, link);
        }
        while (!list_is_empty(&theirs))
                environment_question_end(container_of(theirs.next, struct environment_question, link), &unknown);
}

static void environment_on_environment(
        struct worker_request *request, const struct error *err, const void *answer, size_t size)
{
        struct environment_question *question = container_of(request, struct environment_question, request);
        struct environments *environments = question->environments;
        struct environment environment = {0};

        if (!err && size == sizeof(environment))
                memcpy(&environment, answer, size);
        if (err && err->kind == ERROR_TIMEOUT)
                end_questions_of(environments, leave_out(environments, question));
        else
                environment_question_end(question, &environment);
}

bool environments_ask(struct environments *environments, struct environment_question *question)
{
        if (is_left_out(environments, question))
                return false;
        question->environments = environments;
        question->request = (struct worker_request){.message = &question->process,
                .size = sizeof(question->process),
                .deadline_ms = ENVIRONMENT_DEADLINE_MS,
                .done = environment_on_environment};
        list_append(&environments->asked, &question->link);
        worker_ask(environments->worker, &question->request);
        return true;
}

void environments_cancel(struct environment_question *question)
{
        list_remove(&question->link);
        worker_cancel(question->environments->worker, &question->request);
}

struct environments *environments_new(uv_loop_t *loop, const char *root)
{
        struct environments *environments = xcalloc(1, sizeof(*environments));

        environments->loop = loop;
        environments->root = xstrdup(root);
        environments->worker = worker_new(loop, "mps-environment", environment_serve, environments->root);
        list_init(&environments->asked);
        return environments;
}

struct environments *environments_close(struct environments *environments)
{
        if (!environments)
                return NULL;
        worker_close(environments->worker);
        for (size_t i = 0; i < OWNERS_MAX; i++)
                free(environments->left_out[i].pod_uid);
        free(environments->root);
        free(environments);
        return NULL;
}
