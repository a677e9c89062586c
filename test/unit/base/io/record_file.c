// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/record_file.h"

struct fixture {
        uv_loop_t loop;
        char folder[32];
        char *path;
        struct record_file file;
        struct closing closing;
        unsigned int n_again;
        bool is_closed;
};

static void write_again(void *data)
{
        ((struct fixture *)data)->n_again++;
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        uv_loop_init(&f->loop);
        strcpy(f->folder, "/tmp/record-file-XXXXXX");
        assert_non_null(mkdtemp(f->folder));
        f->path = xasprintf("%s/missing/record", f->folder);
        record_file_init(&f->file, &f->loop,
                &(struct record_file_options){f->path, "the record cannot be written", write_again, f});
        *state = f;
        return 0;
}

static void on_closed(void *data)
{
        ((struct fixture *)data)->is_closed = true;
}

static void close_file(struct fixture *f)
{
        record_file_close(&f->file, &f->closing);
        closing_end(&f->closing, on_closed, f);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(f->is_closed);
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        _free_ char *folder = file_folder(f->path);

        if (!f->is_closed)
                close_file(f);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        unlink(f->path);
        rmdir(folder);
        rmdir(f->folder);
        free(f->path);
        free(f);
        return 0;
}

static void make_folder(const struct fixture *f)
{
        _free_ char *folder = file_folder(f->path);

        assert_int_equal(mkdir(folder, 0755), 0);
}

static void assert_content(const struct fixture *f, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct error err;
        struct stat st;

        assert_int_equal(file_read(f->path, 1000, &content, &err), 0);
        assert_string_equal(content.data, expected);
        assert_int_equal(stat(f->path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
}

/* The timer is not waited for: what it is set to is enough. */
static uint64_t retry_in_ms(const struct fixture *f)
{
        return uv_is_active((const uv_handle_t *)&f->file.retry) ? uv_timer_get_due_in(&f->file.retry) : 0;
}

static void test_what_is_written_replaces_the_file_and_needs_no_retry(void **state)
{
        struct fixture *f = *state;
        struct error err;

        make_folder(f);
        assert_int_equal(record_file_write(&f->file, "first and long", &err), 0);
        assert_int_equal(record_file_write(&f->file, "second", &err), 0);
        assert_content(f, "second");
        assert_false(record_file_has_failed(&f->file));
        assert_int_equal(retry_in_ms(f), 0);
}

static void test_after_a_failure_the_owner_is_asked_to_write_again(void **state)
{
        struct fixture *f = *state;
        struct error err;

        assert_int_equal(record_file_write(&f->file, "x", &err), -1);
        assert_non_null(strstr(err.text, f->path));
        assert_true(record_file_has_failed(&f->file));
        assert_in_range(retry_in_ms(f), 400, 1000);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->n_again, 1);
}

static void test_the_waits_grow_up_to_a_minute(void **state)
{
        struct fixture *f = *state;
        struct error err;

        for (unsigned int i = 0; i < 3; i++)
                assert_int_equal(record_file_write(&f->file, "x", &err), -1);
        assert_in_range(retry_in_ms(f), 1900, 4000);
        for (unsigned int i = 0; i < 20; i++)
                assert_int_equal(record_file_write(&f->file, "x", &err), -1);
        assert_in_range(retry_in_ms(f), 29000, 60000);
}

static void test_success_ends_the_retries_and_the_next_failure_begins_with_the_short_wait(void **state)
{
        struct fixture *f = *state;
        _free_ char *folder = file_folder(f->path);
        struct error err;

        for (unsigned int i = 0; i < 5; i++)
                assert_int_equal(record_file_write(&f->file, "x", &err), -1);
        make_folder(f);
        assert_int_equal(record_file_write(&f->file, "y", &err), 0);
        assert_content(f, "y");
        assert_int_equal(retry_in_ms(f), 0);
        assert_false(record_file_has_failed(&f->file));
        unlink(f->path);
        rmdir(folder);
        assert_int_equal(record_file_write(&f->file, "z", &err), -1);
        assert_in_range(retry_in_ms(f), 400, 1000);
}

static void test_after_close_a_last_attempt_has_no_retry(void **state)
{
        struct fixture *f = *state;
        struct error err;

        record_file_close(&f->file, &f->closing);
        assert_int_equal(record_file_write(&f->file, "x", &err), -1);
        make_folder(f);
        assert_int_equal(record_file_write(&f->file, "last", &err), 0);
        assert_content(f, "last");
        closing_end(&f->closing, on_closed, f);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->n_again, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_what_is_written_replaces_the_file_and_needs_no_retry, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_after_a_failure_the_owner_is_asked_to_write_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_waits_grow_up_to_a_minute, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_success_ends_the_retries_and_the_next_failure_begins_with_the_short_wait, set_up,
                        tear_down),
                cmocka_unit_test_setup_teardown(test_after_close_a_last_attempt_has_no_retry, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
