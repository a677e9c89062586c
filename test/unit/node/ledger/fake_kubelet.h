// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet, as far as the ledger sees it: pod-resources (the functions of node/kubelet/pod_resources.h are these here),
 * its record, and its requests. As kubelet 1.36 does it:
 *
 *   memory  has a container from the moment its answer is there; who has ended stays until the next list or request
 *   list    the memory without init containers, and without who has ended
 *   record  the memory as it was at the last answer to a request, or when a plugin sent its devices last
 */
#pragma once

#include "unit.h"

#include "base/alloc.h"
#include "node/ledger/ledger.h"

#define FAKE_IDS 16
#define FAKE_PODS 512
#define FAKE_QUESTIONS 16

/* What one container, "main" or "prepare", of pod team/<name>, whose UID is uid-<name>, has of one resource. */
struct fake_container {
        char pod[24];
        char resource[32];
        bool is_init;
        bool has_device; /* its answer names a CDI device of its own */
        char ids[FAKE_IDS][24];
        size_t n_ids;
        bool is_answered;
        bool is_running; /* it was answered well, and its pod has not ended */
        bool is_in_memory;
        struct error error;  /* of the answer */
        char allocation[64]; /* of the answer, "" none; as the next */
        char unit[24];
        char pipe[64];
        char partition[64];
        char metadata[96];       /* the file below the MPS root */
        char metadata_path[160]; /* its place in the container */
        unsigned int sms;
        enum mps_tier tier;
        bool is_waiting;          /* it is about to start, and has no answer yet */
        struct error start_error; /* of that answer; its text is "" where it starts */
};

enum fake_answers { FAKE_ANSWERS, FAKE_REFUSES, FAKE_IS_SILENT };

struct fake_kubelet {
        const char *socket;
        const char *record;
        bool writes_record;
        bool takes_lists;     /* it writes its record when a list of devices is repeated */
        bool is_starting;     /* it has not gathered its pods */
        bool records_late;    /* an answer is read, and not entered anywhere yet */
        bool names_devices;   /* the answers that it gets name CDI devices */
        enum fake_answers to; /* a question for its list */
        size_t n_questions;   /* that have no answer */
        size_t n_repeats;     /* of lists of devices */
        struct fake_container *containers;
        size_t n_containers;
};
extern struct fake_kubelet kubelet;

void fake_kubelet_begin(const char *socket, const char *record);
void fake_kubelet_end(void);
/* Another one: the same record, another socket. It lists nothing before fake_kubelet_gather(). */
void fake_kubelet_restart(void);
void fake_kubelet_gather(void);
void fake_kubelet_write_record(void);
bool fake_kubelet_repeat(const char *resource, void *data); /* plugins_repeat() */

/* |ids| are separated by blanks. The outcome is in the container when it is there. */
struct fake_container *fake_kubelet_allocate(
        const struct broker *broker, const struct resource *resource, const char *pod, bool is_init, const char *ids);
/* It is about to start, for the first time or again. */
void fake_kubelet_start(const struct broker *broker, struct fake_container *container);
/* The pod of that name, with all its containers. */
void fake_kubelet_end_pod(const char *pod);
/* What was answered is in the ledger now. */
void fake_kubelet_record(void);

/* All questions. */
void fake_kubelet_answer(void);
void fake_kubelet_refuse(void);
/* The oldest, with the list as it was when it was asked. */
void fake_kubelet_answer_as_asked(void);
