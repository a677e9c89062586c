/*
 * Makes one namespace of the v3 interface (mps/control/dialogue_v3.h): creates it, sets its limits and reads them back. One that
 * was there already, as after a crash between its making and the record, gets the limits all the same. Where a limit
 * is refused or reads back otherwise nothing stays.
 */
#pragma once

#include "mps/control/control.h"

/* Of whoever has it made, who keeps it until |done|, or until |control| is closed: then nobody is called. */
struct mps_namespace {
        struct arena *arena; /* for what is said and heard */
        struct mps_control *control;
        const char *server;
        const char *name;
        unsigned int threads_permille; /* 0: not set */
        uint64_t limit_mib;            /* 0: not set */
        void (*done)(const struct error *err, void *data);
        void *data;

        size_t step; /* private, and what follows */
        struct error problem;
};

/* |done| is called from the loop. */
void mps_namespace_make(struct mps_namespace *wanted);
