// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cache lines of the kernel's objects outside kernel/sched: pipes, sockets, messages, futexes, stacks of tasks. Stands
 * for fs/pipe.c, net/ and kernel/futex/, whose code is not in the image: the engine says which lines it touches.
 *
 * The lines lie in the kernel's memory, so that they have owners and prices as all others (lines.c). Nobody reads or
 * writes what is in them.
 */
#include "image.h"

#ifdef CONFIG_SIM_COUNTED
void img_read(const void *at);
void img_write(const void *at);

static void touch_line(const char *at, unsigned int how)
{
	if (how & IMG_T_ATOMIC) {
		img_atomic_begin(at);
		img_atomic_end();
	} else if (how & IMG_T_STORE) {
		img_write(at);
	} else if (how & IMG_T_WRITE) {
		img_read(at);
		if (!(how & IMG_T_TOGETHER))
			img_wait();
		img_write(at);
	} else {
		img_read(at);
	}
}

/*
 * A CPU that calls this is in no verb, so that it does not leave in the middle. Lines that it reads come one after the
 * other, where they are not asked for together; those that it writes come meanwhile.
 */
void img_touch(const struct img_touched *touched, unsigned int nr)
{
	unsigned int line;

	for (; nr--; touched++) {
		for (line = 0; line < touched->lines; line++) {
			touch_line((const char *)touched->at + line * 64, touched->how);
			if (!(touched->how & IMG_T_TOGETHER))
				img_wait();
		}
		img_wait();
	}
	img_retire();
}
#else
void img_touch(const struct img_touched *touched, unsigned int nr)
{
}
#endif

const void *img_object(unsigned int lines)
{
	return img_alloc(lines * 64UL);
}
