// SPDX-License-Identifier: Apache-2.0
#include "fake_kubelet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <deviceplugin.pb-c.h>

#include "base/strbuf.h"
#include "node/kubelet/pod_resources.h"
#include "plan/allocate.h"

struct fake_kubelet kubelet;

/* ---- the record ---- */

static void add_base64(struct strbuf *text, const uint8_t *bytes, size_t size)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

        for (size_t i = 0; i < size; i += 3) {
                uint32_t group = (uint32_t)bytes[i] << 16 | (i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0) |
                                 (i + 2 < size ? bytes[i + 2] : 0);

                for (size_t j = 0; j < 4; j++)
                        strbuf_printf(text, "%c", i + j > size ? '=' : digits[group >> (18 - 6 * j) & 63]);
        }
}

/* What the plugin answers for it, as far as it matters here. */
static void add_answer(struct strbuf *text, struct fake_container *container)
{
        V1beta1__ContainerAllocateResponse answer = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
        V1beta1__ContainerAllocateResponse__EnvsEntry values[2];
        V1beta1__ContainerAllocateResponse__EnvsEntry *entries[] = {&values[0], &values[1]};
        V1beta1__CDIDevice device;
        V1beta1__CDIDevice *devices[] = {&device};
        _free_ char *name = xasprintf(CDI_KIND_MPS "=%s", container->allocation);
        uint8_t bytes[512];

        v1beta1__cdidevice__init(&device);
        for (size_t i = 0; i < 2; i++)
                v1beta1__container_allocate_response__envs_entry__init(&values[i]);
        values[0].key = (char *)(uintptr_t) "WARPSHARE_GRANT";
        values[0].value = container->allocation;
        values[1].key = (char *)(uintptr_t) "NVIDIA_VISIBLE_DEVICES";
        values[1].value = container->unit;
        answer.envs = entries;
        answer.n_envs = container->unit[0] ? 2 : 1;
        device.name = name;
        answer.cdi_devices = devices;
        answer.n_cdi_devices = container->has_device;
        assert_true(v1beta1__container_allocate_response__get_packed_size(&answer) <= sizeof(bytes));
        add_base64(text, bytes, v1beta1__container_allocate_response__pack(&answer, bytes));
}

static void add_entry(struct strbuf *text, struct fake_container *container)
{
        strbuf_printf(text,
                "%s{\"PodUID\":\"uid-%s\",\"ContainerName\":\"%s\",\"ResourceName\":\"%s\",\"DeviceIDs\":{\"-1\":[",
                text->data[text->size - 1] == '[' ? "" : ",", container->pod, container->is_init ? "prepare" : "main",
                container->resource);
        for (size_t i = 0; i < container->n_ids; i++)
                strbuf_printf(text, "%s\"%s\"", i ? "," : "", container->ids[i]);
        strbuf_printf(text, "]},\"AllocResp\":\"");
        if (container->allocation[0])
                add_answer(text, container);
        strbuf_printf(text, "\"}");
}

/* A file in the place of the one before, as kubelet does it. */
static void write_file(const char *path, const char *content)
{
        _free_ char *beside = xasprintf("%s.new", path);
        FILE *file = fopen(beside, "w");

        assert_non_null(file);
        fputs(content, file);
        fclose(file);
        assert_int_equal(rename(beside, path), 0);
}

void fake_kubelet_write_record(void)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (!kubelet.writes_record)
                return;
        strbuf_printf(&text, "{\"Data\":{\"PodDeviceEntries\":[");
        for (size_t i = 0; i < kubelet.n_containers; i++)
                if (kubelet.containers[i].is_in_memory)
                        add_entry(&text, &kubelet.containers[i]);
        strbuf_printf(&text, "],\"RegisteredDevices\":{}},\"Checksum\":1}");
        write_file(kubelet.record, text.data);
}

bool fake_kubelet_repeat(const char *resource, void *data UNUSED)
{
        assert_memory_equal(resource, "nvidia.com/", strlen("nvidia.com/"));
        kubelet.n_repeats++;
        if (kubelet.takes_lists)
                fake_kubelet_write_record();
        return kubelet.takes_lists;
}

/* Before a request and before a list. */
static void forget_ended(void)
{
        for (size_t i = 0; i < kubelet.n_containers; i++)
                kubelet.containers[i].is_in_memory &= kubelet.containers[i].is_running;
}

/* ---- the list ---- */

struct list_text {
        struct arena arena;
        struct pod_list list;
};

struct question {
        pod_list_fn *done;
        void *data;
        struct list_text *as_asked;
};

static struct question questions[FAKE_QUESTIONS];

static struct list_text *list_now(void)
{
        struct list_text *text = xcalloc(1, sizeof(*text));
        struct pod_container *containers = ARENA_ARRAY(&text->arena, struct pod_container, kubelet.n_containers);

        text->list.containers = containers;
        for (size_t i = 0; i < kubelet.n_containers && !kubelet.is_starting; i++) {
                const struct fake_container *one = &kubelet.containers[i];
                struct held_device *devices = ARENA_ARRAY(&text->arena, struct held_device, one->n_ids);

                if (!one->is_in_memory || !one->is_running || one->is_init)
                        continue;
                for (size_t j = 0; j < one->n_ids; j++)
                        devices[j] = (struct held_device){
                                arena_strdup(&text->arena, one->resource), arena_strdup(&text->arena, one->ids[j])};
                containers[text->list.n_containers++] = (struct pod_container){
                        "team", arena_strdup(&text->arena, one->pod), "main", devices, one->n_ids};
        }
        return text;
}

static void free_list(struct list_text *text)
{
        arena_done(&text->arena);
        free(text);
}

static struct question take_question(void)
{
        struct question first = questions[0];

        memmove(questions, questions + 1, --kubelet.n_questions * sizeof(*questions));
        return first;
}

void fake_kubelet_answer(void)
{
        while (kubelet.n_questions) {
                struct question question = take_question();
                struct list_text *now = list_now();

                forget_ended();
                question.done(NULL, &now->list, question.data);
                free_list(question.as_asked);
                free_list(now);
        }
}

void fake_kubelet_answer_as_asked(void)
{
        struct question question;

        assert_true(kubelet.n_questions > 0);
        question = take_question();
        question.done(NULL, &question.as_asked->list, question.data);
        free_list(question.as_asked);
}

void fake_kubelet_refuse(void)
{
        size_t count = kubelet.n_questions;
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "kubelet is busy");
        while (count-- && kubelet.n_questions) {
                struct question question = take_question();

                free_list(question.as_asked);
                question.done(&err, NULL, question.data);
        }
}

/* ---- node/kubelet/pod_resources.h ---- */

struct pod_resources {
        int unused;
};

int pod_resources_new(
        struct pod_resources **ret, uv_loop_t *loop UNUSED, const char *socket UNUSED, struct error *err UNUSED)
{
        *ret = xcalloc(1, sizeof(**ret));
        return 0;
}

void pod_resources_close(struct pod_resources *pods)
{
        while (kubelet.n_questions)
                free_list(take_question().as_asked);
        free(pods);
}

void pod_resources_list(struct pod_resources *pods UNUSED, pod_list_fn *done, void *data)
{
        assert_true(kubelet.n_questions < FAKE_QUESTIONS);
        questions[kubelet.n_questions++] = (struct question){done, data, list_now()};
}

/* ---- containers ---- */

void fake_kubelet_record(void)
{
        for (size_t i = 0; i < kubelet.n_containers; i++)
                kubelet.containers[i].is_in_memory |= kubelet.containers[i].is_running;
        fake_kubelet_write_record();
}

static void on_bound(const struct error *err, const struct allocate_binding *binding, void *context)
{
        struct fake_container *container = context;

        assert_false(container->is_answered);
        container->is_answered = true;
        if (err) {
                container->error = *err;
                return;
        }
        container->is_running = true;
        if (binding) {
                snprintf(container->allocation, sizeof(container->allocation), "%s",
                        binding->allocation ? binding->allocation : "");
                snprintf(container->unit, sizeof(container->unit), "%s", binding->unit ? binding->unit : "");
                snprintf(container->pipe, sizeof(container->pipe), "%s", binding->pipe ? binding->pipe : "");
                snprintf(container->partition, sizeof(container->partition), "%s",
                        binding->partition ? binding->partition : "");
                snprintf(container->metadata, sizeof(container->metadata), "%s",
                        binding->metadata ? binding->metadata : "");
                snprintf(container->metadata_path, sizeof(container->metadata_path), "%s",
                        binding->metadata ? binding->metadata_path : "");
                container->sms = binding->sms;
                container->tier = binding->tier;
        }
        if (!kubelet.records_late)
                fake_kubelet_record();
}

struct fake_container *fake_kubelet_allocate(
        const struct broker *broker, const struct resource *resource, const char *pod, bool is_init, const char *ids)
{
        struct fake_container *container = &kubelet.containers[kubelet.n_containers++];
        const char *pointers[FAKE_IDS];
        char text[FAKE_IDS * 24];
        char *rest = text;

        assert_true(kubelet.n_containers < FAKE_PODS && strlen(ids) < sizeof(text));
        forget_ended();
        *container = (struct fake_container){.is_init = is_init, .has_device = kubelet.names_devices};
        snprintf(container->resource, sizeof(container->resource), "%s", resource->name);
        snprintf(container->pod, sizeof(container->pod), "%s", pod);
        strcpy(text, ids);
        for (char *id = strtok_r(text, " ", &rest); id; id = strtok_r(NULL, " ", &rest)) {
                snprintf(container->ids[container->n_ids], sizeof(container->ids[0]), "%s", id);
                pointers[container->n_ids] = container->ids[container->n_ids];
                container->n_ids++;
        }
        broker->bind(resource, pointers, container->n_ids, on_bound, container, broker->data);
        return container;
}

static void on_started(const struct error *err, void *context)
{
        struct fake_container *container = context;

        assert_true(container->is_waiting);
        container->is_waiting = false;
        if (err)
                container->start_error = *err;
}

void fake_kubelet_start(const struct broker *broker, struct fake_container *container)
{
        const char *ids[FAKE_IDS];

        for (size_t i = 0; i < container->n_ids; i++)
                ids[i] = container->ids[i];
        assert_false(container->is_waiting);
        container->is_waiting = true;
        container->start_error = (struct error){0};
        broker->start(container->resource, ids, container->n_ids, on_started, container, broker->data);
}

void fake_kubelet_end_pod(const char *pod)
{
        for (size_t i = 0; i < kubelet.n_containers; i++)
                if (strcmp(kubelet.containers[i].pod, pod) == 0)
                        kubelet.containers[i].is_running = false;
}

/* ---- begin and end ---- */

void fake_kubelet_begin(const char *socket, const char *record)
{
        kubelet = (struct fake_kubelet){.socket = socket, .record = record, .writes_record = true, .takes_lists = true};
        kubelet.containers = xcalloc(FAKE_PODS, sizeof(*kubelet.containers));
        write_file(socket, "");
        fake_kubelet_write_record();
}

void fake_kubelet_end(void)
{
        unlink(kubelet.socket);
        unlink(kubelet.record);
        free(kubelet.containers);
}

void fake_kubelet_restart(void)
{
        kubelet.is_starting = true;
        write_file(kubelet.socket, "");
}

void fake_kubelet_gather(void)
{
        kubelet.is_starting = false;
}
