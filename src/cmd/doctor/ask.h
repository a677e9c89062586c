/*
 * Questions to the API server, for doctor's checks: one GET after the other, each within five seconds.
 */
#pragma once

#include <jansson.h>

#include "cmd/doctor/doctor.h"
#include "node/status/visit.h"

struct doctor_answer {
        unsigned int status; /* of HTTP; 0: none came */
        struct error error;  /* of a failure */
        json_t *object;      /* of a success, for the caller to release; NULL: none */
        bool is_over;
};

/*
 * Begins a visit. False, after a finding that is wrong for the reason |means|, where there is no API server to ask.
 * api_visit_end() in any case.
 */
bool doctor_visit(struct doctor *doctor, struct api_visit *visit, const char *means);

/* |query| may be NULL. */
void doctor_ask(struct api_visit *visit, const char *path, const char *query, struct doctor_answer *ret);
