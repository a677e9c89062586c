#include "gpu/mail.h"

#include <string.h>

static void drop_notes(struct mail *mail)
{
        for (size_t i = 0; i < mail->n_notes; i++) {
                free(mail->notes[i].uuid);
                free(mail->notes[i].reason);
        }
        mail->n_notes = 0;
}

void mail_done(struct mail *mail)
{
        drop_notes(mail);
        free(mail->notes);
        free(mail->unavailable);
        inventory_free(mail->inventory);
        *mail = (struct mail)MAIL_INIT;
}

bool mail_is_empty(const struct mail *mail)
{
        return !mail->inventory && !mail->unavailable && mail->n_notes == 0;
}

void mail_put_inventory(struct mail *mail, struct inventory *inventory)
{
        inventory_free(mail->inventory);
        mail->inventory = inventory;
        drop_notes(mail);
        free(mail->unavailable);
        mail->unavailable = NULL;
}

void mail_put_unavailable(struct mail *mail, const char *reason)
{
        free(mail->unavailable);
        mail->unavailable = xstrdup(reason);
}

void mail_put_note(struct mail *mail, const char *uuid, bool healthy, const char *reason)
{
        struct mail_note *note = NULL;

        for (size_t i = 0; i < mail->n_notes && !note; i++)
                if (strcmp(mail->notes[i].uuid, uuid) == 0)
                        note = &mail->notes[i];
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
        note->healthy = healthy;
}

void mail_merge(struct mail *mail, struct mail *from)
{
        if (from->inventory)
                mail_put_inventory(mail, TAKE_PTR(from->inventory));
        for (size_t i = 0; i < from->n_notes; i++)
                mail_put_note(mail, from->notes[i].uuid, from->notes[i].healthy, from->notes[i].reason);
        if (from->unavailable)
                mail_put_unavailable(mail, from->unavailable);
        mail_done(from);
}
