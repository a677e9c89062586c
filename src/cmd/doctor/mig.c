// SPDX-License-Identifier: Apache-2.0
/*
 * doctor's checks for MIG: whether a change is unfinished, whether a mode waits for a reset, and what the MIG manager
 * makes of the node's label.
 */
#include <string.h>

#include "base/file.h"
#include "cmd/doctor/doctor.h"
#include "gpu/nvml.h"
#include "net/kube/object.h"
#include "mig/node.h"
#include "mig/manager.h"
#include "mig/parted.h"
#include "mig/record.h"
#include "mig/run.h"

static const char stays[] = "the GPUs keep the MIG geometry that they have";

/* ---- what an unfinished change has left ---- */

static void report_record(struct doctor *doctor, const struct mig_record *record, const char *path)
{
        static const char means[] = "MIG devices of these GPUs may be missing";

        if (doctor->config->mig.manager)
                doctor_report(doctor, DOCTOR_NOTE, means,
                        "the agent finishes or undoes it, and says in its log and by the node's label if it cannot",
                        "a change to the MIG configuration '%s' is under way ('%s')", record->config, path);
        else
                doctor_report(doctor, DOCTOR_WRONG, means,
                        "unless 'warpshare mig apply' runs now: 'warpshare mig apply --resume' finishes or undoes it; to keep the "
                        "geometry as it is, remove the file",
                        "a change to the MIG configuration '%s' is unfinished%s ('%s')", record->config,
                        record->may_wait ? ", and may wait for a reboot" : "", path);
}

/* False: there is none. */
static bool check_record(struct doctor *doctor)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *path = xasprintf("%s/" MIG_RECORD_NAME, doctor->config->mig.state_directory);
        struct mig_record record;
        struct error err;

        switch (mig_record_read(&record, path, &arena, &err)) {
        case 0:
                report_record(doctor, &record, path);
                return true;
        case MIG_RECORD_NONE:
                return false;
        default:
                doctor_report(doctor, err.kind == ERROR_DENIED ? DOCTOR_SKIPPED : DOCTOR_WRONG,
                        "nobody can finish or undo a change of the MIG geometry that it may be about",
                        "see 'warpshare mig export'; to keep the geometry as it is, remove the file",
                        "the record of a change cannot be read: %s", err.text);
                return true;
        }
}

static bool check_handover(struct doctor *doctor)
{
        _cleanup_(mig_handover_done) struct mig_handover handover = {0};
        _free_ char *path = xasprintf("%s/" MIG_RUN_RECORD_NAME, doctor->config->mig.state_directory);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read_private(path, MIG_HANDOVER_TEXT_MAX, &text, &err) < 0 ||
                mig_handover_read(&handover, text.data, &err) < 0) {
                if (err.kind == ERROR_NOT_FOUND)
                        return false;
                doctor_report(doctor, err.kind == ERROR_DENIED ? DOCTOR_SKIPPED : DOCTOR_WRONG,
                        "an agent that starts does not know what to withdraw", NULL,
                        "the record of what a change withdraws cannot be read: %s", err.text);
                return true;
        }
        doctor_report(doctor, DOCTOR_NOTE, "what is to end on them is given to no new container",
                doctor->config->mig.manager ? "it ends with the change"
                                            : "an agent with mig.manager gives them back; without one, remove the file",
                "%zu GPUs are withdrawn for the MIG configuration '%s'", handover.n_gpus, handover.config);
        return true;
}

/* ---- the GPUs ---- */

/* False: no mode waits. */
static bool check_modes(struct doctor *doctor, const struct mig_node *node)
{
        bool waits = false;

        for (size_t i = 0; i < node->n_gpus; i++) {
                const struct mig_node_gpu *gpu = &node->gpus[i];

                if (gpu->problem || !gpu->is_capable || gpu->geometry.is_enabled == gpu->geometry.is_pending_enabled)
                        continue;
                waits = true;
                doctor_report(doctor, DOCTOR_WRONG, "until then the GPU is as it was",
                        "end what has it opened and reset it ('nvidia-smi --gpu-reset'), or reboot the node",
                        "GPU %u (%s): MIG is to be %s, and waits for a reset", gpu->index, gpu->uuid,
                        gpu->geometry.is_pending_enabled ? "enabled" : "disabled");
        }
        return waits;
}

/* How the GPUs differ from what |config| wants, in |arena|; NULL: they have it. */
static int compare_geometry(const char **ret, struct doctor *doctor, struct arena *arena, const struct mig_node *node,
        const char *config, struct error *err)
{
        const struct mig_parted_config *found;
        const struct mig_wanted *wanted;
        struct mig_parted parted;

        if (!*doctor->config->mig.file)
                mig_generate(&parted, arena, node);
        else if (mig_parted_read(&parted, arena, doctor->config->mig.file, NULL, NULL, err) < 0)
                return -1;
        if (mig_parted_choose(&found, &parted, config, err) < 0 ||
                mig_parted_resolve(&wanted, arena, found, node, false, err) < 0)
                return -1;
        *ret = NULL;
        for (size_t i = 0; i < node->n_gpus && !*ret; i++)
                *ret = mig_compare(arena, &node->gpus[i], &wanted[i], false);
        return 0;
}

/* ---- the label ---- */

static void report_success(struct doctor *doctor, struct arena *arena, const struct mig_node *node, const char *config)
{
        const char *difference;
        struct error err;

        if (!node)
                doctor_ok(doctor, "the MIG configuration '%s' is in force, by the label", config);
        else if (compare_geometry(&difference, doctor, arena, node, config, &err) < 0)
                doctor_report(doctor, DOCTOR_WRONG, stays,
                        "give doctor the options of the agent, or correct the label or the file of configurations",
                        "the MIG configuration '%s' cannot be compared with the GPUs: %s", config, err.text);
        else if (difference)
                doctor_report(doctor, DOCTOR_WRONG,
                        "somebody has changed the geometry since, or the agent has not seen the label yet",
                        "give the label " MIG_CONFIG_LABEL
                        " another value and this one again; 'warpshare mig plan' shows what changes",
                        "the GPUs do not have the MIG configuration '%s': %s", config, difference);
        else
                doctor_ok(doctor, "the GPUs have the MIG configuration '%s'", config);
}

static void report_label(struct doctor *doctor, const json_t *object, const struct mig_node *node)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *config = object_text(object, "metadata", "labels", MIG_CONFIG_LABEL, NULL);
        const char *state = object_text(object, "metadata", "labels", MIG_STATE_LABEL, NULL);
        const char *reason = object_text(object, "metadata", "annotations", MIG_REASON_ANNOTATION, NULL);

        if (!config || !*config)
                config = doctor->config->mig.fallback;
        if (!*config) {
                doctor_ok(doctor, "the node has no label " MIG_CONFIG_LABEL ", so %s", stays);
                return;
        }
        switch (mig_state_parse(state ? state : "")) {
        case MIG_STATE_PENDING:
                doctor_report(doctor, DOCTOR_NOTE,
                        "what has to end is given to no new container; nothing is changed yet",
                        "end who is named, or let pods be evicted: label " MIG_DRAIN_LABEL "=" MIG_DRAIN_EVICT
                        "; another value of " MIG_CONFIG_LABEL " gives everything back",
                        "the MIG configuration '%s' is pending: %s", config, reason ? reason : "it is being made");
                break;
        case MIG_STATE_REBOOTING:
                doctor_report(
                        doctor, DOCTOR_NOTE, NULL, NULL, "the node reboots for the MIG configuration '%s'", config);
                break;
        case MIG_STATE_FAILED:
                doctor_report(doctor, DOCTOR_WRONG, stays,
                        "once the reason is gone it is tried again, what waits for a reboot after the next one; 'warpshare mig plan' "
                        "shows what is to change",
                        "the MIG configuration '%s' cannot be had: %s", config, reason ? reason : "no reason is told");
                break;
        case MIG_STATE_SUCCESS:
                report_success(doctor, &arena, node, config);
                break;
        default:
                doctor_report(doctor, DOCTOR_WRONG, stays, "see whether the agent serves, and its log",
                        "no MIG manager says what became of the MIG configuration '%s'", config);
        }
}

static void check_label(struct doctor *doctor, const struct mig_node *node)
{
        _free_ char *path = object_path("/api/v1/nodes", doctor->config->node.name);
        struct api_answer answer = {0};
        struct api_visit visit;

        if (doctor_visit(doctor, &visit, stays)) {
                doctor_ask(&visit, path, NULL, &answer);
                if (answer.object)
                        report_label(doctor, answer.object, node);
                else
                        doctor_report(doctor, DOCTOR_WRONG, stays, "make the API server answer",
                                "the node cannot be read: %s", answer.error.text);
        }
        json_decref(answer.object);
        api_visit_end(&visit);
}

/* ---- all of it ---- */

void doctor_check_mig(struct doctor *doctor)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct config *config = doctor->config;
        struct nvml *nvml = NULL;
        struct mig_node node;
        struct error err;
        bool is_read = nvml_open(&nvml, config->driver.nvml_library, config->driver.mounted_root, &err) == 0 &&
                       mig_node_read(&node, &arena, nvml, &err) == 0;
        bool has_record = check_record(doctor);
        bool is_withdrawn = check_handover(doctor);
        bool waits = is_read && check_modes(doctor, &node);

        if (!is_read)
                doctor_skip(doctor, "the GPUs cannot be read");
        if (config->mig.manager)
                check_label(doctor, is_read ? &node : NULL);
        else if (is_read && !has_record && !is_withdrawn && !waits)
                doctor_ok(doctor, "no change is unfinished, and no label decides the geometry (mig.manager)");
        nvml_close(nvml);
}
