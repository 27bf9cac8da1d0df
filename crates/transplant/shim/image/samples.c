// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of the call chain, one for each further unit of the code's cost. Stands for perf's.
 */
#include "host.h"
#include "image.h"

#define FIRST_ROOM 4096

static struct img_sample *samples;
static unsigned long long count, room;

/* Of these calls, or of those under way. */
void img_sample(const struct img_sample *at)
{
	if (count == room) {
		unsigned long long larger = room ? 2 * room : FIRST_ROOM;
		struct img_sample *all = img_map(larger * sizeof(*all));

		memcpy(all, samples, count * sizeof(*all));
		samples = all;
		room = larger;
	}
	if (at)
		samples[count++] = *at;
	else
		host_backtrace((void **)samples[count++].calls, IMG_CALLS);
}

const struct img_sample *img_samples(unsigned long long *number)
{
	*number = count;
	return samples;
}

void img_forget_samples(void)
{
	memset(samples, 0, count * sizeof(*samples));
	count = 0;
}
