/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_BUG_H
#define _SIM_BUG_H
/* The generic macros, except that each WARN and BUG knows its place and condition for image/reports.c. */
#include <asm-generic/bug.h>
#if !defined(__ASSEMBLY__) && !defined(__ASSEMBLER__)
struct img_place {
	const char *file, *function;
	const char *condition;		/* NULL without one */
	int line;
};
extern __attribute__((cold)) void img_warn(const struct img_place *place);
extern __attribute__((cold, format(printf, 2, 3))) void img_warn_text(const struct img_place *place,
								      const char *format, ...);
extern __attribute__((cold, noreturn)) void img_bug(const struct img_place *place);
#define IMG_PLACE(text) ({								\
	static const struct img_place __place = { __FILE__, __func__, text, __LINE__ };	\
	&__place;									\
})
#define IMG_WARN_IF(cond, report) ({							\
	int __ret_warn = !!(cond);							\
	if (unlikely(__ret_warn))							\
		report;									\
	unlikely(__ret_warn);								\
})
#define IMG_WARN_ONCE_IF(cond, report) ({						\
	static bool __warned;								\
	int __ret_warn = !!(cond);							\
	if (unlikely(__ret_warn && !__warned)) {					\
		__warned = true;							\
		report;									\
	}										\
	unlikely(__ret_warn);								\
})
#undef WARN_ON
#undef WARN
#undef WARN_TAINT
#undef WARN_ON_ONCE
#undef WARN_ONCE
#undef WARN_TAINT_ONCE
#undef BUG
#undef BUG_ON
#define WARN_ON(cond) IMG_WARN_IF(cond, img_warn(IMG_PLACE(#cond)))
#define WARN_ON_ONCE(cond) IMG_WARN_ONCE_IF(cond, img_warn(IMG_PLACE(#cond)))
#define WARN(cond, format...) IMG_WARN_IF(cond, img_warn_text(IMG_PLACE(#cond), format))
#define WARN_ONCE(cond, format...) IMG_WARN_ONCE_IF(cond, img_warn_text(IMG_PLACE(#cond), format))
#define WARN_TAINT(cond, taint, format...) WARN(cond, format)
#define WARN_TAINT_ONCE(cond, taint, format...) WARN_ONCE(cond, format)
#define BUG() img_bug(IMG_PLACE(NULL))
#define BUG_ON(cond) do { if (unlikely(cond)) img_bug(IMG_PLACE(#cond)); } while (0)
#endif
#endif
