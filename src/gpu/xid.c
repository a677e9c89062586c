#include "gpu/xid.h"

#include <stdio.h>

#include "base/macro.h"

/* How NVIDIA's plugin treats every Xid that it does not know as an application error. */
#define COUNTS(number, class, name)                                                                                    \
        {                                                                                                              \
                number, XID_##class, XID_UNHEALTHY, name                                                               \
        }

/* sorted by number for a binary search */
static const struct xid table[] = {
        COUNTS(8, RESTART, "GPU stopped processing"),
        COUNTS(11, APPLICATION, "invalid or corrupted push buffer stream"),
        {13, XID_APPLICATION, XID_IGNORED, "graphics engine exception"},
        {14, XID_INFORMATIONAL, XID_IGNORED, "error made up for a test"},
        COUNTS(25, APPLICATION, "invalid or illegal push buffer stream"),
        {31, XID_APPLICATION, XID_IGNORED, "GPU memory page fault"},
        COUNTS(32, APPLICATION, "invalid or corrupted push buffer stream"),
        COUNTS(37, INFORMATIONAL, "driver firmware error"),
        COUNTS(38, INFORMATIONAL, "driver firmware error"),
        COUNTS(39, RESTART, "copy engine 0 error"),
        COUNTS(40, RESTART, "copy engine 1 error"),
        COUNTS(41, RESTART, "copy engine 2 error"),
        {43, XID_APPLICATION, XID_IGNORED, "GPU stopped processing"},
        COUNTS(44, INFORMATIONAL, "graphics engine fault during context switch"),
        {45, XID_APPLICATION, XID_IGNORED, "preemptive cleanup, due to previous errors"},
        COUNTS(46, RESET, "GPU stopped processing"),
        COUNTS(48, RESET, "double-bit ECC error"),
        COUNTS(54, SERVICE, "auxiliary power is not connected"),
        COUNTS(60, RESTART, "video processor exception"),
        COUNTS(61, RESET, "internal micro-controller breakpoint"),
        COUNTS(62, RESET, "internal micro-controller halt"),
        COUNTS(63, INFORMATIONAL, "ECC page retirement or row remapping recorded"),
        COUNTS(64, RESET, "ECC page retirement or row remapping failed"),
        COUNTS(66, INFORMATIONAL, "illegal access by the driver"),
        COUNTS(67, INFORMATIONAL, "illegal access by the driver"),
        {68, XID_RESTART, XID_IGNORED, "video decoder 0 exception"},
        COUNTS(69, APPLICATION, "graphics engine class error"),
        COUNTS(70, RESTART, "copy engine 3 error"),
        COUNTS(71, RESTART, "copy engine 4 error"),
        COUNTS(72, RESTART, "copy engine 5 error"),
        COUNTS(74, RESET, "NVLink error"),
        COUNTS(75, RESTART, "copy engine 6 error"),
        COUNTS(76, RESTART, "copy engine 7 error"),
        COUNTS(77, RESTART, "copy engine 8 error"),
        COUNTS(78, SERVICE, "vGPU start error"),
        COUNTS(79, SERVICE, "GPU has fallen off the bus"),
        COUNTS(80, APPLICATION, "corrupted data sent to the GPU"),
        COUNTS(82, RESTART, "JPEG engine 0 error"),
        COUNTS(83, RESTART, "video decoder 1 error"),
        COUNTS(84, RESTART, "video decoder 2 error"),
        COUNTS(85, RESTART, "copy engine 9 error"),
        COUNTS(86, RESTART, "optical flow engine 0 exception"),
        COUNTS(88, RESTART, "video decoder 3 error"),
        COUNTS(89, RESTART, "video decoder 4 error"),
        COUNTS(92, INFORMATIONAL, "high single-bit ECC error rate"),
        COUNTS(93, INFORMATIONAL, "InfoROM wear limit exceeded"),
        COUNTS(94, RESTART, "contained ECC error"),
        COUNTS(95, RESET, "uncontained ECC error"),
        COUNTS(96, RESTART, "video decoder 5 error"),
        COUNTS(97, RESTART, "video decoder 6 error"),
        COUNTS(98, RESTART, "video decoder 7 error"),
        COUNTS(99, RESTART, "JPEG engine 1 error"),
        COUNTS(100, RESTART, "JPEG engine 2 error"),
        COUNTS(101, RESTART, "JPEG engine 3 error"),
        COUNTS(102, RESTART, "JPEG engine 4 error"),
        COUNTS(103, RESTART, "JPEG engine 5 error"),
        COUNTS(104, RESTART, "JPEG engine 6 error"),
        COUNTS(105, RESTART, "JPEG engine 7 error"),
        {106, XID_INFORMATIONAL, XID_IGNORED, "management bus test message"},
        {107, XID_INFORMATIONAL, XID_IGNORED, "management bus test message"},
        COUNTS(108, INFORMATIONAL, "NVLink remote translation error"),
        {109, XID_RESET, XID_CHECK, "context switch timeout"},
        COUNTS(110, RESET, "security fault"),
        COUNTS(119, RESET, "GSP RPC timeout"),
        COUNTS(120, RESET, "GSP error"),
        COUNTS(121, INFORMATIONAL, "corrected C2C link error"),
        COUNTS(122, SERVICE, "firmware flash cannot be read"),
        COUNTS(123, SERVICE, "firmware flash cannot be written"),
        COUNTS(124, SERVICE, "firmware flash cannot be erased"),
        COUNTS(125, SERVICE, "InfoROM file system error"),
        COUNTS(126, RESTART, "copy engine 10 error"),
        COUNTS(127, RESTART, "copy engine 11 error"),
        COUNTS(128, RESTART, "copy engine 12 error"),
        COUNTS(129, RESTART, "copy engine 13 error"),
        COUNTS(130, RESTART, "copy engine 14 error"),
        COUNTS(131, RESTART, "copy engine 15 error"),
        COUNTS(132, RESTART, "copy engine 16 error"),
        COUNTS(133, RESTART, "copy engine 17 error"),
        COUNTS(134, RESTART, "copy engine 18 error"),
        COUNTS(135, RESTART, "copy engine 19 error"),
        COUNTS(136, RESET, "link training failed"),
        COUNTS(137, INFORMATIONAL, "NVLink privilege error"),
        COUNTS(139, RESTART, "optical flow engine 1 error"),
        COUNTS(140, RESET, "unrecovered ECC error"),
        COUNTS(141, INFORMATIONAL, "CUDA fast path error"),
        COUNTS(142, SERVICE, "video encoder 3 error"),
        COUNTS(143, RESET, "GPU initialization error"),
        {144, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {145, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {146, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {147, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {148, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {149, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        {150, XID_UNCLASSED, XID_CHECK, "NVLink error"},
        COUNTS(151, SERVICE, "key rotation error"),
        COUNTS(152, INFORMATIONAL, "deep learning accelerator memory error"),
        COUNTS(153, INFORMATIONAL, "deep learning accelerator timeout"),
        {154, XID_INFORMATIONAL, XID_CHECK, "GPU recovery action changed"},
        COUNTS(155, RESET, "NVLink error defined by software"),
        COUNTS(156, RESET, "resource retired"),
        COUNTS(157, INFORMATIONAL, "resource could not be retired"),
        COUNTS(158, RESET, "fatal timeout"),
        COUNTS(159, UNCLASSED, "coherent link error"),
        COUNTS(160, INFORMATIONAL, "memory channel retired"),
        COUNTS(161, INFORMATIONAL, "memory channel could not be retired"),
        COUNTS(162, INFORMATIONAL, "power smoothing is on again"),
        COUNTS(163, INFORMATIONAL, "power smoothing is off"),
        COUNTS(164, INFORMATIONAL, "power smoothing circuit is near its end of life"),
        COUNTS(165, INFORMATIONAL, "power smoothing circuit is at its end of life"),
        COUNTS(166, INFORMATIONAL, "traffic before the link was encrypted"),
        COUNTS(167, UNCLASSED, "PCIe fatal timeout"),
        COUNTS(168, UNCLASSED, "GPU memory capacity reduced"),
        COUNTS(169, UNCLASSED, "internal micro-controller halt"),
        COUNTS(170, INFORMATIONAL, "interrupt during confidential computing"),
        COUNTS(171, UNCLASSED, "uncorrectable DRAM error"),
        COUNTS(172, UNCLASSED, "uncorrectable SRAM error"),
        COUNTS(999, UNCLASSED, "unknown error"),
};

static const char *const advice[] = {
        [XID_UNCLASSED] = "",
        [XID_INFORMATIONAL] = "",
        [XID_APPLICATION] = ": a fault of the program",
        [XID_RESTART] = ": restart the programs on the GPU",
        [XID_RESET] = ": the GPU needs a reset",
        [XID_SERVICE] = ": reboot the node, or repair it",
};

const struct xid *xid_find(uint64_t number)
{
        size_t low = 0;
        size_t high = ARRAY_SIZE(table);

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (table[middle].number == number)
                        return &table[middle];
                if (table[middle].number < number)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

enum xid_effect xid_default_effect(uint64_t number)
{
        const struct xid *xid = xid_find(number);

        return xid ? xid->effect : XID_UNHEALTHY;
}

bool xid_needs_recovery(uint64_t number)
{
        const struct xid *xid = xid_find(number);

        return xid && (xid->class == XID_RESET || xid->class == XID_SERVICE);
}

void xid_text(uint64_t number, char *text, size_t size)
{
        const struct xid *xid = xid_find(number);

        if (xid)
                snprintf(text, size, "Xid %u (%s)%s", xid->number, xid->name, advice[xid->class]);
        else
                snprintf(text, size, "Xid %llu", (unsigned long long)number);
}
