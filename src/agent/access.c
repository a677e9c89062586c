#include "agent/access.h"

#include "base/alloc.h"
#include "base/log.h"
#include "kube/access.h"

struct agent_access {
        struct kube_access *access; /* NULL: there is no API server */
        bool is_unanswered;         /* the log has it */
};

struct reader_question {
        struct agent_access *access;
        struct kube_question *asked;
        metrics_permission_fn *done;
        void *waiting;
};

struct agent_access *agent_access_new(struct kube_client *client)
{
        struct agent_access *access = xcalloc(1, sizeof(*access));

        access->access = client ? kube_access_new(client) : NULL;
        return access;
}

static void note_error(struct agent_access *access, const struct error *error)
{
        if (error && !access->is_unanswered)
                log_warn("nobody can read metrics: who may is not known", LOG_ERR(error));
        access->is_unanswered = error != NULL;
}

static void on_verdict(const struct kube_verdict *verdict, void *data)
{
        struct reader_question *question = data;
        const bool is_nobody = verdict->error && verdict->error->kind == ERROR_DENIED;

        note_error(question->access, is_nobody ? NULL : verdict->error);
        if (is_nobody)
                question->done(METRICS_NOBODY, "the token is nobody's", question->waiting);
        else if (verdict->error)
                question->done(METRICS_UNDECIDED, "the API server does not say who may read this", question->waiting);
        else if (!verdict->allowed[0])
                question->done(METRICS_DENIED,
                        "you may not read this: it needs the right to get this path, a nonResourceURL",
                        question->waiting);
        else
                question->done(METRICS_ALLOWED, NULL, question->waiting);
        free(question);
}

void *agent_access_ask(struct agent_access *access, const char *authorization, const char *path,
        metrics_permission_fn *done, void *waiting)
{
        const struct kube_wish wish = {.verb = "get", .path = path};
        const char *token = authorization ? kube_access_bearer(authorization) : NULL;
        struct reader_question *question;

        if (!token || !access->access) {
                if (token)
                        done(METRICS_UNDECIDED, "there is no API server that could say who may read this", waiting);
                else
                        done(METRICS_NOBODY, "a token is needed: Authorization: Bearer ...", waiting);
                return NULL;
        }
        question = xcalloc(1, sizeof(*question));
        *question = (struct reader_question){.access = access, .done = done, .waiting = waiting};
        question->asked = kube_access_ask(access->access, token, &wish, 1, on_verdict, question);
        return question;
}

void agent_access_cancel(void *data)
{
        struct reader_question *question = data;

        kube_access_cancel(question->asked);
        free(question);
}

struct agent_access *agent_access_close(struct agent_access *access)
{
        if (access)
                kube_access_close(access->access);
        free(access);
        return NULL;
}
