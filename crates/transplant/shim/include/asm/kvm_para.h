/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_KVM_PARA_H
#define _SIM_KVM_PARA_H
/* The haltpoll governor registers only under a hypervisor. The machine decides whether to use it. */
static inline bool kvm_para_available(void)
{
	return true;
}
static inline bool kvm_check_and_clear_guest_paused(void)
{
	return false;
}
static inline unsigned int kvm_arch_para_features(void)
{
	return 0;
}
static inline unsigned int kvm_arch_para_hints(void)
{
	return 0;
}
#endif
