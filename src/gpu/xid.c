#include "gpu/xid.h"

#include <stdio.h>

#include "base/macro.h"

#define INFORMATIONAL(number, name)                                                                                    \
        {                                                                                                              \
                number, XID_INFORMATIONAL, XID_UNHEALTHY, name                                                         \
        }
#define APPLICATION(number, name)                                                                                      \
        {                                                                                                              \
                number, XID_APPLICATION, XID_UNHEALTHY, name                                                           \
        }
#define RESTART(number, name)                                                                                          \
        {                                                                                                              \
                number, XID_RESTART, XID_UNHEALTHY, name                                                               \
        }
#define RESET(number, name)                                                                                            \
        {                                                                                                              \
                number, XID_RESET, XID_UNHEALTHY, name                                                                 \
        }
#define SERVICE(number, name)                                                                                          \
        {                                                                                                              \
                number, XID_SERVICE, XID_UNHEALTHY, name                                                               \
        }
#define UNCLASSED(number, name)                                                                                        \
        {                                                                                                              \
                number, XID_UNCLASSED, XID_UNHEALTHY, name                                                             \
        }

/* By number: it is searched by halving. */
static const struct xid table[] = {
        RESTART(8, "GPU stopped processing"),
        APPLICATION(11, "invalid or corrupted push buffer stream"),
        {13, XID_APPLICATION, XID_IGNORED, "graphics engine exception"},
        {14, XID_INFORMATIONAL, XID_IGNORED, "error made up for a test"},
        APPLICATION(25, "invalid or illegal push buffer stream"),
        {31, XID_APPLICATION, XID_IGNORED, "GPU memory page fault"},
        APPLICATION(32, "invalid or corrupted push buffer stream"),
        INFORMATIONAL(37, "driver firmware error"),
        INFORMATIONAL(38, "driver firmware error"),
        RESTART(39, "copy engine 0 error"),
        RESTART(40, "copy engine 1 error"),
        RESTART(41, "copy engine 2 error"),
        {43, XID_APPLICATION, XID_IGNORED, "GPU stopped processing"},
        INFORMATIONAL(44, "graphics engine fault during context switch"),
        {45, XID_APPLICATION, XID_IGNORED, "preemptive cleanup, due to previous errors"},
        RESET(46, "GPU stopped processing"),
        RESET(48, "double-bit ECC error"),
        SERVICE(54, "auxiliary power is not connected"),
        RESTART(60, "video processor exception"),
        RESET(61, "internal micro-controller breakpoint"),
        RESET(62, "internal micro-controller halt"),
        INFORMATIONAL(63, "ECC page retirement or row remapping recorded"),
        RESET(64, "ECC page retirement or row remapping failed"),
        INFORMATIONAL(66, "illegal access by the driver"),
        INFORMATIONAL(67, "illegal access by the driver"),
        {68, XID_RESTART, XID_IGNORED, "video decoder 0 exception"},
        APPLICATION(69, "graphics engine class error"),
        RESTART(70, "copy engine 3 error"),
        RESTART(71, "copy engine 4 error"),
        RESTART(72, "copy engine 5 error"),
        RESET(74, "NVLink error"),
        RESTART(75, "copy engine 6 error"),
        RESTART(76, "copy engine 7 error"),
        RESTART(77, "copy engine 8 error"),
        SERVICE(78, "vGPU start error"),
        SERVICE(79, "GPU has fallen off the bus"),
        APPLICATION(80, "corrupted data sent to the GPU"),
        RESTART(82, "JPEG engine 0 error"),
        RESTART(83, "video decoder 1 error"),
        RESTART(84, "video decoder 2 error"),
        RESTART(85, "copy engine 9 error"),
        RESTART(86, "optical flow engine 0 exception"),
        RESTART(88, "video decoder 3 error"),
        RESTART(89, "video decoder 4 error"),
        INFORMATIONAL(92, "high single-bit ECC error rate"),
        INFORMATIONAL(93, "InfoROM wear limit exceeded"),
        RESTART(94, "contained ECC error"),
        RESET(95, "uncontained ECC error"),
        RESTART(96, "video decoder 5 error"),
        RESTART(97, "video decoder 6 error"),
        RESTART(98, "video decoder 7 error"),
        RESTART(99, "JPEG engine 1 error"),
        RESTART(100, "JPEG engine 2 error"),
        RESTART(101, "JPEG engine 3 error"),
        RESTART(102, "JPEG engine 4 error"),
        RESTART(103, "JPEG engine 5 error"),
        RESTART(104, "JPEG engine 6 error"),
        RESTART(105, "JPEG engine 7 error"),
        {106, XID_INFORMATIONAL, XID_IGNORED, "management bus test message"},
        {107, XID_INFORMATIONAL, XID_IGNORED, "management bus test message"},
        INFORMATIONAL(108, "NVLink remote translation error"),
        {109, XID_RESET, XID_LOOK, "context switch timeout"},
        RESET(110, "security fault"),
        RESET(119, "GSP RPC timeout"),
        RESET(120, "GSP error"),
        INFORMATIONAL(121, "corrected C2C link error"),
        SERVICE(122, "firmware flash cannot be read"),
        SERVICE(123, "firmware flash cannot be written"),
        SERVICE(124, "firmware flash cannot be erased"),
        SERVICE(125, "InfoROM file system error"),
        RESTART(126, "copy engine 10 error"),
        RESTART(127, "copy engine 11 error"),
        RESTART(128, "copy engine 12 error"),
        RESTART(129, "copy engine 13 error"),
        RESTART(130, "copy engine 14 error"),
        RESTART(131, "copy engine 15 error"),
        RESTART(132, "copy engine 16 error"),
        RESTART(133, "copy engine 17 error"),
        RESTART(134, "copy engine 18 error"),
        RESTART(135, "copy engine 19 error"),
        RESET(136, "link training failed"),
        INFORMATIONAL(137, "NVLink privilege error"),
        RESTART(139, "optical flow engine 1 error"),
        RESET(140, "unrecovered ECC error"),
        INFORMATIONAL(141, "CUDA fast path error"),
        SERVICE(142, "video encoder 3 error"),
        RESET(143, "GPU initialization error"),
        RESET(144, "NVLink error"),
        RESET(145, "NVLink error"),
        RESET(146, "NVLink error"),
        RESET(147, "NVLink error"),
        RESET(148, "NVLink error"),
        RESET(149, "NVLink error"),
        RESET(150, "NVLink error"),
        SERVICE(151, "key rotation error"),
        INFORMATIONAL(152, "deep learning accelerator memory error"),
        INFORMATIONAL(153, "deep learning accelerator timeout"),
        {154, XID_INFORMATIONAL, XID_LOOK, "GPU recovery action changed"},
        RESET(155, "NVLink error defined by software"),
        RESET(156, "resource retired"),
        INFORMATIONAL(157, "resource could not be retired"),
        RESET(158, "fatal timeout"),
        UNCLASSED(159, "coherent link error"),
        INFORMATIONAL(160, "memory channel retired"),
        INFORMATIONAL(161, "memory channel could not be retired"),
        UNCLASSED(167, "PCIe fatal timeout"),
        UNCLASSED(168, "GPU memory capacity reduced"),
        UNCLASSED(169, "internal micro-controller halt"),
        UNCLASSED(171, "uncorrectable DRAM error"),
        UNCLASSED(172, "uncorrectable SRAM error"),
        UNCLASSED(999, "unknown error"),
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

void xid_text(uint64_t number, char *text, size_t size)
{
        const struct xid *xid = xid_find(number);

        if (xid)
                snprintf(text, size, "Xid %u (%s)%s", xid->number, xid->name, advice[xid->class]);
        else
                snprintf(text, size, "Xid %llu", (unsigned long long)number);
}
