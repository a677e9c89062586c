// SPDX-License-Identifier: Apache-2.0
#include "net/kube/easy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/library.h"
#include "net/kube/transport.h"

/* ---- the library ---- */

#define ROW(name) LIBRARY_SYMBOL(struct curl, name, "curl_" #name),
static const struct library_symbol symbols[] = {CURL_FUNCTIONS(ROW)};
#undef ROW

/* Debian's two builds have the same functions with different symbol versions; dlsym takes the default. */
static const struct library library = {
        .files = {"libcurl.so.4", "libcurl-gnutls.so.4"},
        .needs = "version 7.88",
        .remedy = "install libcurl (Debian: libcurl4), or give no name of the node",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

int curl_load(struct curl *ret, struct error *err)
{
        CURLcode rc;

        if (library_load(&library, ret, err) < 0)
                return -1;
        rc = ret->global_init(CURL_GLOBAL_DEFAULT); /* never released, since the library stays */
        if (rc != CURLE_OK)
                return error_set(err, ERROR_INTERNAL, "libcurl does not start: %s", ret->easy_strerror(rc));
        return 0;
}

/* ---- address ---- */

struct address {
        const char *scheme; /* "https://" */
        char *host;         /* with the brackets of an IPv6 address */
        const char *port;   /* "" for the default of the scheme */
        const char *path;   /* "" or with a leading slash */
};

/* |server| was checked: it has one of these schemes, and neither user nor query. */
static int split(const char *server, struct address *ret, struct error *err)
{
        const char *scheme = text_starts_with(server, "https://") ? "https://" : "http://";
        const char *rest = server + strlen(scheme);
        const char *path = rest + strcspn(rest, "/");
        const char *bracket = *rest == '[' ? memchr(rest, ']', (size_t)(path - rest)) : NULL;
        const char *start = bracket ? bracket : rest;
        const char *colon = memchr(start, ':', (size_t)(path - start));
        const char *end = colon ? colon : path;

        *ret = (struct address){.scheme = scheme, .port = "", .path = path};
        if (end == rest || (*rest == '[' && (!bracket || bracket + 1 != end)))
                return error_set(err, ERROR_INVALID, "server '%.80s' has no host", server);
        ret->host = xasprintf("%.*s", (int)(end - rest), rest);
        ret->port = colon ? colon + 1 : "";
        return 0;
}

/* As in Go, the environment's proxy is not used for these hosts. */
static bool is_loopback(const char *host)
{
        return strcasecmp(host, "localhost") == 0 || text_starts_with(host, "127.") || strcmp(host, "[::1]") == 0;
}

int easy_prepare(struct easy_settings *settings, const struct kube_credentials *credentials, struct error *err)
{
        struct address address;
        size_t port_length;
        uint64_t port = 0;
        _free_ char *port_text = NULL;

        if (split(credentials->server, &address, err) < 0)
                return -1;
        port_length = strcspn(address.port, "/");
        port_text = xasprintf("%.*s", (int)port_length, address.port);
        if (port_length && (!text_to_uint(port_text, 65535, &port) || port == 0)) {
                free(address.host);
                return error_set(err, ERROR_INVALID, "server '%.80s' has no port that is one", credentials->server);
        }
        *settings = (struct easy_settings){
                .credentials = credentials,
                .is_direct = is_loopback(address.host),
        };
        if (!credentials->server_name) {
                settings->url = xstrdup(credentials->server);
        } else {
                const char *colon = port_length ? ":" : "";

                /* The name is used only for TLS: the connection goes to the host, and the Host header has the host. */
                settings->url = xasprintf(
                        "%s%s%s%s%s", address.scheme, credentials->server_name, colon, port_text, address.path);
                settings->host = xasprintf("Host: %s%s%s", address.host, colon, port_text);
                settings->connect_to = xasprintf("::%s:%s", address.host, port_text);
        }
        free(address.host);
        return 0;
}

void easy_forget(struct easy_settings *settings)
{
        free(settings->url);
        free(settings->host);
        free(settings->connect_to);
}

/* ---- one transfer ---- */

struct setup {
        const struct curl *curl;
        CURL *easy;
        CURLcode rc; /* of the first option that failed */
};

static void easy_note(struct setup *setup, CURLcode rc)
{
        if (setup->rc == CURLE_OK)
                setup->rc = rc;
}

static void easy_set_text(struct setup *setup, CURLoption option, const char *value)
{
        easy_note(setup, setup->curl->easy_setopt(setup->easy, option, value));
}

static void set_number(struct setup *setup, CURLoption option, long value)
{
        easy_note(setup, setup->curl->easy_setopt(setup->easy, option, value));
}

static void set_bytes(struct setup *setup, CURLoption option, const char *text)
{
        struct curl_blob bytes = {.data = (void *)(uintptr_t)text, .len = strlen(text), .flags = CURL_BLOB_COPY};

        easy_note(setup, setup->curl->easy_setopt(setup->easy, option, &bytes));
}

static void set_authority(struct setup *setup, const struct kube_pem *pem)
{
        if (pem->path)
                easy_set_text(setup, CURLOPT_CAINFO, pem->path);
        if (pem->text)
                set_bytes(setup, CURLOPT_CAINFO_BLOB, pem->text);
}

/*
 * libcurl reuses a connection that was opened with the same certificate, compared by its bytes if given as bytes, or by
 * its path if given as a file. So the bytes are given, and a new certificate gets a new connection. With GnuTLS libcurl
 * accepts only files; there a connection is replaced when it answers 401.
 */
static void set_identity(
        struct setup *setup, const struct kube_credentials *credentials, const struct kube_identity *identity)
{
        const char *tls = setup->curl->version_info(CURLVERSION_NOW)->ssl_version;
        bool takes_bytes = !tls || !text_starts_with(tls, "GnuTLS");

        if (!*identity->certificate)
                return;
        if (takes_bytes || !credentials->certificate.path || credentials->certificate.text)
                set_bytes(setup, CURLOPT_SSLCERT_BLOB, identity->certificate);
        else
                easy_set_text(setup, CURLOPT_SSLCERT, credentials->certificate.path);
        if (takes_bytes || !credentials->key.path || credentials->key.text)
                set_bytes(setup, CURLOPT_SSLKEY_BLOB, identity->key);
        else
                easy_set_text(setup, CURLOPT_SSLKEY, credentials->key.path);
        set_number(setup, CURLOPT_SSL_SESSIONID_CACHE, 0); /* a resumed session would have the old identity */
}

static void set_tls(
        struct setup *setup, const struct kube_credentials *credentials, const struct kube_identity *identity)
{
        set_number(setup, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
        if (credentials->authority.path || credentials->authority.text)
                easy_set_text(
                        setup, CURLOPT_CAPATH, NULL); /* otherwise the system's authorities would be trusted, too */
        set_authority(setup, &credentials->authority);
        set_identity(setup, credentials, identity);
        if (credentials->insecure) {
                set_number(setup, CURLOPT_SSL_VERIFYPEER, 0);
                set_number(setup, CURLOPT_SSL_VERIFYHOST, 0);
        } else {
                set_number(setup, CURLOPT_CERTINFO, 1); /* for easy_peer() */
        }
        /*
         * Reads the CA file for each connection, since it may be rotated. Builds without that cache do not know the
         * option.
         */
        setup->curl->easy_setopt(setup->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
}

static void set_connection(struct setup *setup, const struct easy_settings *settings)
{
        const struct kube_credentials *credentials = settings->credentials;

        if (credentials->proxy || settings->is_direct)
                easy_set_text(setup, CURLOPT_PROXY, credentials->proxy ? credentials->proxy : "");
        if (credentials->proxy)
                easy_set_text(setup, CURLOPT_NOPROXY, ""); /* ignore the exceptions of the environment */
        easy_set_text(setup, CURLOPT_USERAGENT, "warpshare/" WARPSHARE_VERSION);
        set_number(setup, CURLOPT_NOSIGNAL, 1);
        set_number(setup, CURLOPT_PATH_AS_IS, 1);
        set_number(setup, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1);
        /* If a name resolution hangs, its thread is left behind instead of waiting for it. */
        set_number(setup, CURLOPT_QUICK_EXIT, 1);
        /*
         * Builds without HTTP/2 refuse the first option. The second lets requests wait for a connection that they can
         * share.
         */
        setup->curl->easy_setopt(setup->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
        set_number(setup, CURLOPT_PIPEWAIT, 1);
}

static void set_request(
        struct setup *setup, const struct easy_settings *settings, const struct transfer_request *request)
{
        bool has_query = request->query && *request->query;
        _free_ char *url = xasprintf(
                "%s%s%s%s", settings->url, request->path, has_query ? "?" : "", has_query ? request->query : "");

        easy_set_text(setup, CURLOPT_URL, url);
        if (request->body) {
                set_number(setup, CURLOPT_POSTFIELDSIZE, (long)strlen(request->body));
                easy_set_text(setup, CURLOPT_COPYPOSTFIELDS, request->body);
        }
        easy_set_text(setup, CURLOPT_CUSTOMREQUEST, request->method);
}

static void add_header(const struct curl *curl, struct curl_slist **headers, const char *name, const char *value)
{
        _free_ char *line = xasprintf("%s%s", name, value);
        struct curl_slist *longer = curl->slist_append(*headers, line);

        if (longer)
                *headers = longer;
}

/* A server that does not know the form sends the object as it is. */
static void add_accept(const struct curl *curl, struct curl_slist **headers, const char *as)
{
        _free_ char *form = as ? xasprintf("as=%s;g=meta.k8s.io;v=v1,application/json", as) : NULL;

        add_header(curl, headers, form ? "Accept: application/json;" : "Accept: application/json", form ? form : "");
}

int easy_configure(const struct curl *curl, CURL *easy, const struct easy_settings *settings,
        const struct transfer_request *request, const struct kube_identity *identity, struct curl_slist **ret_headers,
        struct curl_slist **ret_connect_to, struct error *err)
{
        struct setup setup = {.curl = curl, .easy = easy};

        set_tls(&setup, settings->credentials, identity);
        set_connection(&setup, settings);
        set_request(&setup, settings, request);
        add_accept(curl, ret_headers, request->as);
        add_header(curl, ret_headers, "Expect:", ""); /* send the body without waiting for "100 Continue" */
        if (*identity->token)
                add_header(curl, ret_headers, "Authorization: Bearer ", identity->token);
        if (settings->credentials->as)
                add_header(curl, ret_headers, "Impersonate-User: ", settings->credentials->as);
        for (size_t i = 0; i < settings->credentials->n_as_groups; i++)
                add_header(curl, ret_headers, "Impersonate-Group: ", settings->credentials->as_groups[i]);
        if (settings->host)
                add_header(curl, ret_headers, settings->host, "");
        if (request->body)
                add_header(curl, ret_headers, "Content-Type: ", request->content_type);
        easy_note(&setup, curl->easy_setopt(easy, CURLOPT_HTTPHEADER, *ret_headers));
        if (settings->connect_to) {
                add_header(curl, ret_connect_to, settings->connect_to, "");
                easy_note(&setup, curl->easy_setopt(easy, CURLOPT_CONNECT_TO, *ret_connect_to));
        }
        if (setup.rc != CURLE_OK)
                return error_set(err, ERROR_UNSUPPORTED, "libcurl %s cannot do what is needed: %s",
                        curl->version_info(CURLVERSION_NOW)->version, curl->easy_strerror(setup.rc));
        return 0;
}

/* ---- the server's certificate ---- */

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

/* DER (X.690): one byte of type, the length, then the content. See RFC 5280, 4.2.1.6. */
#define TYPE_BOOLEAN 0x01U
#define TYPE_OCTETS 0x04U
#define TYPE_SEQUENCE 0x30U
#define NAME_DNS 0x82U
#define NAME_ADDRESS 0x87U

static const unsigned char alternative_names[] = {0x06, 0x03, 0x55, 0x1d, 0x11}; /* the object identifier 2.5.29.17 */

struct bytes {
        const unsigned char *at;
        size_t size;
};

/* Takes the first value and returns its type; 0 if there is none, or if it is longer than the rest. */
static unsigned int certificate_take(struct bytes *rest, struct bytes *ret)
{
        unsigned int type = rest->size >= 2 ? rest->at[0] : 0;
        size_t length = rest->size >= 2 ? rest->at[1] : 0;
        size_t head = 2;

        if (length & 0x80) {
                size_t count = length & 0x7f;

                if (count == 0 || count > 3 || rest->size < 2 + count)
                        return 0;
                for (length = 0; head < 2 + count; head++)
                        length = length << 8 | rest->at[head];
        }
        if (type == 0 || length > rest->size - head)
                return 0;
        *ret = (struct bytes){rest->at + head, length};
        *rest = (struct bytes){ret->at + length, rest->size - head - length};
        return type;
}

/*
 * |rest| starts after the extension's identifier: an optional critical flag, then the value, a list in an octet string.
 */
static bool has_name(struct bytes rest)
{
        struct bytes value;
        struct bytes names;
        unsigned int type = certificate_take(&rest, &value);

        if (type == TYPE_BOOLEAN)
                type = certificate_take(&rest, &value);
        if (type != TYPE_OCTETS || certificate_take(&value, &names) != TYPE_SEQUENCE)
                return false;
        while ((type = certificate_take(&names, &value)))
                if ((type == NAME_DNS || type == NAME_ADDRESS) && value.size > 0)
                        return true;
        return false;
}

bool certificate_names_host(const char *pem)
{
        const char *begin = strstr(pem, BEGIN);
        const char *end = begin ? strstr(begin + strlen(BEGIN), END) : NULL; /* the dashes of the end line are not those
                                                                              * of the next start line */
        _free_ unsigned char *der = NULL;
        const unsigned char *found;
        size_t size;

        if (!end || (size_t)(end - begin) > CERTIFICATE_LIMIT)
                return false;
        begin += strlen(BEGIN);
        der = xmalloc((size_t)(end - begin) + 1);
        if (!base64_decode(begin, (size_t)(end - begin), der, &size))
                return false;
        found = memmem(der, size, alternative_names, sizeof(alternative_names));
        if (!found)
                return false;
        found += sizeof(alternative_names);
        return has_name((struct bytes){found, size - (size_t)(found - der)});
}

enum peer easy_peer(const struct curl *curl, CURL *easy)
{
        struct curl_certinfo *info = NULL;

        if (curl->easy_getinfo(easy, CURLINFO_CERTINFO, &info) != CURLE_OK || !info || info->num_of_certs < 1)
                return PEER_UNTOLD;
        for (const struct curl_slist *at = info->certinfo[0]; at; at = at->next) /* the first one is the server's own */
                if (text_starts_with(at->data, "Cert:") && certificate_names_host(at->data))
                        return PEER_NAMED;
        return PEER_NAMELESS;
}
