// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps of BPF: arrays, hashes, storage of tasks and groups, queues. Stands for arraymap.c, hashtab.c,
 * queue_stack_maps.c and bpf_local_storage.c of kernel/bpf. A hash is walked in the order of insertion, in which a
 * kernel's is random: a scheduler that depends on it would differ from boot to boot.
 */
#define MOST_BUCKETS 65536
static struct img_map **maps;
static int nr_maps, map_room;
static bool maps_over;		/* their scheduler has gone: the next one's are numbered from 0 */

static bool is_by_cpu(const struct img_map *map)
{
	switch (map->about.kind) {
	case BPF_MAP_TYPE_PERCPU_ARRAY:
	case BPF_MAP_TYPE_PERCPU_HASH:
	case BPF_MAP_TYPE_LRU_PERCPU_HASH:
		return true;
	}
	return false;
}
static bool is_array(const struct img_map *map)
{
	switch (map->about.kind) {
	case BPF_MAP_TYPE_ARRAY:
	case BPF_MAP_TYPE_PERCPU_ARRAY:
	case BPF_MAP_TYPE_ARRAY_OF_MAPS:
		return true;
	}
	return false;
}
static bool is_of_maps(const struct img_map *map)
{
	return map->about.kind == BPF_MAP_TYPE_ARRAY_OF_MAPS || map->about.kind == BPF_MAP_TYPE_HASH_OF_MAPS;
}
/* Its keys are tasks or cgroups, by address. */
static bool is_storage(const struct img_map *map)
{
	return map->about.kind == BPF_MAP_TYPE_TASK_STORAGE || map->about.kind == BPF_MAP_TYPE_CGRP_STORAGE;
}
static bool is_hash(const struct img_map *map)
{
	switch (map->about.kind) {
	case BPF_MAP_TYPE_HASH:
	case BPF_MAP_TYPE_LRU_HASH:
	case BPF_MAP_TYPE_PERCPU_HASH:
	case BPF_MAP_TYPE_LRU_PERCPU_HASH:
	case BPF_MAP_TYPE_HASH_OF_MAPS:
		return true;
	}
	return is_storage(map);
}
static bool is_lru(const struct img_map *map)
{
	return map->about.kind == BPF_MAP_TYPE_LRU_HASH || map->about.kind == BPF_MAP_TYPE_LRU_PERCPU_HASH;
}
static bool is_queue(const struct img_map *map)
{
	return map->about.kind == BPF_MAP_TYPE_QUEUE || map->about.kind == BPF_MAP_TYPE_STACK;
}
/* What is written to it goes to user space, or nowhere. */
static bool is_sink(const struct img_map *map)
{
	return map->about.kind == BPF_MAP_TYPE_RINGBUF || map->about.kind == BPF_MAP_TYPE_USER_RINGBUF ||
	       map->about.kind == BPF_MAP_TYPE_PERF_EVENT_ARRAY;
}

static unsigned long values_of_key(const struct img_map *map)
{
	return (unsigned long)map->value_bytes * (is_by_cpu(map) ? nr_cpu_ids : 1);
}

static void *arena_new(struct img_map *map);
static int prepare(struct img_map *map)
{
	struct img_bpf_map *about = &map->about;

	map->value_bytes = round_up(is_of_maps(map) ? sizeof(void *) : about->value_bytes, 8);
	if (is_storage(map))
		about->key_bytes = sizeof(void *);
	if (is_array(map) || is_queue(map)) {
		map->values = about->memory ?: img_alloc(values_of_key(map) * about->max_entries + 64);
		return 0;
	}
	if (is_hash(map)) {
		map->nr_buckets = 64;
		while (map->nr_buckets < about->max_entries && map->nr_buckets < MOST_BUCKETS)
			map->nr_buckets *= 2;
		map->buckets = img_alloc(map->nr_buckets * sizeof(*map->buckets));
		return 0;
	}
	if (about->kind == BPF_MAP_TYPE_ARENA) {
		map->values = arena_new(map);
		return 0;
	}
	return is_sink(map) ? 0 : -EOPNOTSUPP;
}

int img_bpf_map_new(const struct img_bpf_map *about)
{
	struct img_map *map = img_alloc(sizeof(*map));
	int failed;

	if (maps_over)
		nr_maps = 0;
	maps_over = false;
	if (nr_maps == map_room) {
		int larger = max(2 * map_room, 64);

		maps = img_grown(maps, map_room, larger);
		map_room = larger;
	}
	map->about = *about;
	map->about.name = kstrdup(about->name, GFP_KERNEL);
	failed = prepare(map);
	if (failed)
		return failed;
	/* What each look asks for. */
	map->key_stride = values_of_key(map);
	map->is_array = is_array(map);
	map->is_hash = is_hash(map);
	map->is_by_cpu = is_by_cpu(map);
	map->is_of_maps = is_of_maps(map);
	map->is_lru = is_lru(map);
	maps[nr_maps] = map;
	map->number = nr_maps;
	return nr_maps++;
}
struct img_map *img_map_of(int number)
{
	return number >= 0 && number < nr_maps ? maps[number] : NULL;
}
void *img_bpf_map_at(int number)
{
	return img_map_of(number);
}
void *img_bpf_map_values(int number)
{
	return img_map_of(number)->values;
}

static struct img_entry **bucket_of(struct img_map *map, const void *key)
{
	const unsigned char *at = key;
	u64 hash = 0xcbf29ce484222325ULL;
	u32 i;

	if (map->about.key_bytes == 8) {
		hash = get_unaligned((const u64 *)key) * 0x9e3779b97f4a7c15ULL;
		return &map->buckets[hash >> 32 & (map->nr_buckets - 1)];
	}
	for (i = 0; i < map->about.key_bytes; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ULL;
	return &map->buckets[(hash ^ hash >> 29) & (map->nr_buckets - 1)];
}

static bool has_key(const struct img_map *map, const struct img_entry *entry, const void *key)
{
	if (map->about.key_bytes == 8)
		return *(const u64 *)entry->key == get_unaligned((const u64 *)key);
	return !memcmp(entry->key, key, map->about.key_bytes);
}
static struct img_entry *entry_of(struct img_map *map, const void *key)
{
	struct img_entry *entry = *bucket_of(map, key);

	while (entry && !has_key(map, entry, key))
		entry = entry->chain;
	return entry;
}

/* Storage grows with the tasks or groups, of which a map does not say how many there will be. */
static void grow(struct img_map *map)
{
	struct img_entry *entry, **bucket;

	map->nr_buckets *= 4;
	map->buckets = img_alloc(map->nr_buckets * sizeof(*map->buckets));
	for (entry = map->first; entry; entry = entry->next) {
		bucket = bucket_of(map, entry->key);
		entry->chain = *bucket;
		*bucket = entry;
	}
}

static void append(struct img_map *map, struct img_entry *entry)
{
	entry->next = NULL;
	entry->prev = map->last;
	*(map->last ? &map->last->next : &map->first) = entry;
	map->last = entry;
}
static void cut(struct img_map *map, struct img_entry *entry)
{
	*(entry->prev ? &entry->prev->next : &map->first) = entry->next;
	*(entry->next ? &entry->next->prev : &map->last) = entry->prev;
}

static struct img_entry *add(struct img_map *map, const void *key)
{
	struct img_entry **bucket, *entry = map->unused;

	if (map->nr >= map->nr_buckets && map->nr_buckets < MOST_BUCKETS)
		grow(map);
	bucket = bucket_of(map, key);
	if (entry) {
		map->unused = entry->chain;
	} else {
		entry = img_alloc(sizeof(*entry));
		entry->key = img_alloc(map->about.key_bytes);
		entry->values = img_alloc(values_of_key(map));
	}
	memcpy(entry->key, key, map->about.key_bytes);
	memset(entry->values, 0, values_of_key(map));
	entry->chain = *bucket;
	*bucket = entry;
	append(map, entry);
	map->nr++;
	return entry;
}

static void drop(struct img_map *map, struct img_entry *entry)
{
	struct img_entry **at = bucket_of(map, entry->key);
	unsigned long place;

	for (place = 0; map->about.nr_fields && place < values_of_key(map); place += map->value_bytes)
		fields_end(map, (char *)entry->values + place, true);
	while (*at != entry)
		at = &(*at)->chain;
	*at = entry->chain;
	cut(map, entry);
	entry->chain = map->unused;
	map->unused = entry;
	map->nr--;
}

/* The value of a key, for a CPU; NULL: none is there. A map's value in a map of maps is that map. */
void *img_map_find(struct img_map *map, const void *key, int cpu)
{
	struct img_entry *entry;
	char *value;

	if (map->is_array) {
		u32 index = *(const u32 *)key;

		if (index >= map->about.max_entries)
			return NULL;
		value = (char *)map->values + map->key_stride * index;
	} else if (map->is_hash) {
		entry = entry_of(map, key);
		if (!entry)
			return NULL;
		if (map->is_lru) {
			cut(map, entry);
			append(map, entry);
		}
		value = entry->values;
	} else {
		return NULL;
	}
	value += map->is_by_cpu ? (unsigned long)map->value_bytes * cpu : 0;
	return map->is_of_maps ? *(void **)value : value;
}
