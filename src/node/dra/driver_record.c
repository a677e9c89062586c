/* What a starting agent finds: the record of the claims that this or another agent has prepared before. */
#include "node/dra/driver_parts.h"

#include <unistd.h>

#include "base/boot_id.h"
#include "base/file.h"
#include "base/log.h"
#include "node/dra/booking.h"
#include "node/dra/claim_cdi.h"
#include "node/dra/sockets.h"
#include "node/ledger/claims.h"

static bool is_recorded(const char *uid, void *data)
{
        return dra_record_find(data, uid);
}

static int keep_prepared(struct dra_driver *driver, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger_claim *claims;
        size_t count = 0;
        int result = dra_record_refresh(driver->record, err);

        if (result < 0)
                return -1;
        if (result == DRA_RECORD_BROKEN)
                log_error("what is prepared for DRA claims is unknown: restart the pods that use them", LOG_ERR(err));
        else if (access(driver->record_path, F_OK) == 0) /* if the record was lost, its claims may still be in use */
                dra_claim_cdi_sweep(
                        driver->options.cdi_files, driver->cdi_root, driver->name, is_recorded, driver->record);
        claims = ARENA_ARRAY(&arena, struct ledger_claim, dra_record_count(driver->record));
        for (size_t i = 0; i < dra_record_count(driver->record); i++) {
                const struct dra_prepared_claim *recorded = dra_record_at(driver->record, i);
                struct error ignored;

                if (recorded->state != DRA_PREPARED_DONE)
                        continue;
                dra_booking_keep(&claims[count], &arena, recorded);
                if (dra_claim_cdi_write(driver->options.cdi_files, driver->cdi_root, driver->name, recorded, &ignored) <
                        0)
                        log_warn("the CDI file of a DRA claim cannot be written: its containers cannot be restarted",
                                LOG_STR("claim", claims[count].name), LOG_ERR(&ignored));
                if (claims[count].n_devices)
                        count++;
        }
        ledger_keep_claims(driver->options.ledger, claims, count);
        if (count)
                log_info("DRA claims that are prepared already", LOG_UINT("claims", count));
        return 0;
}

int dra_driver_open_record(struct dra_driver *driver, const char *folder, struct error *err)
{
        _free_ char *boot_id = NULL;

        if (file_make_folder(folder, err) < 0 || boot_id_read(&boot_id, BOOT_ID_PATH, err) < 0)
                return -1;
        driver->record = dra_record_new(driver->record_path, boot_id);
        return keep_prepared(driver, err);
}

bool dra_driver_is_needed(const struct config *config)
{
        _free_ char *folder = dra_sockets_directory(config->dra.plugins, config->dra.driver_name);
        _free_ char *path = xasprintf("%s/" DRA_RECORD_NAME, folder);
        _free_ char *boot_id = NULL;
        _cleanup_(dra_record_freep) struct dra_record *record = NULL;
        struct error ignored;

        if (config->dra.enabled)
                return true;
        if (access(path, F_OK) < 0 || boot_id_read(&boot_id, BOOT_ID_PATH, &ignored) < 0)
                return false;
        record = dra_record_new(path, boot_id);
        return dra_record_refresh(record, &ignored) == 0 && dra_record_count(record) > 0;
}
