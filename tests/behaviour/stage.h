/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BEHAVE_STAGE_H
#define BEHAVE_STAGE_H

#include <stdatomic.h>

#include "harness.h"

/* What the parts of one play share: private to the harness (harness.c, proc.c). */
struct actor {
	char name[32];
	_Atomic size_t size;
	char text[ACTOR_TEXT];
};

enum { POST_SERVER_DONE = POSTS, POST_CLIENT_DONE, POST_PORT, POST_WARM, POSTS_ALL };

struct stage {
	_Atomic int posts[POSTS_ALL];
	_Atomic long values[POSTS];
	_Atomic int port;
	struct actor actor[ACTORS];
};

extern struct stage *stage;

const struct scenario *scenario_first(void);

#endif
