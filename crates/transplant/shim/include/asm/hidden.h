/* SPDX-License-Identifier: GPL-2.0-only */
/* Before every file: also what is declared only is within the image. abi.h and image/host.h name the exceptions. */
#pragma GCC visibility push(hidden)
/* Static calls are calls by pointer here; the generic header has these names only where they are patched code. */
#define static_call_mod(name) static_call(name)
#define EXPORT_STATIC_CALL_TRAMP(name)
