// SPDX-License-Identifier: GPL-2.0-only
/* kbuild wants this file. No assembly needs an offset. */
#include <linux/kbuild.h>
int main(void)
{
	return 0;
}
