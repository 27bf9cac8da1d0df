// SPDX-License-Identifier: GPL-2.0-only
/*
 * Objects that programs allocate, and the lists and trees that they put them into. Stands for bpf_obj_*, bpf_list_* and
 * bpf_rbtree_* of kernel/bpf/helpers.c.
 *
 * A program names an object's type by its number in the program's own BTF. A kernel's verifier puts its size there;
 * here sizes come from the engine. Each function has a second name, with _impl, that older programs call.
 */
static const struct img_bpf_type *types;
static unsigned int nr_types;
static void **unused_objects;		/* by type */

struct object {
	u64 type;
	struct object *chain;		/* of unused ones */
};

void img_bpf_types(const struct img_bpf_type *all, unsigned int nr)
{
	types = all;
	nr_types = nr;
	unused_objects = img_alloc(nr * sizeof(*unused_objects));
}
static const struct img_bpf_type *type_of(u64 id)
{
	if (id >= nr_types || !types[id].bytes)
		img_bpf_dies("it makes an object of type %llu, which its BTF does not have", id);
	return &types[id];
}

static refcount_t *references(void *object)
{
	u64 type = ((struct object *)object)[-1].type;

	return types[type].refcount_at < 0 ? NULL : (refcount_t *)((char *)object + types[type].refcount_at);
}
static void *object_new(u64 id)
{
	const struct img_bpf_type *type = type_of(id);
	struct object *object = unused_objects[id];

	if (object)
		unused_objects[id] = object->chain;
	else
		object = img_alloc(sizeof(*object) + type->bytes);
	object->type = id;
	memset(object + 1, 0, type->bytes);
	if (type->refcount_at >= 0)
		refcount_set(references(object + 1), 1);
	return object + 1;
}
static void object_drop(void *at)
{
	struct object *object = (struct object *)at - 1;
	refcount_t *count;

	if (!at)
		return;
	count = references(at);
	if (count && !refcount_dec_and_test(count))
		return;
	object->chain = unused_objects[object->type];
	unused_objects[object->type] = object;
}

/* A list's head is zeros as long as nobody has used it. */
static struct list_head *list_of(struct bpf_list_head *head)
{
	struct list_head *list = (void *)head;

	if (!list->next)
		INIT_LIST_HEAD(list);
	return list;
}
/*
 * A kernel drops the caller's reference to a node that is on a list or a tree already. A verifier says where the
 * object begins; nobody does here, and the object stays.
 */
static int list_put(struct bpf_list_head *head, struct bpf_list_node *node, struct list_head *behind)
{
	struct bpf_list_node_kern *it = (void *)node;

	if (it->owner)
		return -EINVAL;
	list_add(&it->list_head, behind);
	it->owner = head;
	return 0;
}
static struct bpf_list_node *list_take(struct bpf_list_head *head, struct list_head *at)
{
	struct bpf_list_node_kern *it = container_of(at, struct bpf_list_node_kern, list_head);

	if (list_empty(list_of(head)) || it->owner != head)
		return NULL;
	list_del_init(at);
	it->owner = NULL;
	return (void *)it;
}

static int tree_add(struct bpf_rb_root *root, struct bpf_rb_node *node, void *less)
{
	struct rb_root_cached *tree = (void *)root;
	struct rb_node **link = &tree->rb_root.rb_node, *parent = NULL;
	struct bpf_rb_node_kern *it = (void *)node;
	bool leftmost = true;

	if (it->owner)
		return -EINVAL;
	while (*link) {
		parent = *link;
		if (img_bpf_call((long)less, (u64)node, (u64)parent, 0, 0, 0)) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			leftmost = false;
		}
	}
	rb_link_node(&it->rb_node, parent, link);
	rb_insert_color_cached(&it->rb_node, tree, leftmost);
	it->owner = root;
	return 0;
}
static bool is_in(struct bpf_rb_root *root, struct bpf_rb_node *node)
{
	return ((struct bpf_rb_node_kern *)node)->owner == root;
}

__bpf_kfunc_start_defs();

__bpf_kfunc void *bpf_obj_new(u64 local_type_id__k, struct btf_struct_meta *meta)
{
	return object_new(local_type_id__k);
}
__bpf_kfunc void *bpf_obj_new_impl(u64 local_type_id__k, void *meta__ign)
{
	return object_new(local_type_id__k);
}
__bpf_kfunc void bpf_obj_drop(void *p__alloc, struct btf_struct_meta *meta)
{
	object_drop(p__alloc);
}
__bpf_kfunc void bpf_obj_drop_impl(void *p__alloc, void *meta__ign)
{
	object_drop(p__alloc);
}
__bpf_kfunc void *bpf_percpu_obj_new(u64 local_type_id__k, struct btf_struct_meta *meta)
{
	return (void __force *)__alloc_percpu(type_of(local_type_id__k)->bytes, 8);
}
__bpf_kfunc void *bpf_percpu_obj_new_impl(u64 local_type_id__k, void *meta__ign)
{
	return bpf_percpu_obj_new(local_type_id__k, meta__ign);
}
__bpf_kfunc void bpf_percpu_obj_drop(void *p__alloc, struct btf_struct_meta *meta)
{
	free_percpu((void __percpu __force *)p__alloc);
}
__bpf_kfunc void bpf_percpu_obj_drop_impl(void *p__alloc, void *meta__ign)
{
	bpf_percpu_obj_drop(p__alloc, meta__ign);
}
__bpf_kfunc void *bpf_refcount_acquire(void *p__refcounted_kptr, struct btf_struct_meta *meta)
{
	return refcount_inc_not_zero(references(p__refcounted_kptr)) ? p__refcounted_kptr : NULL;
}
__bpf_kfunc void *bpf_refcount_acquire_impl(void *p__refcounted_kptr, void *meta__ign)
{
	return bpf_refcount_acquire(p__refcounted_kptr, meta__ign);
}

__bpf_kfunc int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node,
				    struct btf_struct_meta *meta, u64 off)
{
	return list_put(head, node, list_of(head));
}
__bpf_kfunc int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta__ign,
					 u64 off)
{
	return list_put(head, node, list_of(head));
}
__bpf_kfunc int bpf_list_push_back(struct bpf_list_head *head, struct bpf_list_node *node,
				   struct btf_struct_meta *meta, u64 off)
{
	return list_put(head, node, list_of(head)->prev);
}
__bpf_kfunc int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta__ign,
					u64 off)
{
	return list_put(head, node, list_of(head)->prev);
}
__bpf_kfunc struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head)
{
	return list_take(head, list_of(head)->next);
}
__bpf_kfunc struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head)
{
	return list_take(head, list_of(head)->prev);
}
__bpf_kfunc struct bpf_list_node *bpf_list_front(struct bpf_list_head *head)
{
	struct list_head *list = list_of(head);

	return list_empty(list) ? NULL : (struct bpf_list_node *)list->next;
}
__bpf_kfunc struct bpf_list_node *bpf_list_back(struct bpf_list_head *head)
{
	struct list_head *list = list_of(head);

	return list_empty(list) ? NULL : (struct bpf_list_node *)list->prev;
}

__bpf_kfunc int bpf_rbtree_add(struct bpf_rb_root *root, struct bpf_rb_node *node,
			       bool (less)(struct bpf_rb_node *a, const struct bpf_rb_node *b),
			       struct btf_struct_meta *meta, u64 off)
{
	return tree_add(root, node, less);
}
__bpf_kfunc int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
				    bool (less)(struct bpf_rb_node *a, const struct bpf_rb_node *b),
				    void *meta__ign, u64 off)
{
	return tree_add(root, node, less);
}
__bpf_kfunc struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node)
{
	struct bpf_rb_node_kern *it = (void *)node;

	if (!is_in(root, node))
		return NULL;
	rb_erase_cached(&it->rb_node, (struct rb_root_cached *)root);
	RB_CLEAR_NODE(&it->rb_node);
	it->owner = NULL;
	return node;
}
__bpf_kfunc struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root)
{
	return (struct bpf_rb_node *)rb_first_cached((struct rb_root_cached *)root);
}
__bpf_kfunc struct bpf_rb_node *bpf_rbtree_root(struct bpf_rb_root *root)
{
	return (struct bpf_rb_node *)((struct rb_root_cached *)root)->rb_root.rb_node;
}
__bpf_kfunc struct bpf_rb_node *bpf_rbtree_left(struct bpf_rb_root *root, struct bpf_rb_node *node)
{
	return is_in(root, node) ? (void *)((struct bpf_rb_node_kern *)node)->rb_node.rb_left : NULL;
}
__bpf_kfunc struct bpf_rb_node *bpf_rbtree_right(struct bpf_rb_root *root, struct bpf_rb_node *node)
{
	return is_in(root, node) ? (void *)((struct bpf_rb_node_kern *)node)->rb_node.rb_right : NULL;
}

__bpf_kfunc_end_defs();
