// SPDX-License-Identifier: Apache-2.0
/*
 * A supervisor and a control program for tests of those who use them: they note what they were asked, and answer when
 * the test says so.
 */
#pragma once

#include "mps/control/control.h"
#include "mps/supervisor/allocations.h"
#include "mps/supervisor/supervisor.h"

struct fake_question {
        mps_answer_fn *done;
        void *data;
};

extern struct fakes {
        /* The supervisor. */
        struct mps_status status;
        unsigned int applied;
        unsigned int looks; /* each makes another status: its generation is that much higher */
        uint64_t generation;
        char daemon[256]; /* name of the first that is wanted */
        bool refuses;
        struct mps_allocation_request granted; /* the last request; of its texts only |id| */
        char released[64];
        unsigned int holds; /* times that it was told all that is granted */
        char held[256];     /* their ids, a space behind each */
        char holders[256];  /* "GPU-1=team/train " */
        pid_t terminated;
        mps_granted_fn *on_granted; /* NULL: nothing to be answered */
        mps_done_fn *on_done;
        void *data;

        /* The control program. */
        bool is_missing;
        unsigned int asked;
        unsigned int open; /* controls that are not closed */
        char pipe[256];    /* of the last question */
        char command[256];
        struct mps_control *control; /* whose question waits for fakes_answer(), NULL: none */
} fakes;

void fakes_answer(const struct error *err, const char *text);
