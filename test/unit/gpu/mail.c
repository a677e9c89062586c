#include "unit.h"

#include "gpu/mail.h"

static void test_the_latest_note_on_a_unit_wins(void **state UNUSED)
{
        struct mail mail = MAIL_INIT;

        assert_true(mail_is_empty(&mail));
        mail_put_note(&mail, "GPU-0", false, "Xid 79", 79);
        mail_put_note(&mail, "GPU-1", false, "Xid 48", 48);
        mail_put_note(&mail, "GPU-0", true, "", 0);
        assert_false(mail_is_empty(&mail));
        assert_int_equal(mail.n_notes, 2);
        assert_string_equal(mail.notes[0].uuid, "GPU-0");
        assert_true(mail.notes[0].healthy);
        assert_int_equal(mail.notes[0].xid, 0);
        assert_string_equal(mail.notes[1].reason, "Xid 48");
        assert_int_equal(mail.notes[1].xid, 48);
        mail_done(&mail);
}

static void test_a_reason_that_follows_an_xid_does_not_hide_it(void **state UNUSED)
{
        struct mail mail = MAIL_INIT;

        mail_put_note(&mail, "GPU-0", false, "Xid 79", 79);
        mail_put_note(&mail, "GPU-1", false, "GPU is lost", 0);
        mail_put_note(&mail, "GPU-0", false, "asks for a reset", 0);
        mail_put_note(&mail, "GPU-0", false, "GPU is lost", 0);
        assert_int_equal(mail.n_notes, 3);
        assert_int_equal(mail.notes[0].xid, 79);
        assert_string_equal(mail.notes[1].uuid, "GPU-1");
        assert_string_equal(mail.notes[2].reason, "GPU is lost");
        assert_false(mail.notes[2].healthy);
        /* A newer Xid, and that the unit is well again, do. */
        mail_put_note(&mail, "GPU-0", false, "Xid 48", 48);
        assert_int_equal(mail.n_notes, 2);
        assert_string_equal(mail.notes[0].reason, "Xid 48");
        mail_put_note(&mail, "GPU-0", false, "GPU is lost", 0);
        mail_put_note(&mail, "GPU-0", true, "", 0);
        assert_int_equal(mail.n_notes, 2);
        assert_true(mail.notes[0].healthy);
        assert_string_equal(mail.notes[1].uuid, "GPU-1");
        mail_done(&mail);
}

static struct inventory *inventory_of(const char *uuid, const char *mig_uuid)
{
        struct inventory *inventory = inventory_new();
        struct mig_device *mig = ARENA_NEW(&inventory->arena, struct mig_device);

        mig->uuid = mig_uuid;
        inventory->gpus = ARENA_NEW(&inventory->arena, struct gpu);
        inventory->gpus[0] = (struct gpu){.uuid = uuid, .mig_devices = mig, .n_mig_devices = 1};
        inventory->n_gpus = 1;
        return inventory;
}

static void test_a_new_inventory_replaces_what_it_makes_obsolete(void **state UNUSED)
{
        struct mail mail = MAIL_INIT;
        struct mail newer = MAIL_INIT;
        struct inventory *second = inventory_of("GPU-1", "MIG-1");

        mail_put_inventory(&mail, inventory_new());
        mail_put_note(&mail, "GPU-0", false, "Xid 79", 79);
        mail_put_note(&mail, "MIG-1", true, "", 0);
        mail_put_unavailable(&mail, "no driver");
        mail_put_inventory(&newer, second);
        mail_put_note(&newer, "GPU-1", false, "Xid 48", 48);
        mail_merge(&mail, &newer);
        assert_true(mail_is_empty(&newer));
        assert_ptr_equal(mail.inventory, second);
        assert_null(mail.unavailable);
        /* That a unit is well again must not get lost; a unit that is gone is nobody's. */
        assert_int_equal(mail.n_notes, 2);
        assert_string_equal(mail.notes[0].uuid, "MIG-1");
        assert_string_equal(mail.notes[1].uuid, "GPU-1");
        assert_int_equal(mail.notes[1].xid, 48);
        mail_done(&mail);
}

static void test_an_older_inventory_is_delivered_before_a_reason(void **state UNUSED)
{
        struct mail mail = MAIL_INIT;
        struct mail newer = MAIL_INIT;
        struct inventory *inventory = inventory_new();

        mail_put_inventory(&mail, inventory);
        mail_put_unavailable(&newer, "driver gone");
        mail_merge(&mail, &newer);
        assert_ptr_equal(mail.inventory, inventory);
        assert_string_equal(mail.unavailable, "driver gone");
        mail_done(&mail);
        assert_true(mail_is_empty(&mail));
}

static void test_a_thousand_events_of_one_unit_stay_one_note(void **state UNUSED)
{
        struct mail mail = MAIL_INIT;

        for (int i = 0; i < 1000; i++)
                mail_put_note(&mail, "GPU-0", i % 2, "flapping", 0);
        assert_int_equal(mail.n_notes, 1);
        mail_done(&mail);
}

static void test_a_stale_library_is_reported_even_without_an_inventory(void **state UNUSED)
{
        struct mail mail = MAIL_INIT;
        struct mail newer = {.is_stale = true};

        assert_false(mail_is_empty(&newer));
        mail_merge(&mail, &newer);
        assert_true(mail.is_stale);
        assert_true(mail_is_empty(&newer));
        mail_put_note(&newer, "GPU-0", false, "Xid 79", 79);
        mail_merge(&mail, &newer);
        assert_true(mail.is_stale);
        mail_done(&mail);
        assert_true(mail_is_empty(&mail));
}

static void test_the_newest_samples_replace_older_ones(void **state UNUSED)
{
        struct gpu_samples *newest = gpu_samples_new();
        struct mail mail = MAIL_INIT;
        struct mail newer = MAIL_INIT;

        mail_put_samples(&mail, gpu_samples_new());
        assert_false(mail_is_empty(&mail));
        mail_put_samples(&newer, gpu_samples_new());
        mail_put_samples(&newer, newest);
        mail_merge(&mail, &newer);
        assert_ptr_equal(mail.samples, newest);
        assert_true(mail_is_empty(&newer));
        mail_put_note(&newer, "GPU-0", false, "Xid 79", 79);
        mail_merge(&mail, &newer);
        assert_ptr_equal(mail.samples, newest);
        mail_done(&mail);
        assert_true(mail_is_empty(&mail));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_latest_note_on_a_unit_wins),
                cmocka_unit_test(test_a_reason_that_follows_an_xid_does_not_hide_it),
                cmocka_unit_test(test_a_new_inventory_replaces_what_it_makes_obsolete),
                cmocka_unit_test(test_an_older_inventory_is_delivered_before_a_reason),
                cmocka_unit_test(test_a_thousand_events_of_one_unit_stay_one_note),
                cmocka_unit_test(test_a_stale_library_is_reported_even_without_an_inventory),
                cmocka_unit_test(test_the_newest_samples_replace_older_ones),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
