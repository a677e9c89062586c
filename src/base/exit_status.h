/* The exit statuses of our programs beside 0, as those of NVIDIA's: what a command's function returns. */
#pragma once

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };
