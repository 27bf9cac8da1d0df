// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes to maps of BPF. Stands for the updates and deletions of kernel/bpf/arraymap.c, hashtab.c and
 * bpf_local_storage.c, of Linux 7.3. Errors are those of a kernel.
 */
/* Whether a value may be written where one is there, or none. A kernel's: check_flags() and what comes before it. */
static long may_write(const struct img_map *map, bool is_there, u64 flags)
{
	u64 what = flags & ~(u64)BPF_F_LOCK;

	if (what > BPF_EXIST)
		return -EINVAL;
	if (is_there && what == BPF_NOEXIST)
		return -EEXIST;
	return !is_there && what == BPF_EXIST ? -ENOENT : 0;
}

/* A key's entry, which is made if it may be. An LRU map that is full gives up the entry that was used longest ago. */
static struct img_entry *entry_to_write(struct img_map *map, const void *key, u64 flags, long *failed)
{
	struct img_entry *entry = entry_of(map, key);

	*failed = may_write(map, entry, flags);
	if (entry || *failed)
		return entry;
	if (!is_storage(map) && map->nr >= map->about.max_entries) {
		if (!is_lru(map) || !map->first) {
			*failed = -E2BIG;
			return NULL;
		}
		drop(map, map->first);
	}
	return add(map, key);
}

/* Writes one value: a map by its number, or bytes around the fields. A kernel puts a hash's value into a new entry. */
static void write_value(struct img_map *map, void *to, const void *value, u64 flags)
{
	if (is_of_maps(map)) {
		*(void **)to = img_map_of(*(const int *)value);
		return;
	}
	value_copied(map, to, value);
	if (map->about.nr_fields && !(flags & BPF_F_LOCK))
		fields_end(map, to, !is_array(map));
}

/* The values of a key that is to be written, of all CPUs. */
static void *place_to_write(struct img_map *map, const void *key, u64 flags, long *failed)
{
	if (is_array(map)) {
		u32 index = *(const u32 *)key;
		u64 what = flags & ~(u64)BPF_F_LOCK;

		*failed = what > BPF_EXIST ? -EINVAL : index >= map->about.max_entries ? -E2BIG :
			  what == BPF_NOEXIST ? -EEXIST : 0;
		return (char *)map->values + values_of_key(map) * index;
	}
	if (is_hash(map)) {
		struct img_entry *entry = entry_to_write(map, key, flags, failed);

		return entry ? entry->values : NULL;
	}
	*failed = -EOPNOTSUPP;
	return NULL;
}

/* Writes a key's value; of a map by CPU, the entered CPU's. Errors are those of a kernel. */
long img_map_write(struct img_map *map, const void *key, const void *value, u64 flags)
{
	long failed;
	char *to = place_to_write(map, key, flags, &failed);

	if (failed)
		return failed;
	write_value(map, to + (is_by_cpu(map) ? (unsigned long)map->value_bytes * img_cpu : 0), value, flags);
	return 0;
}

/* The same for all CPUs of a map by CPU, in their order. */
static long write_all(struct img_map *map, const void *key, const char *value, u64 flags)
{
	unsigned long size = values_of_key(map), at;
	long failed;
	char *to = place_to_write(map, key, flags, &failed);

	for (at = 0; !failed && at < size; at += map->value_bytes)
		write_value(map, to + at, value + at, flags);
	return failed;
}

long img_map_delete(struct img_map *map, const void *key)
{
	struct img_entry *entry;

	if (!is_hash(map))
		return -EINVAL;
	entry = entry_of(map, key);
	if (!entry)
		return -ENOENT;
	drop(map, entry);
	return 0;
}

/* The value that belongs to a task or a cgroup. */
void *img_map_owned(struct img_map *map, const void *owner, const void *first, bool make)
{
	struct img_entry *entry;

	if (!owner)
		return NULL;
	entry = entry_of(map, &owner);
	if (!entry && make) {
		entry = add(map, &owner);
		if (first)
			value_copied(map, entry->values, first);
	}
	return entry ? entry->values : NULL;
}
