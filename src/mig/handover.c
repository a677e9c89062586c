#include "mig/handover.h"

#include <jansson.h>
#include <string.h>

static bool is_true(const json_t *object, const char *key)
{
        return json_is_true(json_object_get(object, key));
}

static const char *handover_text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

static const char *find_object(const char *output)
{
        for (const char *line = output; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (*line == '{')
                        return line;
        }
        return NULL;
}

/* Reads the UUIDs of the MIG devices that stay. An instance has several if it has several compute instances. */
static void read_stays(struct mig_handover *handover, struct mig_handover_gpu *gpu, const json_t *stays)
{
        const char **uuids;
        size_t most = 0;

        for (size_t i = 0; i < json_array_size(stays); i++)
                most += json_array_size(json_object_get(json_array_get(stays, i), "uuids"));
        uuids = ARENA_ARRAY(&handover->arena, const char *, most);
        for (size_t i = 0; i < json_array_size(stays); i++) {
                const json_t *of = json_object_get(json_array_get(stays, i), "uuids");

                for (size_t j = 0; j < json_array_size(of); j++) {
                        const char *uuid = json_string_value(json_array_get(of, j));

                        if (uuid)
                                uuids[gpu->n_stays++] = arena_strdup(&handover->arena, uuid);
                }
        }
        gpu->stays = uuids;
}

static void handover_read_gpus(struct mig_handover *handover, const json_t *gpus)
{
        handover->n_seen = json_array_size(gpus);
        handover->gpus = ARENA_ARRAY(&handover->arena, struct mig_handover_gpu, handover->n_seen);
        for (size_t i = 0; i < handover->n_seen; i++) {
                const json_t *from = json_array_get(gpus, i);
                struct mig_handover_gpu *gpu = &handover->gpus[handover->n_gpus];

                if (!is_true(from, "changes"))
                        continue;
                handover->n_gpus++;
                handover->needs_reset = handover->needs_reset ||
                                        strcmp(handover_text_of(json_object_get(from, "mode"), "needs"), "reset") == 0;
                gpu->uuid = arena_strdup(&handover->arena, handover_text_of(from, "uuid"));
                if (strcmp(handover_text_of(json_object_get(from, "mode"), "needs"), "nothing") == 0)
                        read_stays(handover, gpu, json_object_get(from, "stays"));
        }
}

int mig_handover_read(struct mig_handover *ret, const char *output, struct error *err)
{
        const char *start = find_object(output);
        json_error_t trouble = {.text = "it has no JSON object"};
        json_t *json = start ? json_loads(start, JSON_DISABLE_EOF_CHECK, &trouble) : NULL;

        *ret = (struct mig_handover){.config = "", .text = "", .reason = ""};
        if (!json)
                return error_set(err, ERROR_INVALID, "the answer of 'warpshare mig plan': %s", trouble.text);
        ret->config = arena_strdup(&ret->arena, handover_text_of(json, "config"));
        ret->text = arena_strdup(&ret->arena, start);
        ret->fits = is_true(json, "fits");
        ret->reason = arena_strdup(&ret->arena, handover_text_of(json, "reason"));
        handover_read_gpus(ret, json_object_get(json, "gpus"));
        json_decref(json);
        return 0;
}

void mig_handover_done(struct mig_handover *handover)
{
        arena_done(&handover->arena);
        *handover = (struct mig_handover){.config = "", .text = "", .reason = ""};
}

bool mig_handover_takes(const struct mig_handover *handover, const char *gpu, const char *unit)
{
        for (size_t i = 0; i < handover->n_gpus; i++) {
                const struct mig_handover_gpu *taken = &handover->gpus[i];

                if (strcmp(taken->uuid, gpu) != 0)
                        continue;
                for (size_t j = 0; j < taken->n_stays; j++)
                        if (strcmp(taken->stays[j], unit) == 0)
                                return false;
                return true;
        }
        return false;
}
