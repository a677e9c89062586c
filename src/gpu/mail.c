#include "gpu/mail.h"

#include <string.h>

static bool has_unit(const struct inventory *inventory, const char *uuid)
{
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (strcmp(gpu->uuid, uuid) == 0)
                        return true;
                for (size_t m = 0; m < gpu->n_mig_devices; m++)
                        if (strcmp(gpu->mig_devices[m].uuid, uuid) == 0)
                                return true;
        }
        return false;
}

static void free_note(const struct mail_note *note)
{
        free(note->uuid);
        free(note->reason);
}

/* Drops the notes on units that |but| does not contain; NULL contains none. */
static void drop_notes(struct mail *mail, const struct inventory *but)
{
        size_t kept = 0;

        for (size_t i = 0; i < mail->n_notes; i++) {
                if (but && has_unit(but, mail->notes[i].uuid))
                        mail->notes[kept++] = mail->notes[i];
                else
                        free_note(&mail->notes[i]);
        }
        mail->n_notes = kept;
}

void mail_done(struct mail *mail)
{
        drop_notes(mail, NULL);
        free(mail->notes);
        free(mail->unavailable);
        free(mail->unheard);
        inventory_free(mail->inventory);
        gpu_samples_free(mail->samples);
        *mail = (struct mail)MAIL_INIT;
}

bool mail_is_empty(const struct mail *mail)
{
        return !mail->inventory && !mail->unavailable && !mail->unheard && mail->n_notes == 0 && !mail->samples &&
               !mail->is_stale;
}

void mail_put_inventory(struct mail *mail, struct inventory *inventory)
{
        inventory_free(mail->inventory);
        mail->inventory = inventory;
        drop_notes(mail, inventory);
        free(mail->unavailable);
        mail->unavailable = NULL;
}

void mail_put_unavailable(struct mail *mail, const char *reason)
{
        free(mail->unavailable);
        mail->unavailable = xstrdup(reason);
}

void mail_put_unheard(struct mail *mail, const char *reason)
{
        free(mail->unheard);
        mail->unheard = xstrdup(reason);
}

/* The note on |uuid|, to be overwritten, or NULL. Other outdated notes are dropped. */
static struct mail_note *outdate_notes(struct mail *mail, const char *uuid, bool keeps_xid)
{
        struct mail_note *first = NULL;
        size_t kept = 0;

        for (size_t i = 0; i < mail->n_notes; i++) {
                const struct mail_note *note = &mail->notes[i];
                bool is_outdated = strcmp(note->uuid, uuid) == 0 && !(keeps_xid && note->xid);

                if (is_outdated && first) {
                        free_note(note);
                        continue;
                }
                mail->notes[kept] = *note;
                if (is_outdated)
                        first = &mail->notes[kept];
                kept++;
        }
        mail->n_notes = kept;
        return first;
}

void mail_put_note(struct mail *mail, const char *uuid, bool healthy, const char *reason, uint64_t xid)
{
        struct mail_note *note = outdate_notes(mail, uuid, !healthy && xid == 0);

        if (!note) {
                if (mail->n_notes == mail->capacity) {
                        mail->capacity = mail->capacity ? mail->capacity * 2 : 8;
                        mail->notes = xrealloc(mail->notes, mail->capacity * sizeof(*mail->notes));
                }
                note = &mail->notes[mail->n_notes++];
                *note = (struct mail_note){.uuid = xstrdup(uuid)};
        }
        free(note->reason);
        note->reason = xstrdup(reason);
        note->xid = xid;
        note->healthy = healthy;
}

void mail_put_samples(struct mail *mail, struct gpu_samples *samples)
{
        gpu_samples_free(mail->samples);
        mail->samples = samples;
}

void mail_merge(struct mail *mail, struct mail *from)
{
        if (from->inventory)
                mail_put_inventory(mail, TAKE_PTR(from->inventory));
        for (size_t i = 0; i < from->n_notes; i++) {
                const struct mail_note *note = &from->notes[i];

                mail_put_note(mail, note->uuid, note->healthy, note->reason, note->xid);
        }
        if (from->unavailable)
                mail_put_unavailable(mail, from->unavailable);
        if (from->unheard)
                mail_put_unheard(mail, from->unheard);
        if (from->samples)
                mail_put_samples(mail, TAKE_PTR(from->samples));
        mail->is_stale = mail->is_stale || from->is_stale;
        mail_done(from);
}
