#include "cmd/uninstall/uninstall.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "node/dra/claim_cdi.h"
#include "node/dra/prepared_record.h"
#include "node/dra/slices.h"
#include "node/dra/sockets.h"
#include "net/kube/client.h"
#include "net/kube/list.h"
#include "net/kube/object.h"

/* ---- files ---- */

struct dra_file {
        const char *what;
        const char *left; /* why it stays; NULL: it does not */
};

static void remove_dra_file(struct removals *removals, const struct dra_file *file, const char *path)
{
        if (file->left)
                removals_add(removals, REMOVAL_LEFT, file->what, path, "%s", file->left);
        else if (!removals->is_dry && unlink(path) < 0)
                removals_add(removals, REMOVAL_LEFT, file->what, path, "%s", strerror(errno));
        else
                removals_add(removals, REMOVAL_DONE, file->what, path, "%s", "");
}

/* Those in |folder| that |is_ours|. */
static void sweep_folder(struct removals *removals, const char *folder, const struct dra_file *file,
        bool (*is_ours)(const char *driver, const char *name), const char *driver)
{
        DIR *directory = opendir(folder);
        const struct dirent *entry;
        size_t n_before = removals->n_rows;

        if (!directory && errno != ENOENT) {
                removals_add(removals, REMOVAL_UNSEEN, file->what, folder, "%s", strerror(errno));
                return;
        }
        while (directory && (entry = readdir(directory))) {
                _free_ char *path = xasprintf("%s/%s", folder, entry->d_name);

                if (is_ours(driver, entry->d_name))
                        remove_dra_file(removals, file, path);
        }
        if (directory)
                closedir(directory);
        if (removals->n_rows == n_before)
                removals_add(removals, REMOVAL_ABSENT, file->what, folder, "%s", "");
}

static bool is_record(const char *driver UNUSED, const char *name)
{
        return strcmp(name, DRA_RECORD_NAME) == 0;
}

void uninstall_dra(struct removals *removals, const struct config *config, const char *agent, bool is_forced)
{
        const struct config_dra *dra = &config->dra;
        const struct dra_file socket = {"DRA socket", agent};
        const char *left = is_forced
                                   ? NULL
                                   : "the claim is prepared, and its containers are started again by it; end its pods "
                                     "while an agent runs, or use --force";
        const struct dra_file claim = {"CDI specification of a claim", left};
        const struct dra_file record = {"record of claims", agent};
        size_t n_left;
        _free_ char *directory = dra_sockets_directory(dra->plugins, dra->driver_name);

        sweep_folder(removals, dra->registry, &socket, dra_sockets_is_first, dra->driver_name);
        sweep_folder(removals, directory, &socket, dra_sockets_is_second, dra->driver_name);
        n_left = removals_count(removals, REMOVAL_LEFT);
        sweep_folder(removals, config->cdi_root, &claim, dra_claim_cdi_is_file, dra->driver_name);
        /* Without it nobody would know what is prepared; with it the next agent would make the specifications anew. */
        if (removals_count(removals, REMOVAL_LEFT) == n_left)
                sweep_folder(removals, directory, &record, is_record, dra->driver_name);
}

/* ---- slices ---- */

/* Which version of the API is served, which slices there are, and one after the other. */
struct slice_removal {
        struct removals *removals;
        struct kube_client *client;
        const struct config *config;
        char *collection; /* NULL: not known yet */
        json_t *names;
        size_t next;
        bool is_over;
};

static const char what_slice[] = "ResourceSlice";

static void delete_next(struct slice_removal *removal);

static void on_slice_deleted(const struct kube_answer *answer, void *data)
{
        struct slice_removal *removal = data;
        const char *name = json_string_value(json_array_get(removal->names, removal->next++));

        if (answer->error && answer->status != 404)
                removals_add(removal->removals, REMOVAL_LEFT, what_slice, name, "%s", answer->error->text);
        else
                removals_add(removal->removals, REMOVAL_DONE, what_slice, name, "%s", "");
        delete_next(removal);
}

static void delete_next(struct slice_removal *removal)
{
        const char *name = json_string_value(json_array_get(removal->names, removal->next));
        _free_ char *path = name ? object_path(removal->collection, name) : NULL;

        if (!name)
                removal->is_over = true;
        else
                kube_client_send(removal->client,
                        &(struct kube_request){
                                .method = KUBE_DELETE, .path = path, .done = on_slice_deleted, .data = removal});
}

static void on_slice(json_t *object, void *data)
{
        struct slice_removal *removal = data;
        const char *name = object_text(object, "metadata", "name", NULL);

        if (name)
                json_array_append_new(removal->names, json_string(name));
}

static void on_slices_listed(const struct kube_answer *answer, const char *version UNUSED, void *data)
{
        struct slice_removal *removal = data;
        const char *driver = removal->config->dra.driver_name;
        size_t i;
        json_t *name;

        if (answer->error)
                removals_add(removal->removals, REMOVAL_LEFT, what_slice, driver, "%s", answer->error->text);
        else if (json_array_size(removal->names) == 0)
                removals_add(removal->removals, REMOVAL_ABSENT, what_slice, driver, "%s", "");
        if (!removal->removals->is_dry) {
                delete_next(removal);
                return;
        }
        json_array_foreach(removal->names, i, name)
                removals_add(removal->removals, REMOVAL_DONE, what_slice, json_string_value(name), "%s", "");
        removal->is_over = true;
}

static void on_group_read(const struct kube_answer *answer, void *data)
{
        struct slice_removal *removal = data;
        const char *driver = removal->config->dra.driver_name;
        _free_ char *selector = xasprintf("spec.driver=%s,spec.nodeName=%s", driver, removal->config->node_name);
        enum dra_api api;

        if (answer->error && answer->status != 404) {
                removals_add(removal->removals, REMOVAL_LEFT, what_slice, driver, "%s", answer->error->text);
                removal->is_over = true;
        } else if (answer->error || !dra_api_of(&api, answer->object)) {
                removals_add(removal->removals, REMOVAL_ABSENT, what_slice, driver, "%s", "");
                removal->is_over = true;
        } else {
                removal->collection = dra_api_slices(api);
                kube_list_new(removal->client, &(struct kube_list_options){.path = removal->collection,
                                                       .field_selector = selector,
                                                       .is_metadata = true,
                                                       .on_object = on_slice,
                                                       .on_end = on_slices_listed,
                                                       .data = removal});
        }
}

void uninstall_slices(struct removals *removals, struct api_visit *visit, const struct config *config)
{
        struct slice_removal removal = {.removals = removals, .client = visit->client, .config = config};

        if (!visit->client) {
                removals_add(removals, visit->is_outside ? REMOVAL_UNSEEN : REMOVAL_LEFT, what_slice,
                        config->dra.driver_name, "%s", visit->why.text);
                return;
        }
        removal.names = json_array();
        kube_client_send(visit->client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = DRA_API_GROUP, .done = on_group_read, .data = &removal});
        api_visit_wait(visit, &removal.is_over);
        json_decref(removal.names);
        free(removal.collection);
}
