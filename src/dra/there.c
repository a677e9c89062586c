#include "dra/there.h"

#include <assert.h>
#include <stdlib.h>

#include "base/macro.h"

json_t *dra_there_slices(struct dra_there *there)
{
        if (!there->slices) {
                there->slices = there->text ? json_loads(there->text, JSON_ALLOW_NUL, NULL) : json_object();
                assert(there->slices); /* our own text, of what was read from one */
                free(TAKE_PTR(there->text));
        }
        return there->slices;
}

void dra_there_rest(struct dra_there *there)
{
        char *text = there->slices ? json_dumps(there->slices, JSON_COMPACT) : NULL;

        if (!text)
                return;
        dra_there_clear(there);
        there->text = text;
}

void dra_there_clear(struct dra_there *there)
{
        json_decref(there->slices);
        there->slices = NULL;
        free(TAKE_PTR(there->text));
}
