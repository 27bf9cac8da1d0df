/* SPDX-License-Identifier: GPL-2.0-only */

/* Shared by fleet.c and fleet_state.c: the state of a machine about which the fair class is asked. */
#ifndef IMG_FLEET_H
#define IMG_FLEET_H
#include "image.h"

extern struct task_struct *img_fleet_tasks[IMG_FLEET_TASKS];
extern struct task_group *img_fleet_group;
int img_fleet_prepare(void);		/* once, at rest */
void img_fleet_keep(void *at, unsigned long size);	/* memory that a state may change */
void img_fleet_build(const struct img_fleet *fleet);
void img_fleet_rest(unsigned int nr_tasks);
void img_fleet_capacities(void);	/* capacities that real-time tasks leave */
struct sched_domain *img_fleet_domain(const struct img_fleet *fleet, unsigned int level);
#endif
