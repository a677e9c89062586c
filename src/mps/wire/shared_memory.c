#include "mps/wire/shared_memory.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"

static unsigned int permille(uint64_t part, uint64_t whole)
{
        return whole ? (unsigned int)((double)MIN(part, whole) * 1000 / (double)whole) : 0;
}

unsigned int mps_shm_permille(const struct mps_shm *shm)
{
        return MAX(permille(shm->used, shm->size), permille(shm->files, shm->files_max));
}

void mps_shm_judge(struct mps_shm *shm, const struct mps_shm *before)
{
        const unsigned int now = mps_shm_permille(shm);

        shm->is_full = now >= (before->is_full ? MPS_SHM_FREE_PERMILLE : MPS_SHM_FULL_PERMILLE);
        if (!shm->is_full)
                return;
        memcpy(shm->owners, before->owners, sizeof(shm->owners));
        shm->n_owners = before->n_owners;
        shm->nameless = before->nameless;
}

static bool has_same_owners(const struct mps_shm *a, const struct mps_shm *b)
{
        if (a->n_owners != b->n_owners)
                return false;
        for (size_t i = 0; i < a->n_owners; i++)
                if (a->owners[i].uid != b->owners[i].uid)
                        return false;
        return true;
}

bool mps_shm_is_same(const struct mps_shm *a, const struct mps_shm *b)
{
        return a->size == b->size && a->files_max == b->files_max && a->is_full == b->is_full &&
               permille(a->used, a->size) / 10 == permille(b->used, b->size) / 10 &&
               permille(a->files, a->files_max) / 10 == permille(b->files, b->files_max) / 10 && has_same_owners(a, b);
}

char *mps_shm_text(const struct mps_shm *shm)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%" PRIu64 " of %" PRIu64 " MiB and %" PRIu64 " of %" PRIu64 " files are used",
                shm->used >> 20, shm->size >> 20, shm->files, shm->files_max);
        for (size_t i = 0; i < shm->n_owners; i++)
                strbuf_printf(&text, "%suser %u has %" PRIu64 " MiB in %" PRIu64 " files", i ? ", " : "; ",
                        (unsigned int)shm->owners[i].uid, shm->owners[i].bytes >> 20, shm->owners[i].files);
        if (permille(shm->nameless, shm->size) >= 10)
                strbuf_printf(&text,
                        "; %" PRIu64 " MiB are of files that were removed and that a process still has open",
                        shm->nameless >> 20);
        return xstrdup(text.data);
}
