// SPDX-License-Identifier: GPL-2.0-only
/*
 * Task groups as cgroups that sched_ext can walk: parents, children, levels. Stands for the walks of
 * kernel/cgroup/cgroup.c.
 */
#include "image.h"
#include <linux/cgroup.h>
#include <linux/kernfs.h>

struct cgroup_root cgrp_dfl_root;
struct mutex cgroup_mutex;

bool cgroup_on_dfl(const struct cgroup *cgroup)
{
	return cgroup->root == &cgrp_dfl_root;
}

/* The next one of a walk that has a css before its children; the first one if `at` is NULL. */
struct cgroup_subsys_state *css_next_descendant_pre(struct cgroup_subsys_state *at, struct cgroup_subsys_state *root)
{
	if (!at)
		return root;
	if (!list_empty(&at->children))
		return list_first_entry(&at->children, struct cgroup_subsys_state, sibling);
	for (; at != root; at = at->parent)
		if (!list_is_last(&at->sibling, &at->parent->children))
			return list_next_entry(at, sibling);
	return NULL;
}
static struct cgroup_subsys_state *first_leaf(struct cgroup_subsys_state *at)
{
	while (!list_empty(&at->children))
		at = list_first_entry(&at->children, struct cgroup_subsys_state, sibling);
	return at;
}
/* The same with children first. */
struct cgroup_subsys_state *css_next_descendant_post(struct cgroup_subsys_state *at, struct cgroup_subsys_state *root)
{
	if (!at)
		return first_leaf(root);
	if (at == root)
		return NULL;
	if (!list_is_last(&at->sibling, &at->parent->children))
		return first_leaf(list_next_entry(at, sibling));
	return at->parent;
}

static struct cgroup **by_id;
static unsigned long ids;
struct cgroup *img_cgroup_of(u64 id)
{
	return id < ids ? by_id[id] : NULL;
}

/* The next child of a css; the first one if `at` is NULL. */
struct cgroup_subsys_state *css_next_child(struct cgroup_subsys_state *at, struct cgroup_subsys_state *parent)
{
	if (!at)
		return list_first_entry_or_null(&parent->children, struct cgroup_subsys_state, sibling);
	return list_is_last(&at->sibling, &parent->children) ? NULL : list_next_entry(at, sibling);
}

static void join(struct cgroup_subsys_state *css, struct cgroup_subsys_state *parent)
{
	INIT_LIST_HEAD(&css->children);
	INIT_LIST_HEAD(&css->sibling);
	css->parent = parent;
	css->flags |= CSS_NO_REF | CSS_ONLINE | CSS_VISIBLE;
	if (parent)
		list_add_tail(&css->sibling, &parent->children);
}

/* A group's cgroup, which has room for as many ancestors as it has levels. `id`: 1 is the root's. */
void img_cgroup_join(struct cgroup *cgroup, struct cgroup_subsys_state *css, u64 id)
{
	struct cgroup *parent = css->parent ? css->parent->cgroup : NULL;

	if (id >= ids) {
		unsigned long larger = max(2 * id, 64ULL);

		by_id = img_grown(by_id, ids, larger);
		ids = larger;
	}
	by_id[id] = cgroup;
	cgroup->root = &cgrp_dfl_root;
	cgroup->kn = img_alloc(sizeof(*cgroup->kn));
	cgroup->kn->id = id;
	cgroup->level = parent ? parent->level + 1 : 0;
	if (parent)
		memcpy(cgroup->ancestors, parent->ancestors, cgroup->level * sizeof(parent));
	cgroup->ancestors[cgroup->level] = cgroup;
	join(&cgroup->self, parent ? &parent->self : NULL);
	join(css, css->parent);
#ifdef CONFIG_EXT_SUB_SCHED
	if (parent)
		RCU_INIT_POINTER(cgroup->scx_sched, rcu_access_pointer(parent->scx_sched));
#endif
}

/* fs/kernfs: a cgroup has a number and no name. */
int kernfs_path_from_node(struct kernfs_node *to, struct kernfs_node *from, char *text, size_t size)
{
	return snprintf(text, size, "/%llu", to->id);
}
