#include "agent/access.h"

#include "base/alloc.h"
#include "base/log.h"
#include "net/kube/access.h"

/* A client without rights can cause each of these as often as it likes. */
enum trouble { NO_TROUBLE, NOT_ANSWERED, TOO_MANY, N_TROUBLES };

#define WARN_MS UINT64_C(1000)

struct agent_access {
        struct kube_client *client; /* NULL: the API server is not used */
        struct kube_access *access; /* NULL without |client| */
        enum trouble trouble;       /* of the last answer */
        uint64_t warn_at[N_TROUBLES];
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

        access->client = client;
        access->access = client ? kube_access_new(client) : NULL;
        return access;
}

/* When it begins, and at most once in WARN_MS. */
static void note_trouble(struct agent_access *access, enum trouble trouble, const struct error *error)
{
        static const char *const texts[] = {
                [NOT_ANSWERED] = "metrics are refused: the API server cannot authorize readers",
                [TOO_MANY] = "some readers of metrics are refused: too many others are being authorized"};
        const uint64_t now = uv_now(kube_client_loop(access->client));

        if (trouble != NO_TROUBLE && trouble != access->trouble && now >= access->warn_at[trouble]) {
                log_warn(texts[trouble], LOG_ERR(error));
                access->warn_at[trouble] = now + WARN_MS;
        }
        access->trouble = trouble;
}

static enum trouble access_trouble_of(const struct error *error)
{
        if (!error || error->kind == ERROR_DENIED)
                return NO_TROUBLE;
        return error->kind == ERROR_EXHAUSTED ? TOO_MANY : NOT_ANSWERED;
}

static void on_access_answer(const struct kube_verdict *review, void *data)
{
        struct reader_question *question = data;
        const enum trouble trouble = access_trouble_of(review->error);

        note_trouble(question->access, trouble, review->error);
        if (trouble == TOO_MANY)
                question->done(METRICS_UNDECIDED, review->error->text, question->waiting);
        else if (review->error && trouble == NO_TROUBLE)
                question->done(METRICS_NOBODY, "invalid token", question->waiting);
        else if (review->error)
                question->done(METRICS_UNDECIDED, "the API server does not say who may read this", question->waiting);
        else if (!review->allowed[0])
                question->done(METRICS_DENIED,
                        "you may not read this: it needs the right to get this path, a nonResourceURL",
                        question->waiting);
        else
                question->done(METRICS_ALLOWED, NULL, question->waiting);
        free(question);
}

void *agent_access_ask(
        struct agent_access *access, const struct metrics_asker *asker, metrics_permission_fn *done, void *waiting)
{
        const struct kube_wish wish = {.verb = "get", .path = asker->path};
        const char *token = kube_access_bearer(asker->authorization);
        struct reader_question *question;

        if (!token || !access->access) {
                if (token)
                        done(METRICS_UNDECIDED, "the API server, which authorizes readers, is not used", waiting);
                else
                        done(METRICS_NOBODY, "a token is needed: Authorization: Bearer ...", waiting);
                return NULL;
        }
        question = xcalloc(1, sizeof(*question));
        *question = (struct reader_question){.access = access, .done = done, .waiting = waiting};
        question->asked =
                kube_access_ask(access->access, &(struct kube_asker){.token = token, .is_suspect = asker->is_suspect},
                        &wish, 1, on_access_answer, question);
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
