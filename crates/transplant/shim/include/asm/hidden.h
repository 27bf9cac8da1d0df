/* SPDX-License-Identifier: GPL-2.0-only */
/* Before every file: also what is declared only is within the image. abi.h and image/host.h name the exceptions. */
#pragma GCC visibility push(hidden)
