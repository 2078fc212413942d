/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * Changes the controller of connections in progress, those of one network namespace.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define NAME 16

/* Settings of the loader. crates/kernel/src/existing.rs writes them. */
struct settings {
	char to[NAME]; /* the controller that they get */
	char from[NAME]; /* only those that have this one; empty for all */
	__u64 group; /* only those of this control group */
	__s32 level; /* its depth; -1 for all groups */
	__u32 port; /* only those with this local port; 0 for all */
};
const volatile struct settings settings = { .level = -1 };

__u64 changed;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};
struct sock_cgroup_data {
	struct cgroup *cgroup;
};
struct sock___group {
	struct sock_cgroup_data sk_cgrp_data;
};
struct bpf_iter__tcp {
	struct sock_common *sk_common;
};
#pragma clang attribute pop

enum { IPPROTO_TCP = 6, TCP_CONGESTION = 13 };
enum { TCP_ESTABLISHED = 1, TCP_CLOSE_WAIT = 8, TCP_LISTEN = 10 };

/* True if the connection belongs to the control group, or to one below it. */
static __always_inline bool is_member(struct sock_common *connection)
{
	struct sock___group *sk = (struct sock___group *)connection;
	struct cgroup *cgroup, *above = 0;

	if (settings.level < 0)
		return 1;
	cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	if (!cgroup || BPF_CORE_READ(cgroup, level) < settings.level)
		return 0;
	bpf_core_read(&above, sizeof(above), &cgroup->ancestors[settings.level]);
	return above && BPF_CORE_READ(above, kn, id) == settings.group;
}

SEC("iter/tcp")
int change(struct bpf_iter__tcp *ctx)
{
	struct sock_common *connection = ctx->sk_common;
	char name[NAME] = {};

	if (!connection)
		return 0;
	if (connection->skc_state != TCP_ESTABLISHED && connection->skc_state != TCP_CLOSE_WAIT &&
	    connection->skc_state != TCP_LISTEN)
		return 0;
	if (settings.port && connection->skc_num != settings.port)
		return 0;
	if (!is_member(connection))
		return 0;
	if (settings.from[0]) {
		if (bpf_getsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, name, NAME))
			return 0;
		for (int i = 0; i < NAME; i++) {
			if (name[i] != settings.from[i])
				return 0;
			if (!name[i])
				break;
		}
	}
	for (int i = 0; i < NAME; i++)
		name[i] = settings.to[i];
	if (!bpf_setsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, name, NAME))
		__sync_fetch_and_add(&changed, 1);
	return 0;
}
