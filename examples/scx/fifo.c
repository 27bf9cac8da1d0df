/*
 * Loads fifo.bpf.o, which lies beside this program or is named as its argument, and keeps the scheduler until SIGINT or
 * SIGTERM. It is attached by a link, so that the kernel detaches it when this process dies.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINK_CREATE = 28, STRUCT_OPS = 44, FLAG_LINK = 1 << 13 };

extern const unsigned char fifo_object[];
extern const unsigned int fifo_object_len;

static int link_of(int map)
{
	struct {
		unsigned int map, target, type, flags;
	} create = { map, 0, STRUCT_OPS, 0 };

	return syscall(SYS_bpf, LINK_CREATE, &create, sizeof(create));
}

int main(void)
{
	struct bpf_object *object;
	struct bpf_map *map;
	sigset_t ends;
	int signal, link;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	object = bpf_object__open_mem(fifo_object, fifo_object_len, NULL);
	if (!object) {
		fprintf(stderr, "fifo: can't open the object: %s\n", strerror(errno));
		return 1;
	}
	map = bpf_object__find_map_by_name(object, "fifo");
	if (!map || bpf_map__set_map_flags(map, FLAG_LINK) || bpf_object__load(object)) {
		fprintf(stderr, "fifo: the kernel does not take it: %s\n", strerror(errno));
		return 1;
	}
	if (!bpf_map__attach_struct_ops(map)) {
		fprintf(stderr, "fifo: can't fill in its operations: %s\n", strerror(errno));
		return 1;
	}
	link = link_of(bpf_map__fd(map));
	if (link < 0) {
		fprintf(stderr, "fifo: can't attach it: %s\n", strerror(errno));
		return 1;
	}
	printf("fifo: attached\n");
	fflush(stdout);
	sigwait(&ends, &signal);
	close(link);
	printf("fifo: detached\n");
	return 0;
}
