// SPDX-License-Identifier: GPL-2.0-only
/*
 * Walks over maps of BPF, and maps as user space asks for them. Stands for the commands of kernel/bpf/syscall.c on
 * elements of maps.
 */
/* The entry behind a key's in the order of insertion; the first one if the key is NULL or not there. */
struct img_entry *img_map_next(struct img_map *map, const void *key)
{
	struct img_entry *entry = key ? entry_of(map, key) : NULL;

	return entry ? entry->next : map->first;
}

/* Calls a program's function for each entry, until it returns 1; how many were visited. */
u64 img_map_each(struct img_map *map, long callback, u64 context)
{
	struct img_entry *entry, *next;
	u64 visited = 0;
	u32 index;

	if (is_array(map)) {
		for (index = 0; index < map->about.max_entries; index++) {
			u64 value = (u64)img_map_find(map, &index, img_cpu);

			visited++;
			if (img_bpf_call(callback, (u64)map, (u64)&index, value, context, 0))
				break;
		}
		return visited;
	}
	for (entry = map->first; entry; entry = next) {
		next = entry->next;
		visited++;
		if (img_bpf_call(callback, (u64)map, (u64)entry->key, (u64)entry->values, context, 0))
			break;
	}
	return visited;
}

/* The value that has this field, and its key. */
void *img_map_value_of(struct img_map *map, void *field, void **key)
{
	unsigned long size = values_of_key(map);
	struct img_entry *entry;

	if (is_array(map)) {
		u32 *index = img_alloc(sizeof(*index));

		*index = ((char *)field - (char *)map->values) / size;
		*key = index;
		return (char *)map->values + size * *index;
	}
	for (entry = map->first; entry; entry = entry->next)
		if ((char *)field >= (char *)entry->values && (char *)field < (char *)entry->values + size) {
			*key = entry->key;
			return entry->values;
		}
	*key = NULL;
	return field;
}

/* The engine's side: values of all CPUs at once, in the order of CPUs, as bpf(2) has them. */
int img_bpf_update(int number, const void *key, const void *value, unsigned long long flags)
{
	struct img_map *map = img_map_of(number);

	if (!map)
		return -EBADF;
	return is_by_cpu(map) ? write_all(map, key, value, flags) : img_map_write(map, key, value, flags);
}

/* A key's values; ENOENT if it is not there. Fields that are not copied are zeros. */
int img_bpf_lookup(int number, const void *key, void *value)
{
	struct img_map *map = img_map_of(number);
	void *from = map ? img_map_find(map, key, 0) : NULL;
	unsigned long at;
	u32 i;

	if (!from)
		return -ENOENT;
	memcpy(value, from, values_of_key(map));
	for (at = 0; at < values_of_key(map); at += map->value_bytes)
		for (i = 0; i < map->about.nr_fields; i++)
			memset((char *)value + at + map->about.fields[i].at, 0, map->about.fields[i].bytes);
	return 0;
}
int img_bpf_delete(int number, const void *key)
{
	struct img_map *map = img_map_of(number);

	return map ? img_map_delete(map, key) : -EBADF;
}
/* The key behind another one, or the first. */
int img_bpf_next(int number, const void *key, void *next)
{
	struct img_map *map = img_map_of(number);
	struct img_entry *entry = map && is_hash(map) ? img_map_next(map, key) : NULL;

	if (!entry)
		return -ENOENT;
	memcpy(next, entry->key, map->about.key_bytes);
	return 0;
}

/* Larger memory would take what the kernel needs: its lines are not charged. */
#define MOST_ROOM (1UL << 30)
void *img_bpf_room(unsigned long bytes)
{
	char *at = bytes > MOST_ROOM ? NULL : img_arena(round_up(bytes, PAGE_SIZE) + PAGE_SIZE);

	return at ? PTR_ALIGN(at, PAGE_SIZE) : NULL;
}
