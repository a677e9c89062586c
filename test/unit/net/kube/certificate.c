// SPDX-License-Identifier: Apache-2.0
/*
 * Certificates by openssl req -x509, of an EC key, with the common name 10.0.0.1; what else they name is in their names
 * here.
 */
#include "unit.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "net/kube/easy.h"

static const char by_dns[] = "-----BEGIN CERTIFICATE-----\n"
                             "MIIBizCCATGgAwIBAgIUL48B6qj1Ho9GRt0tAqHPjPlDLfcwCgYIKoZIzj0EAwIw\n"
                             "EzERMA8GA1UEAwwIMTAuMC4wLjEwHhcNMjYxMTIzMTY0NzU3WhcNMzYxMTIwMTY0\n"
                             "NzU3WjATMREwDwYDVQQDDAgxMC4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"
                             "A0IABNNM3RIdrkAzENjZPcQX5QShqisgyoldBZ6UqUA7CIaEkhQLrTcLRATH8fB/\n"
                             "84benLH/nC6aqIcsnK8ahfordHejYzBhMB0GA1UdDgQWBBS7ARW0nDvPF+tiUJIG\n"
                             "QlxHYuFjlTAfBgNVHSMEGDAWgBS7ARW0nDvPF+tiUJIGQlxHYuFjlTAPBgNVHRMB\n"
                             "Af8EBTADAQH/MA4GA1UdEQQHMAWCA2FwaTAKBggqhkjOPQQDAgNIADBFAiBz85vB\n"
                             "vB/ezoz77kQlklEVjClc91wke/w5MStMb0V8YgIhAL5HNiW50r94D5tQ0wDpK9kC\n"
                             "NvDmdgG7wC//P6ncwSlU\n"
                             "-----END CERTIFICATE-----\n";

static const char by_address[] = "-----BEGIN CERTIFICATE-----\n"
                                 "MIIBjzCCATWgAwIBAgIUVnRyFzzZrJpj2fwE5j7zjhCT5tYwCgYIKoZIzj0EAwIw\n"
                                 "EzERMA8GA1UEAwwIMTAuMC4wLjEwHhcNMjYxMTIzMTY0NzU3WhcNMzYxMTIwMTY0\n"
                                 "NzU3WjATMREwDwYDVQQDDAgxMC4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"
                                 "A0IABLiI+J9lRZ1USA3J+Ui58Ik+N7yYAUAr9yB052kS8OCUkHNrGh74enbCTjGT\n"
                                 "87ixLoB1qiYEeD6//Mq/5KNKaOmjZzBlMB0GA1UdDgQWBBQfyBtiVHxoOjI20YaM\n"
                                 "yjf/NwyhCDAfBgNVHSMEGDAWgBQfyBtiVHxoOjI20YaMyjf/NwyhCDAPBgNVHRMB\n"
                                 "Af8EBTADAQH/MBIGA1UdEQEB/wQIMAaHBAoAAAEwCgYIKoZIzj0EAwIDSAAwRQIg\n"
                                 "d+xmgBYkHDAq8esHgTKKv46cJAaqhAhJDsvx+X8433ICIQD6CEphlwhmwT8GUAMO\n"
                                 "p5uW8nIYnfNJAG7ZCUjbL+C7iw==\n"
                                 "-----END CERTIFICATE-----\n";

static const char by_ipv6_after_mail[] = "-----BEGIN CERTIFICATE-----\n"
                                         "MIIBozCCAUigAwIBAgIULWdgGJ/lmcw6ux2B/5aUshnFIAgwCgYIKoZIzj0EAwIw\n"
                                         "EzERMA8GA1UEAwwIMTAuMC4wLjEwHhcNMjYxMTIzMTY0NzU3WhcNMzYxMTIwMTY0\n"
                                         "NzU3WjATMREwDwYDVQQDDAgxMC4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"
                                         "A0IABJ+speHoY31cwoleUQpvUt4CnR+9GzFkUdpXF4h5NBCRh911ENUM5Oo+xLyB\n"
                                         "n1XpoUKyAKFfEF2RpY93foesf9GjejB4MB0GA1UdDgQWBBTDsr9WZpxu2cfTommB\n"
                                         "jlnATSPTXzAfBgNVHSMEGDAWgBTDsr9WZpxu2cfTommBjlnATSPTXzAPBgNVHRMB\n"
                                         "Af8EBTADAQH/MCUGA1UdEQQeMByBCGFAYi50ZXN0hxD9AAAAAAAAAAAAAAAAAAAB\n"
                                         "MAoGCCqGSM49BAMCA0kAMEYCIQCS/eOpWazq18Ji71EjR4VNhuXT0HMQFAiulRLF\n"
                                         "ZQdcqgIhAMAPVtaN2lPGZoR7meEkhvgK7ZbVijQ4o0z92BZiVRlX\n"
                                         "-----END CERTIFICATE-----\n";

static const char by_mail_only[] = "-----BEGIN CERTIFICATE-----\n"
                                   "MIIBkTCCATagAwIBAgIUQnEG5+UmNYDfIId+4QRfXR8vHwkwCgYIKoZIzj0EAwIw\n"
                                   "EzERMA8GA1UEAwwIMTAuMC4wLjEwHhcNMjYxMTIzMTY0NzU3WhcNMzYxMTIwMTY0\n"
                                   "NzU3WjATMREwDwYDVQQDDAgxMC4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"
                                   "A0IABHKN5UNYENDPHEAqsjzbUv/trKlI4d0WtjwcXnPVbnHmGbmifD9PHj7gNfc2\n"
                                   "tkXwvpN7maB/ICYGqiXr7DljvXKjaDBmMB0GA1UdDgQWBBSMBhPN/8+ArHRH16YG\n"
                                   "w7AQJo77DDAfBgNVHSMEGDAWgBSMBhPN/8+ArHRH16YGw7AQJo77DDAPBgNVHRMB\n"
                                   "Af8EBTADAQH/MBMGA1UdEQQMMAqBCGFAYi50ZXN0MAoGCCqGSM49BAMCA0kAMEYC\n"
                                   "IQCTjETow1eD7Et77U0MFUYEkpstsszW/aomaWgTHmWdngIhAK27zNWtFA+WmZKe\n"
                                   "aQfxuqxRmhxnOLDkgBamrS7SfTo4\n"
                                   "-----END CERTIFICATE-----\n";

static const char by_common_name[] = "-----BEGIN CERTIFICATE-----\n"
                                     "MIIBejCCASGgAwIBAgIUBufOzneYOLx+hteBTn7ATFuyzbkwCgYIKoZIzj0EAwIw\n"
                                     "EzERMA8GA1UEAwwIMTAuMC4wLjEwHhcNMjYxMTIzMTY0NzU3WhcNMzYxMTIwMTY0\n"
                                     "NzU3WjATMREwDwYDVQQDDAgxMC4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"
                                     "A0IABBtZGaYj7ELyl3KJtQGfy5KL1MWCQ2A+JYkYiKh+C81IO59qtAkV+AhU/C+z\n"
                                     "ypwijOmMiKQVSYMtdu6DCcTvOwGjUzBRMB0GA1UdDgQWBBS+RkX9mJO7OMhKlYXi\n"
                                     "bGTIrAPwpTAfBgNVHSMEGDAWgBS+RkX9mJO7OMhKlYXibGTIrAPwpTAPBgNVHRMB\n"
                                     "Af8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIB2zMeICJZxN/zs8CRXM9oRG7S7z\n"
                                     "fCMMYVOq4H/vRGzKAiBNZEkRMkZJsI09qu+BuwlKqGN6L99uSVebUxYnaShKgA==\n"
                                     "-----END CERTIFICATE-----\n";

static void test_only_alternative_names_count(void **state UNUSED)
{
        const struct {
                const char *pem;
                bool names_host;
        } table[] = {
                {by_dns, true},
                {by_address, true},
                {by_ipv6_after_mail, true},
                {by_mail_only, false},
                {by_common_name, false},
                {"", false},
                {"-----BEGIN CERTIFICATE-----", false},
                {"-----BEGIN CERTIFICATE----------END CERTIFICATE-----", false},
                {"-----BEGIN CERTIFICATE--------END CERTIFICATE-----", false},
                {"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_int_equal(certificate_names_host(table[i].pem), table[i].names_host);
}

static void test_the_first_certificate_is_the_one_that_counts(void **state UNUSED)
{
        _free_ char *good = xasprintf("Cert:%s%s", by_dns, by_common_name);
        _free_ char *bad = xasprintf("Cert:%s%s", by_common_name, by_dns);

        assert_true(certificate_names_host(good));
        assert_false(certificate_names_host(bad));
}

static char *encode(const unsigned char *der, size_t size)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char *text = xmalloc(size * 2 + 100);
        char *at = stpcpy(text, "-----BEGIN CERTIFICATE-----\n");

        for (size_t i = 0; i < size; i += 3) {
                unsigned int bits = (unsigned int)der[i] << 16;

                bits |= i + 1 < size ? (unsigned int)der[i + 1] << 8 : 0;
                bits |= i + 2 < size ? der[i + 2] : 0;
                *at++ = digits[bits >> 18];
                *at++ = digits[bits >> 12 & 63];
                *at++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
                *at++ = i + 2 < size ? digits[bits & 63] : '=';
        }
        strcpy(at, "\n-----END CERTIFICATE-----\n");
        return text;
}

/* Cut anywhere, and with every length that the bytes behind the extension can claim. */
static void test_no_length_leads_out_of_the_certificate(void **state UNUSED)
{
        const char *base64 = strchr(by_address, '\n');
        const size_t length = (size_t)(strstr(base64, "-----END") - base64);
        unsigned char der[sizeof(by_address)];
        size_t size;

        assert_true(base64_decode(base64, length, der, &size));
        for (size_t cut = 0; cut <= size; cut++) {
                _free_ char *pem = encode(der, cut);

                certificate_names_host(pem);
                if (cut == size)
                        assert_true(certificate_names_host(pem));
        }
        for (size_t at = 0; at < size; at++) {
                unsigned char kept = der[at];

                for (unsigned int byte = 0x7d; byte <= 0x86; byte++) {
                        _free_ char *pem = NULL;

                        der[at] = (unsigned char)byte;
                        pem = encode(der, size);
                        certificate_names_host(pem);
                }
                der[at] = kept;
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_alternative_names_count),
                cmocka_unit_test(test_the_first_certificate_is_the_one_that_counts),
                cmocka_unit_test(test_no_length_leads_out_of_the_certificate),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
