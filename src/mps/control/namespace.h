/*
 * Creates one namespace of the v3 interface (mps/control/dialogue_v3.h), sets its limits and reads them back. A
 * namespace that exists already, for example after a crash between its creation and its record, gets the limits too. If
 * a limit is refused or reads back differently, the namespace is deleted.
 */
#pragma once

#include "mps/control/control.h"

/*
 * Owned by the caller, who keeps it until |done| is called or |control| is closed; in the latter case |done| is not
 * called.
 */
struct mps_namespace {
        struct arena *arena; /* for commands and answers */
        struct mps_control *control;
        const char *server;
        const char *name;
        unsigned int threads_permille; /* 0: not set */
        uint64_t limit_mib;            /* 0: not set */
        void (*done)(const struct error *err, void *data);
        void *data;

        size_t step; /* private, like all that follow */
        struct error problem;
};

/* |done| is called from the loop. */
void mps_namespace_make(struct mps_namespace *wanted);
