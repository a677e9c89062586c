// SPDX-License-Identifier: Apache-2.0
/* Prints the PTX text, for tools that check it. */
#include <stdio.h>

#include "gpu/cuda/kernels.h"

int main(void)
{
        return fputs(kernels_ptx, stdout) < 0;
}
