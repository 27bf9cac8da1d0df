/* SPDX-License-Identifier: GPL-2.0-only */
/* Included before every file: declared names are within the image, too. abi.h and image/host.h have the exceptions. */
#pragma GCC visibility push(hidden)
/* Static calls are calls by pointer here; the generic header has these names only for patched code. */
#define static_call_mod(name) static_call(name)
#define EXPORT_STATIC_CALL_TRAMP(name)
#ifdef IMG_COUNTED
/* By its place: kbuild asks the compiler about options without folders of headers. */
#include "counted.h"
#endif
