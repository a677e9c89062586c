#include "gpu/multiprocessors.h"

#include <stddef.h>

#include "base/macro.h"

/* FP32 cores of one SM: CUDA programming guide, "Compute capabilities", arithmetic throughput. 0: none that we know. */
static unsigned int cores_of_one(int compute_major, int compute_minor)
{
        static const struct {
                int major;
                int minor;
                unsigned int cores;
        } table[] = {
                {3, 0, 192},
                {3, 2, 192},
                {3, 5, 192},
                {3, 7, 192},
                {5, 0, 128},
                {5, 2, 128},
                {5, 3, 128},
                {6, 0, 64}, /* P100; other Pascal GPUs have twice as many */
                {6, 1, 128},
                {6, 2, 128},
                {7, 0, 64},
                {7, 2, 64},
                {7, 5, 64},
                {8, 0, 64}, /* A100, A30; other Ampere GPUs have twice as many */
                {8, 6, 128},
                {8, 7, 128},
                {8, 9, 128},
                {9, 0, 128},
                {10, 0, 128},
                {10, 1, 128},
                {10, 3, 128},
                {11, 0, 128},
                {12, 0, 128},
                {12, 1, 128},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (table[i].major == compute_major && table[i].minor == compute_minor)
                        return table[i].cores;
        return 0;
}

unsigned int multiprocessors_of(unsigned int cores, int compute_major, int compute_minor)
{
        unsigned int each = cores_of_one(compute_major, compute_minor);

        return each && cores % each == 0 ? cores / each : 0;
}
