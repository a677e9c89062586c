// SPDX-License-Identifier: Apache-2.0
/*
 * A question looks into what is kept; what is missing it asks of the API server, and looks again with each answer,
 * until nothing is missing.
 *
 *     token ──known?──no──► TokenReview ──┐
 *       ▲  └──yes──► rights ──all known?──┼─yes──► done
 *       └────────────────────┐            │
 *                            └──answer◄───┴─no──► SubjectAccessReview, KUBE_ACCESS_AT_ONCE of them
 *
 * The hash of a token only names what is kept and protects nothing: code that could compare hashes has the token in
 * memory anyway.
 */
#include "net/kube/access.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/io/loop.h"
#include "net/kube/object.h"

#define KUBE_ACCESS_AT_ONCE 8U /* reviews of one question */

struct access_user {
        struct list link;
        char hash[SHA256_HEX + 1];
        json_t *user;        /* NULL: the token is invalid */
        uint64_t until;      /* on the loop's clock */
        uint64_t good_until; /* 0: it has had no right yet */
        json_t *rights;      /* the wish's key → [is allowed, until], the oldest first */
};

/* Each class of clients has a limit of its own for reviews at a time. */
enum access_queue { QUEUE_STRANGERS, QUEUE_SUSPECTS, QUEUE_GOOD, N_QUEUES };

static const unsigned int queue_limits[] = {[QUEUE_STRANGERS] = KUBE_ACCESS_PARALLEL,
        [QUEUE_SUSPECTS] = KUBE_ACCESS_SUSPECTS,
        [QUEUE_GOOD] = KUBE_ACCESS_PARALLEL};

struct kube_access {
        struct kube_client *client;
        struct list users; /* the oldest first */
        size_t n_users;
        struct list questions;
        unsigned int n_reviews[N_QUEUES];
};

struct access_wish {
        char *key;
        json_t *attributes; /* of the review's spec */
        struct kube_call *call;
        struct kube_question *question;
        bool is_asked;
};

struct kube_question {
        struct list link;
        struct kube_access *access;
        char hash[SHA256_HEX + 1];
        char *token; /* NULL once its review is sent */
        struct kube_call *review;
        bool is_suspect;
        enum access_queue queue; /* of |review| */
        struct access_wish *wishes;
        bool *allowed;
        size_t n_wishes;
        size_t n_open; /* reviews of wishes on their way */
        struct error error;
        struct deferred begin;
        struct closing closing;
        kube_verdict_fn *done;
        void *data;
};

/* ---- what is kept ---- */

static void user_free(struct kube_access *access, struct access_user *user)
{
        list_remove(&user->link);
        access->n_users--;
        json_decref(user->user);
        json_decref(user->rights);
        free(user);
}

static uint64_t access_now(const struct kube_access *access)
{
        return uv_now(kube_client_loop(access->client));
}

static struct access_user *access_find_known(struct kube_access *access, const char *hash)
{
        LIST_FOR_EACH(link, &access->users) {
                struct access_user *user = container_of(link, struct access_user, link);

                if (strcmp(user->hash, hash) == 0)
                        return user;
        }
        return NULL;
}

static struct access_user *find_user(struct kube_access *access, const char *hash)
{
        struct access_user *user = access_find_known(access, hash);

        return user && user->until > access_now(access) ? user : NULL;
}

static bool access_is_good(const struct access_user *user, uint64_t now)
{
        return user && user->good_until > now;
}

/* The user to forget first: the oldest without any right, else the oldest. */
static struct access_user *find_least(struct kube_access *access)
{
        LIST_FOR_EACH(link, &access->users) {
                struct access_user *user = container_of(link, struct access_user, link);

                if (!access_is_good(user, access_now(access)))
                        return user;
        }
        return container_of(access->users.next, struct access_user, link);
}

/* |json|: a reference that is taken; NULL: the token is invalid. */
static void keep_user(struct kube_access *access, const char *hash, json_t *json)
{
        struct access_user *user = access_find_known(access, hash);
        const uint64_t good_until = user && json ? user->good_until : 0;

        if (user)
                user_free(access, user);
        if (access->n_users >= KUBE_ACCESS_USERS)
                user_free(access, find_least(access));
        user = xcalloc(1, sizeof(*user));
        memcpy(user->hash, hash, sizeof(user->hash));
        user->user = json;
        user->until = access_now(access) + KUBE_ACCESS_KEEP_MS;
        user->good_until = good_until;
        user->rights = json_object();
        list_append(&access->users, &user->link);
        access->n_users++;
}

/* NULL: it is not known. */
static const json_t *find_right(const struct access_user *user, const char *key, uint64_t now)
{
        const json_t *right = json_object_get(user->rights, key);

        return right && (uint64_t)json_integer_value(json_array_get(right, 1)) > now ? json_array_get(right, 0) : NULL;
}

static void keep_right(struct kube_access *access, const char *hash, const char *key, bool is_allowed)
{
        struct access_user *user = find_user(access, hash);
        const uint64_t now = access_now(access);

        if (!user || find_right(user, key, now))
                return;
        json_object_del(user->rights, key); /* the newest is the last */
        if (json_object_size(user->rights) >= 2 * KUBE_ACCESS_WISHES)
                json_object_del(user->rights, json_object_iter_key(json_object_iter(user->rights)));
        json_object_set_new(
                user->rights, key, json_pack("[b, I]", is_allowed, (json_int_t)now + (json_int_t)KUBE_ACCESS_KEEP_MS));
        if (is_allowed)
                user->good_until = now + KUBE_ACCESS_REMEMBER_MS;
}

/* ---- questions ---- */

static void forget_token(struct kube_question *question)
{
        if (question->token)
                explicit_bzero(question->token, strlen(question->token));
        free(question->token);
        question->token = NULL;
}

static void access_question_end(struct kube_question *question)
{
        list_remove(&question->link);
        forget_token(question);
        if (question->review)
                question->access->n_reviews[question->queue]--;
        kube_call_cancel(question->review);
        for (size_t i = 0; i < question->n_wishes; i++) {
                kube_call_cancel(question->wishes[i].call);
                free(question->wishes[i].key);
                json_decref(question->wishes[i].attributes);
        }
        free(question->wishes);
        free(question->allowed);
        deferred_close(&question->begin, &question->closing);
        closing_end(&question->closing, free, question);
}

static void question_finish(struct kube_question *question, const char *user)
{
        bool *allowed = question->allowed;
        const struct kube_verdict verdict = {
                .error = question->error.kind == ERROR_NONE ? NULL : &question->error,
                .user = user,
                .allowed = allowed,
        };
        kube_verdict_fn *done = question->done;
        void *data = question->data;

        question->allowed = NULL;
        access_question_end(question); /* its memory stays until the loop has closed a handle */
        done(&verdict, data);
        free(allowed);
}

static void question_step(void *data);

/*
 * The kind is never ERROR_DENIED, even if the API server denies us the review, since that says nothing about the token.
 */
static void review_failed(struct kube_question *question, const struct error *error)
{
        question->error = *error;
        question->error.kind = ERROR_UNAVAILABLE;
}

static void on_token_reviewed(const struct kube_answer *answer, void *data)
{
        struct kube_question *question = data;
        json_t *user = object_find(answer->object, "status", "user", NULL);
        const bool is_known = json_is_true(object_find(answer->object, "status", "authenticated", NULL));

        question->review = NULL;
        question->access->n_reviews[question->queue]--;
        if (answer->error)
                review_failed(question, answer->error);
        else
                keep_user(
                        question->access, question->hash, is_known && json_is_object(user) ? json_incref(user) : NULL);
        question_step(question);
}

static enum access_queue queue_of(const struct kube_question *question)
{
        struct kube_access *access = question->access;

        if (access_is_good(access_find_known(access, question->hash), access_now(access)))
                return QUEUE_GOOD;
        return question->is_suspect ? QUEUE_SUSPECTS : QUEUE_STRANGERS;
}

/* Takes |spec|. */
static struct kube_call *access_review(const struct kube_question *question, const char *version, const char *kind,
        const char *path, json_t *spec, kube_done_fn *done, void *data)
{
        json_t *body = json_pack("{s:s, s:s, s:o}", "apiVersion", version, "kind", kind, "spec", spec);
        struct kube_call *call = kube_client_send(question->access->client,
                &(struct kube_request){.method = KUBE_CREATE, .path = path, .body = body, .done = done, .data = data});

        json_decref(body);
        return call;
}

static void review_token(struct kube_question *question)
{
        question->queue = queue_of(question);
        question->access->n_reviews[question->queue]++;
        question->review = access_review(question, "authentication.k8s.io/v1", "TokenReview",
                "/apis/authentication.k8s.io/v1/tokenreviews", json_pack("{s:s}", "token", question->token),
                on_token_reviewed, question);
        forget_token(question);
}

static void on_wish_reviewed(const struct kube_answer *answer, void *data)
{
        struct access_wish *wish = data;
        struct kube_question *question = wish->question;
        const bool is_allowed = json_is_true(object_find(answer->object, "status", "allowed", NULL));

        wish->call = NULL;
        question->n_open--;
        if (answer->error)
                review_failed(question, answer->error);
        else
                keep_right(question->access, question->hash, wish->key, is_allowed);
        question->allowed[wish - question->wishes] = !answer->error && is_allowed;
        question_step(question);
}

static void review_wish(struct kube_question *question, struct access_wish *wish, const json_t *user)
{
        json_t *spec = json_deep_copy(wish->attributes);

        json_object_set(spec, "user", json_object_get(user, "username"));
        json_object_set(spec, "uid", json_object_get(user, "uid"));
        json_object_set(spec, "groups", json_object_get(user, "groups"));
        json_object_set(spec, "extra", json_object_get(user, "extra"));
        wish->is_asked = true;
        question->n_open++;
        wish->call = access_review(question, "authorization.k8s.io/v1", "SubjectAccessReview",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews", spec, on_wish_reviewed, wish);
}

/* True: nothing is missing. */
static bool question_ask_wishes(struct kube_question *question, const struct access_user *user)
{
        const uint64_t now = access_now(question->access);

        for (size_t i = 0; i < question->n_wishes && question->n_open < KUBE_ACCESS_AT_ONCE; i++) {
                struct access_wish *wish = &question->wishes[i];
                const json_t *right = wish->is_asked ? NULL : find_right(user, wish->key, now);

                if (right) {
                        question->allowed[i] = json_is_true(right);
                        wish->is_asked = true;
                } else if (!wish->is_asked) {
                        review_wish(question, wish, user->user);
                }
        }
        return question->n_open == 0;
}

static void question_step(void *data)
{
        struct kube_question *question = data;
        struct kube_access *access = question->access;
        const struct access_user *user = find_user(access, question->hash);

        if (question->error.kind != ERROR_NONE) {
                question_finish(question, NULL);
                return;
        }
        if (user && !user->user) {
                error_raise(&question->error, ERROR_DENIED, "the API server does not accept this token");
                question_finish(question, NULL);
        } else if (user) {
                if (question_ask_wishes(question, user)) {
                        json_t *name = json_incref(json_object_get(user->user, "username"));

                        question_finish(question, json_string_value(name) ? json_string_value(name) : "");
                        json_decref(name);
                }
        } else if (!question->token || access->n_reviews[queue_of(question)] >= queue_limits[queue_of(question)]) {
                error_raise(&question->error, ERROR_EXHAUSTED, "too many tokens are being reviewed; try again");
                question_finish(question, NULL);
        } else {
                review_token(question);
        }
}

/* ---- wishes ---- */

static void wish_read(struct access_wish *ret, const struct kube_wish *wish)
{
        json_t *attributes = json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*}", "verb", wish->verb, "group", wish->group,
                "resource", wish->resource, "namespace", wish->namespace, "path", wish->path);

        ret->key = json_dumps(attributes, JSON_COMPACT);
        ret->attributes = json_pack("{s:o}", wish->path ? "nonResourceAttributes" : "resourceAttributes", attributes);
}

struct kube_question *kube_access_ask(struct kube_access *access, const struct kube_asker *asker,
        const struct kube_wish *wishes, size_t n_wishes, kube_verdict_fn *done, void *data)
{
        struct kube_question *question = xcalloc(1, sizeof(*question));

        question->access = access;
        question->token = xstrdup(asker->token);
        question->is_suspect = asker->is_suspect;
        sha256_hex(asker->token, strlen(asker->token), question->hash);
        question->n_wishes = MIN(n_wishes, (size_t)KUBE_ACCESS_WISHES);
        question->wishes = xcalloc(question->n_wishes + 1, sizeof(*question->wishes));
        question->allowed = xcalloc(question->n_wishes + 1, sizeof(*question->allowed));
        for (size_t i = 0; i < question->n_wishes; i++) {
                wish_read(&question->wishes[i], &wishes[i]);
                question->wishes[i].question = question;
        }
        question->done = done;
        question->data = data;
        deferred_init(&question->begin, kube_client_loop(access->client), question_step, question);
        deferred_schedule(&question->begin);
        list_append(&access->questions, &question->link);
        return question;
}

struct kube_question *kube_access_cancel(struct kube_question *question)
{
        if (question)
                access_question_end(question);
        return NULL;
}

const char *kube_access_bearer(const char *header)
{
        const char *token;

        if (!header || strncasecmp(header, "Bearer ", strlen("Bearer ")) != 0)
                return NULL;
        token = header + strlen("Bearer ");
        token += strspn(token, " ");
        return *token && kube_token_is_plain(token) && strlen(token) <= KUBE_TOKEN_LIMIT ? token : NULL;
}

struct kube_access *kube_access_new(struct kube_client *client)
{
        struct kube_access *access = xcalloc(1, sizeof(*access));

        access->client = client;
        list_init(&access->users);
        list_init(&access->questions);
        return access;
}

struct kube_access *kube_access_close(struct kube_access *access)
{
        if (!access)
                return NULL;
        while (!list_is_empty(&access->questions))
                access_question_end(container_of(access->questions.next, struct kube_question, link));
        while (!list_is_empty(&access->users))
                user_free(access, container_of(access->users.next, struct access_user, link));
        free(access);
        return NULL;
}
